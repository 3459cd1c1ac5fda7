#!/usr/bin/env bash
# Builds the fuzzers (preset fuzz: Clang, libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer) and runs them, then prints for each target
# the processor time and the inputs that it has had since its last finding, how much of the code these reach, and how many findings there are.
#   scripts/fuzz.sh [TARGET...] [--seconds N] [--jobs N]     default: all targets, 60 seconds each, a process for each processor
#   scripts/fuzz.sh [TARGET...] --until N                    again and again, until each has had N seconds of processor time in all calls
#   scripts/fuzz.sh --list                                   the targets
# Inputs that reach new code are kept in build-fuzz/corpus/TARGET and serve the next call. A finding is in build-fuzz/findings/TARGET with its
# log beside it: mend it, add its input to tests/fuzz/corpus/TARGET as finding_NAME, and remove it there. ctest replays tests/fuzz/corpus (fuzz.TARGET).
# A target stops at its first finding; findings are crashes, undefined behaviour, leaks, 10 seconds for one input, and an allocation of more
# than 256 MiB (2 GiB for tables, whose readers allow that; docs/data.md).
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$repo_root"

seconds=60 until=0 jobs=$(num_jobs) targets=() list=no
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) print_help "$0"; exit ;;
    --list) list=yes ;;
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    --until) until=${2:?--until needs a number}; shift ;;
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

# Each file totals/TARGET says how many seconds of processor time and how many inputs the target has had since its last finding.
mkdir -p "$build/totals"
for target in "${targets[@]}"; do
  [ -f "$build/totals/$target" ] || echo "0 0" >"$build/totals/$target"
done
num_findings() { find "$build/findings/$1" -type f 2>/dev/null | wc -l; }

# fuzz_one TARGET: a process for this many seconds. Its log goes to findings/TARGET.log.
fuzz_one() {
  local target=$1 allocation=256 memory=3000 log=$build/findings/$1.log total=$build/totals/$1 time executed TIMEFORMAT='%U %S'
  case $target in arrow | id_tables | parquet | texts) allocation=2100 memory=4500 ;; esac
  mkdir -p "$build/corpus/$target" "$build/findings/$target"
  time=$({ time LMTRAIN_FUZZ_TARGET=$target ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=0 \
    "$build/fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb="$memory" -malloc_limit_mb="$allocation" -max_len=8192 \
    -print_final_stats=1 -close_fd_mask=3 -artifact_prefix="$PWD/$build/findings/$target/" \
    "$build/corpus/$target" "tests/fuzz/corpus/$target" >"$log" 2>&1 || true; } 2>&1)
  if [ "$(num_findings "$target")" -gt 0 ]; then
    echo "0 0" >"$total"
  else
    executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    [ -n "$executed" ] || fail "the fuzzer of '$target' did not run; its log is $log"
    echo "$(cat "$total") $time $executed" | awk '{ printf "%.2f %.0f\n", $1 + $3 + $4, $2 + $5 }' >"$total.new" &&
      mv "$total.new" "$total"
  fi
}
# The targets that still need time: those without findings below --until, the one with the least time first.
unfinished() {
  for target in "${targets[@]}"; do
    [ "$(num_findings "$target")" -gt 0 ] || echo "$(cat "$build/totals/$target") $target"
  done | sort -n | awk -v until="$until" '$1 < until { print $3 }'
}
export -f fail fuzz_one num_findings
export build seconds
waiting=$(printf '%s\n' "${targets[@]}")
while [ -n "$waiting" ]; do
  xargs -P "$jobs" -I{} bash -c 'fuzz_one {}' <<<"$waiting"
  waiting=$(unfinished)
done

printf '%-16s %10s %12s %10s %8s %9s\n' target seconds executions coverage inputs findings
sum=0 findings=0
for target in "${targets[@]}"; do
  read -r spent executed <"$build/totals/$target"
  reached=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$build/findings/$target.log" | tail -1)
  inputs=$(find "$build/corpus/$target" -type f | wc -l)
  found=$(num_findings "$target")
  printf '%-16s %10.0f %12s %10s %8s %9s\n' "$target" "$spent" "$executed" "${reached:-?}" "$inputs" "$found"
  sum=$((sum + executed)) findings=$((findings + found))
done
printf '%-16s %10s %12s %10s %8s %9s\n' all '' "$sum" '' '' "$findings"
[ "$findings" -eq 0 ] || fail "findings are in $build/findings"
