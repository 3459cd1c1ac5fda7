#!/usr/bin/env bash
# From a fresh clone to a trained model: sets up, builds, trains a small Llama for two minutes on the Python sources
# inside the torch wheel (configs/quickstart.json), and prints text that it writes.
#   scripts/quickstart.sh [options of `lmtrain train`]       e.g. --set train.time=10min
# Stop it at any time; the same command goes on where it stopped. The run is in runs/quickstart.
# Variables of scripts/setup.sh and scripts/build.sh hold here too.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$repo_root"
case "${1:-}" in -h | --help) print_help "$0"; exit ;; esac

readonly run=runs/quickstart
readonly prompt=$'def forward(self, x):\n'

step "1/4 setup"
scripts/setup.sh
LMTRAIN_CORPUS=$(scripts/setup.sh --print-torch-root)
export LMTRAIN_CORPUS

step "2/4 build"
scripts/build.sh release lmtrain

step "3/4 train ($run)"
build/lmtrain train configs/quickstart.json --run-dir "$run" --continue "$@"

step "4/4 sample"
build/lmtrain generate "$run" --prompt "$prompt" --max-tokens 120 --temperature 0.7 --top-p 0.9 --seed 1

step
say "" "Done in $SECONDS s. The run is $run; next: build/lmtrain eval $run, or a config of your own (README.md)."
