#!/usr/bin/env bash
# Refuses every open, opendir, readdir, read and stat of a preparation, a run and a resume, with each of four errors, once, three
# times and for good, and checks what comes of each (tests/e2e/system/faults_test.cpp). Takes about an hour on two cores.
#   scripts/fault_sweep.sh [BUILD_FOLDER] [PARTS] [PART...]    default: build, 16, all parts; as many at once as there are cores
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
build=${1:-$repo_root/build}
parts=${2:-16}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || mapfile -t all < <(seq "$parts")
[ $# -eq 0 ] || all=("$@")
[ -x "$build/test_e2e" ] || fail "there is no $build/test_e2e; build it first: scripts/build.sh"
logs=$(mktemp -d)
say "logs in $logs"
# shellcheck disable=SC2016  # expanded by the inner shell
if printf '%s\n' "${all[@]}" | xargs -P "$(nproc)" -I{} bash -c \
  'LMTRAIN_FAULTS=$1/$2 "$3/test_e2e" --gtest_filter="Faults.*" >"$4/$1" 2>&1' _ {} "$parts" "$build" "$logs"; then
  grep -h ' faults ' "$logs"/* | sort
else
  grep -h ' faults ' "$logs"/* | sort || true
  grep -l 'Failure' "$logs"/* >&2 || true
  fail "some faults did not end as they should; see the logs above"
fi
