#!/usr/bin/env bash
# Runs the program under sanitizers, which end it at the first finding.
#   scripts/sanitize.sh asan [COMMAND...]   AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer: trains a tiny run, resumes it, evaluates,
#                                           generates, exports, reports (or train, and these of them: resume eval generate export report)
#   scripts/sanitize.sh tsan                ThreadSanitizer: the tests of all that has threads in the half without libtorch
# libtorch and Arrow are built without sanitizers: what they do to their own memory is not seen.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$repo_root"
mode=${1:-}
case $mode in
  -h | --help) print_help "$0"; exit ;;
  asan | tsan) shift ;;
  *) fail "say asan or tsan; see scripts/sanitize.sh --help" ;;
esac
build=build-$mode
[ -f "$build/build.ninja" ] || cmake --preset "$mode" -DLMTRAIN_CUDA=off >/dev/null

if [ "$mode" = tsan ]; then
  tests=(test_base test_batching test_text test_tokenizer test_prepare test_report)
  cmake --build "$build" --target "${tests[@]}" --parallel "$(num_jobs)" >&2
  # Left out are tests that limit memory or threads, of which ThreadSanitizer takes its own, and those whose forked processes start
  # threads, which it does not support.
  left_out='^Memory\.|MemoryThatRunsOut|ARefusedThread|Killed|InterruptedOnes|TwoProcesses'
  # Nor does it see what Arrow and sentencepiece, built without it, do to order their own threads.
  suppressions=$(mktemp)
  trap 'rm -f "$suppressions"' EXIT
  printf 'race:libarrow.so\nrace:libparquet.so\nrace:libsentencepiece.so\n' >"$suppressions"
  for test in "${tests[@]}"; do
    step "$test"
    list_tests "$build/$test" | grep -vE "$left_out" | TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:allocator_may_return_null=1:die_after_fork=0:suppressions=$suppressions \
      xargs -P "$(num_jobs)" -I{} "$build/$test" --gtest_brief=1 --gtest_filter={} || fail "$test has a finding or fails; see above"
  done
  step
  say "no findings"
  exit
fi

cmake --build "$build" --target lmtrain --parallel "$(num_jobs)" >&2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export ASAN_OPTIONS=detect_leaks=1:halt_on_error=1:check_initialization_order=1 UBSAN_OPTIONS=print_stacktrace=1 OMP_NUM_THREADS=2
commands=("$@")
[ ${#commands[@]} -gt 0 ] || commands=(train resume eval generate export report)
[ "${commands[0]}" = train ] || commands=(train "${commands[@]}")  # the others need its run
run=$folder/run
for command in "${commands[@]}"; do
  case $command in
    train) arguments=(train configs/tiny.json --run-dir "$run" --set train.steps=20 --set "data.cache_dir=$folder/cache" --set restart.seeds=2 --set restart.tokens=10%) ;;
    resume) arguments=(resume "$run" --set train.steps=30) ;;
    eval) arguments=(eval "$run" --tasks data/tasks) ;;
    generate) arguments=(generate "$run" --prompt "The" --max-tokens 16) ;;
    export) arguments=(export "$run" --format hf --to "$folder/model") ;;
    report) arguments=(report "$run" --to "$folder/report.html") ;;
    *) fail "unknown command '$command'; see scripts/sanitize.sh --help" ;;
  esac
  step "lmtrain ${arguments[*]}"
  "$build/lmtrain" "${arguments[@]}" >"$folder/out" 2>"$folder/err" || { cat "$folder/err" >&2; fail "lmtrain $command ends with a finding or an error"; }
done
step
say "no findings"
