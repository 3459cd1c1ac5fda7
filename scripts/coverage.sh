#!/usr/bin/env bash
# Counts which lines of some folders of src the unit tests run (preset coverage, gcov), and prints a line for each folder and file.
#   scripts/coverage.sh [FOLDER...]    default: formats config text checkpoint, with the folders below them
#   LMTRAIN_MISSED=1                   also prints the lines that no test runs
# It builds the test programs test_base, test_formats, test_config, test_text and, where checkpoint is asked for, test_checkpoint.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$repo_root"
case "${1:-}" in -h | --help) print_help "$0"; exit ;; esac
folders=("$@")
[ $# -gt 0 ] || folders=(formats config text checkpoint)
tests=(test_base test_formats test_config test_text)
case " ${folders[*]} " in *checkpoint*) tests+=(test_checkpoint) ;; esac

build="build-coverage"
[ -f "$build/build.ninja" ] || cmake --preset coverage >/dev/null
cmake --build "$build" --target "${tests[@]}" --parallel "$(num_jobs)" >&2
find "$build" -name '*.gcda' -delete
for test in "${tests[@]}"; do
  say "$test"
  # What is compiled for this takes longer than some tests allow, and does not end where memory runs out.
  list_tests "$build/$test" | grep -v MemoryThatRunsOut | xargs -P "$(num_jobs)" -I{} "$build/$test" --gtest_brief=1 --gtest_filter={} >"$build/$test.log" 2>&1 ||
    say "warning: $test has failures in this build; see $build/$test.log"
done
# gcov has an answer for each object file; what is run in one of them is run.
report=$(mktemp)
trap 'rm -f "$report"' EXIT
find "$build" -name '*.gcda' -print0 | xargs -0 gcov --json-format --stdout >"$report" 2>/dev/null
python3 - "$report" "${folders[@]}" <<'PYTHON'
import collections, json, os, sys

counts = collections.defaultdict(lambda: collections.defaultdict(int))
for data in map(json.loads, open(sys.argv[1])):
    for file in data["files"]:
        path = os.path.relpath(os.path.join(data["current_working_directory"], file["file"]))
        for line in file["lines"]:
            counts[path][line["line_number"]] += line["count"]
print(f"{'':48}{'lines':>7}{'run':>7}{'percent':>9}")
def show(name, lines, run):
    print(f"{name:48}{lines:>7}{run:>7}{100 * run / max(lines, 1):>9.1f}")
for folder in sys.argv[2:]:
    files = {path: lines for path, lines in sorted(counts.items()) if path.startswith(f"src/{folder}/")}
    show(f"src/{folder}", sum(map(len, files.values())), sum(sum(count > 0 for count in lines.values()) for lines in files.values()))
    for path, lines in files.items():
        show("  " + path, len(lines), sum(count > 0 for count in lines.values()))
        missed = sorted(line for line, count in lines.items() if count == 0)
        if missed and os.environ.get("LMTRAIN_MISSED"):
            print("    lines", " ".join(map(str, missed)))
PYTHON
