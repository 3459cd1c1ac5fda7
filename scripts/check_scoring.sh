#!/usr/bin/env bash
# Are answers of `eval --score` those of lm-eval, and results of `eval --tasks` those of transformers? By hand; needs the network once.
#   scripts/check_scoring.sh                   three short runs of configs/tiny.json: with a sentencepiece model, and with a tokenizer.json
#                                              with and without BOS
#   scripts/check_scoring.sh CHECKPOINT...     checkpoints, or Llama folders of transformers
# Each is asked 500 requests, and 500 records or more of each type of task (tests/reference/scoring.py and tasks.py --compare). Prints a
# line for each; exit code 1 when a log-likelihood differs by more than 1e-4, or a result of a task by more than 1e-5.
# lm-eval is put into an environment of its own in the cache (LMTRAIN_CACHE), on top of that of scripts/check_transformers.sh.
# LMTRAIN_BINARY names another lmtrain than build/lmtrain.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case "${1:-}" in -h | --help) print_help "$0"; exit ;; esac

export TQDM_DISABLE=1 TRANSFORMERS_VERBOSITY=error
export LMTRAIN_BINARY=${LMTRAIN_BINARY:-$repo_root/build/lmtrain}
[ -x "$LMTRAIN_BINARY" ] || fail "no $LMTRAIN_BINARY: build it with scripts/build.sh"
base=$("$repo_root/scripts/check_transformers.sh" --python)
venv=$(dirname "$(dirname "$base")")-lm-eval
packages=(lm-eval==0.4.13)
mapfile -t pins < <(grep -v '^#' "$repo_root/tests/reference/requirements.txt")
wanted="${packages[*]} ${pins[*]}"
if [ "$(cat "$venv/requirements.installed" 2>/dev/null)" != "$wanted" ]; then
  say "Making a virtual environment for lm-eval in $venv (0.7 GB)"
  rm -rf "$venv"
  python3 -m venv "$venv" || fail "python3 -m venv failed; on Debian: apt install python3-venv"
  # torch and transformers are taken from the other environment; they are named so that pip keeps their versions.
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  "$base" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$site/check_transformers.pth"
  "$venv/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check "${packages[@]}" "${pins[@]}" >&2 ||
    fail "pip could not install: ${packages[*]}"
  printf '%s\n' "$wanted" >"$venv/requirements.installed"
fi

folders=("$@")
if [ $# -eq 0 ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cd "$repo_root"
  common=(configs/tiny.json --set device=cpu --set precision=fp32 --set "data.cache_dir=$work/cache")
  "$LMTRAIN_BINARY" train "${common[@]}" --run-dir "$work/sentencepiece" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "no run"; }
  for bos in true false; do
    "$LMTRAIN_BINARY" train "${common[@]}" --set tokenizer.train.type=byte_bpe --set "tokenizer.add_bos=$bos" \
      --run-dir "$work/byte_bpe_bos_$bos" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "no run"; }
  done
  for run in "$work"/sentencepiece "$work"/byte_bpe_bos_*; do
    folders+=("$(find "$run/checkpoints" -maxdepth 1 -name 'step_*' | sort | tail -n 1)")
  done
fi
status=0
for comparison in scoring tasks; do
  "$venv/bin/python" "$repo_root/tests/reference/$comparison.py" --compare "${folders[@]}" || status=1
done
exit $status
