#!/usr/bin/env bash
# How fast text becomes tokens: sentencepiece, spm_encode where it is installed, Hugging Face tokenizers and lmtrain, on the same
# documents, in turn. By hand; needs the network once, for the Python environment of check_transformers.sh.
#   scripts/bench_tokenizer.sh [PATH...]      documents: files, folders, patterns; default: the Python sources of libtorch's wheel
#     --model FILE     a sentencepiece BPE model; default: one of 16384 pieces trained on them
#     --rounds N       each way once a round; medians are taken (default 5)
#     --json FILE      writes all figures there
#   scripts/bench_tokenizer.sh --large [PATH...]   time and peak memory of preparing 1, 2, 5 and 10 GB of text, made by repeating and
#                                             perturbing the documents; needs 25 GB of disk at --work
#     --sizes "1 2"    in GB
#     --threads N      default 2
#     --work DIR       default: a folder in /tmp, removed at the end
#   scripts/bench_tokenizer.sh --rules [PATH...]   lmtrain, gigatoken, tiktoken and tokenizers by byte-level BPE, side by side: code (the
#                                             documents) and generated text of several scripts, each rule that cuts text: cold, new
#                                             (the second half after the first) and again, in MB a second of one processor; ids
#                                             are compared
#     --megabytes N    of each text (default 20)
#     --vocabulary N   tokens, trained on all texts (default 50000)
#     --only "RULE..." gpt2, llama3, qwen2, o200k, smollm; default: all
#     --python FILE    an interpreter that has the packages; default: an environment made in the work folder
# LMTRAIN_BUILD names another build folder than build. Nothing else should run on the machine.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case "${1:-}" in -h | --help) print_help "$0"; exit ;; esac
harness=${LMTRAIN_BUILD:-$repo_root/build}/bench_tokenizer
[ -x "$harness" ] || fail "no $harness: build it with scripts/build.sh"
arguments=("$@")
sources=$("$repo_root/scripts/setup.sh" --print-torch-root)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=python3
[[ " $* " == *" --large "* || " $* " == *" --rules "* ]] || python=$("$repo_root/scripts/check_transformers.sh" --python)
if [[ " $* " == *" --rules "* && " $* " != *" --python "* ]]; then
  python=$work/venv/bin/python
  python3 -m venv "$work/venv" || fail "python3 -m venv failed; on Debian: apt install python3-venv"
  "$python" -m pip --quiet --disable-pip-version-check install gigatoken==0.10.0 tiktoken tokenizers >&2 ||
    fail "pip could not install gigatoken, tiktoken and tokenizers"
elif [[ " $* " == *" --rules "* ]]; then
  python=$(sed -E 's/.* --python ([^ ]+) .*/\1/' <<<" $* ")
fi
"$python" "$repo_root/scripts/bench_tokenizer.py" --harness "$harness" --default-documents "$sources/**/*.py" --work "$work" "${arguments[@]}"
