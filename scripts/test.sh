#!/usr/bin/env bash
# Sets up, builds and runs the tests through ctest.
#   scripts/test.sh                   all tests
#   scripts/test.sh unit layers       the tests with these labels: unit, layers, e2e, gpu
#   scripts/test.sh -R adamw          any ctest options (the first argument begins with a dash)
#   LMTRAIN_PRESET=core|debug|asan    another preset of CMakePresets.json; default release
# Variables of scripts/setup.sh and scripts/build.sh hold here too.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$repo_root"

preset=${LMTRAIN_PRESET:-release}
case "${1:-}" in
  -h | --help) print_help "$0"; exit ;;
  '' | -*) selection=("$@") ;;
  *) selection=(--label-regex "^($(IFS='|'; echo "$*"))\$") ;;
esac

step "1/3 setup"
if [ "$preset" = core ]; then scripts/setup.sh --core; else scripts/setup.sh; fi
step "2/3 build ($preset)"
scripts/build.sh "$preset"
step "3/3 test"
ctest --preset "$preset" --parallel "$(num_jobs)" --no-tests=error "${selection[@]}"
