#!/usr/bin/env bash
# Damages files of a run and of its cache at random (tests/e2e/faults/damage_sweep_test.cpp): bits, cuts, deletions, exchanges, zeros, what is
# appended, files of other checkpoints. Then it resumes the run, which must end with the bits of the undisturbed one, or refuse before a step is
# trained and name the file. Prints what came of it by kind of damage.
#   scripts/damage_sweep.sh [N] [BUILD_FOLDER]    default: 10000 damages, half of them to a run with random restart; build
#   LMTRAIN_JOBS=N           processes at once; default: as many as there are cores
#   LMTRAIN_DAMAGE_SEED=N    others; default: 1
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case "${1:-}" in -h | --help) print_help "$0"; exit ;; esac
count=${1:-10000} build=${2:-$repo_root/build}
[ -x "$build/test_e2e" ] || fail "there is no $build/test_e2e; build it first: scripts/build.sh"
[ -n "$(list_tests "$build/test_e2e" --gtest_filter='DamageSweep.*')" ] || fail "$build/test_e2e has no such tests; build it again"
jobs=${LMTRAIN_JOBS:-$(nproc)}
seed=${LMTRAIN_DAMAGE_SEED:-1}
logs=$(mktemp -d)
say "logs in $logs"
status=0 started=$SECONDS
# Each process has a seed of its own, and damages each of the two runs in equal parts.
export LMTRAIN_DAMAGES=$(((count + 2 * jobs - 1) / (2 * jobs)))
# shellcheck disable=SC2016  # expanded by the inner shell
seq "$jobs" | xargs -P "$jobs" -I{} bash -c \
  'LMTRAIN_DAMAGE_SEED=$(($2 * 1000 + $3)) "$0/test_e2e" --gtest_filter="DamageSweep.*" >"$1/$3" 2>&1' "$build" "$logs" "$seed" {} || status=$?

awk '
  /^damage of / { kind = $4; if (!(kind in damages)) order[++n] = kind
                  damages[kind] += $6; same[kind] += $8; mended[kind] += $10; refused[kind] += $12 }
  END {
    row = "%-10s %8s %10s %8s %8s\n"
    printf row, "damage", "files", "same bits", "mended", "refused"
    for (k = 1; k <= n; ++k) {
      kind = order[k]
      printf row, kind, damages[kind], same[kind], mended[kind], refused[kind]
      a += damages[kind]; s += same[kind]; m += mended[kind]; r += refused[kind]
    }
    printf row, "all", a, s, m, r
  }' "$logs"/*
say "took $((SECONDS - started)) s; mended: the file is named, and the bits are the same"
[ "$status" -eq 0 ] || { grep -l FAILED "$logs"/* >&2 || true; fail "some damage did not end as it should; see these logs"; }
