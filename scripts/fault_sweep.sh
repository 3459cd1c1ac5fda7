#!/usr/bin/env bash
# Tries every fault of every call on a file of ten commands (tests/e2e/faults/faults_test.cpp), with kills and losses of power, then kills
# the commands that write at 500 random moments, and prints what came of it by command and kind of call. On two cores it takes minutes.
#   scripts/fault_sweep.sh [BUILD_FOLDER] [TEST...]    default: build, all; TEST: a pattern of gtest after "Faults.", as OfTraining
#   LMTRAIN_JOBS=N    processes at once; default: as many as there are cores
#   LMTRAIN_KILLS=N   kills at random moments; default 500
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case "${1:-}" in -h | --help) print_help "$0"; exit ;; esac
build=${1:-$repo_root/build}
shift $(($# > 0))
tests=("$@")
[ $# -gt 0 ] || mapfile -t tests < <(sed -n 's/^TEST_F(Faults, \(Of[A-Za-z]*\)).*/\1/p' "$repo_root/tests/e2e/faults/faults_test.cpp")
[ $# -gt 0 ] || tests+=(KillsAtRandomMoments)
[ -x "$build/test_e2e" ] || fail "there is no $build/test_e2e; build it first: scripts/build.sh"
for test in "${tests[@]}"; do
  [ -n "$(list_tests "$build/test_e2e" --gtest_filter="Faults.$test")" ] || fail "there is no test Faults.$test in $build/test_e2e"
done
jobs=${LMTRAIN_JOBS:-$(nproc)}
export LMTRAIN_KILLS=${LMTRAIN_KILLS:-500}
logs=$(mktemp -d)
say "logs in $logs"

# Each process takes every N-th fault of a command, or its share of the kills.
work() {
  for test in "${tests[@]}"; do
    for part in $(seq "$jobs"); do printf '%s %s\n' "$test" "$part"; done
  done
}
export LMTRAIN_KILLS=$(((LMTRAIN_KILLS + jobs - 1) / jobs))
status=0
started=$SECONDS
# shellcheck disable=SC2016  # expanded by the inner shell
work | xargs -P "$jobs" -L 1 bash -c \
  'LMTRAIN_FAULTS=$4/$1 "$0/test_e2e" --gtest_filter="Faults.$3" >"$2/$3.$4" 2>&1' "$build" "$jobs" "$logs" || status=$?

awk '
  /^faults of / { name = $3; sub(/:$/, "", name); kind = $4; if (!((name, kind) in calls)) order[++n] = name SUBSEP kind
                  calls[name, kind] = $6; for (i = 8; i <= 14; i += 2) sum[name, kind, i] += $i }
  /^kills of /  { kills += $4; ends += $6 }
  END {
    row = "%-12s %-9s %7s %8s %10s %8s %8s\n"
    printf row, "command", "call", "calls", "faults", "same bits", "exit 5", "killed"
    for (k = 1; k <= n; ++k) {
      split(order[k], key, SUBSEP)
      printf row, key[1], key[2], calls[key[1], key[2]], sum[key[1], key[2], 8], sum[key[1], key[2], 10], sum[key[1], key[2], 12], sum[key[1], key[2], 14]
      all_calls += calls[key[1], key[2]]
      for (i = 8; i <= 14; i += 2) all[i] += sum[key[1], key[2], i]
    }
    printf row, "all", "", all_calls, all[8], all[10], all[12], all[14]
    if (kills > 0) printf "%d kills at random moments, %d runs to their end\n", kills, ends
  }' "$logs"/*
say "took $((SECONDS - started)) s"
[ "$status" -eq 0 ] || { grep -l FAILED "$logs"/* >&2 || true; fail "some faults did not end as they should; see these logs"; }
