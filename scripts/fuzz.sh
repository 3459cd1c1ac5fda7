#!/usr/bin/env bash
# Builds the fuzzers (preset fuzz: Clang, libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer) and runs them, then prints for each target
# how many inputs it has run, how much of the code these reach, and how many findings there are.
#   scripts/fuzz.sh [TARGET...] [--seconds N] [--jobs N]     default: all targets, 60 seconds each, a process for each processor
#   scripts/fuzz.sh --list                                   the targets
# Inputs that reach new code are kept in build-fuzz/corpus/TARGET and serve the next call. A finding is in build-fuzz/findings/TARGET with its
# log beside it: mend it, and add its input to tests/fuzz/corpus/TARGET as finding_NAME. ctest replays these folders (fuzz.TARGET).
# A target stops at its first finding; findings are crashes, undefined behaviour, leaks, 10 seconds for one input, and an allocation of more
# than 256 MiB (2 GiB for tables, whose readers allow that; docs/data.md).
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$repo_root"

seconds=60 jobs=$(num_jobs) targets=() list=no
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) print_help "$0"; exit ;;
    --list) list=yes ;;
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    -*) fail "unknown argument '$1'; see scripts/fuzz.sh --help" ;;
    *) targets+=("$1") ;;
  esac
  shift
done
mapfile -t known < <(find tests/fuzz/targets -name '*.cpp' -printf '%f\n' | sed 's/\.cpp$//' | LC_ALL=C sort)
if [ "$list" = yes ]; then printf '%s\n' "${known[@]}"; exit; fi
[ ${#targets[@]} -gt 0 ] || targets=("${known[@]}")
for target in "${targets[@]}"; do
  [ -f "tests/fuzz/targets/$target.cpp" ] || fail "there is no target '$target'; scripts/fuzz.sh --list prints them"
done

build="build-fuzz"
[ -f "$build/build.ninja" ] || cmake --preset fuzz >/dev/null
cmake --build "$build" --target fuzz --parallel "$jobs" >&2

# fuzz_one TARGET: a process for this many seconds. Its log goes to findings/TARGET.log.
fuzz_one() {
  local target=$1 allocation=256
  case $target in arrow | parquet | texts) allocation=2100 ;; esac
  mkdir -p "$build/corpus/$target" "$build/findings/$target"
  LMTRAIN_FUZZ_TARGET=$target ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=0 \
    "$build/fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=3000 -malloc_limit_mb="$allocation" -max_len=8192 \
    -print_final_stats=1 -close_fd_mask=3 -artifact_prefix="$PWD/$build/findings/$target/" \
    "$build/corpus/$target" "tests/fuzz/corpus/$target" >"$build/findings/$target.log" 2>&1 || true
}
export -f fuzz_one
export build seconds
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'fuzz_one {}'

printf '%-16s %12s %10s %10s %8s %9s\n' target executions 'per second' coverage inputs findings
total=0 findings=0
for target in "${targets[@]}"; do
  log=$build/findings/$target.log
  executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  speed=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
  reached=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
  inputs=$(find "$build/corpus/$target" -type f | wc -l)
  found=$(find "$build/findings/$target" -type f | wc -l)
  printf '%-16s %12s %10s %10s %8s %9s\n' "$target" "${executed:-?}" "${speed:-?}" "${reached:-?}" "$inputs" "$found"
  total=$((total + ${executed:-0})) findings=$((findings + found))
done
printf '%-16s %12s %10s %10s %8s %9s\n' all "$total" '' '' '' "$findings"
[ "$findings" -eq 0 ] || fail "findings are in $build/findings"
