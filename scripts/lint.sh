#!/usr/bin/env bash
# Checks the style of the C++ and CUDA sources (clang-format) and looks for bugs (clang-tidy), both version 14.
#   scripts/lint.sh              format of all; clang-tidy on the half that needs no libtorch (a minute or two)
#   scripts/lint.sh --all        clang-tidy on everything (slow: each file that includes torch takes a while)
#   scripts/lint.sh --format     format alone
#   scripts/lint.sh --fix        rewrite the files as clang-format wants them
#   scripts/lint.sh --install    first install clang-format and clang-tidy when they are missing (with any of the above)
# clang-tidy works on what CMake configures, so scripts/setup.sh comes first.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$repo_root"

install=no mode=core
for argument in "$@"; do
  case $argument in
    --install) install=yes ;;
    --all | --format | --fix) mode=${argument#--} ;;
    -h | --help) print_help "$0"; exit ;;
    *) fail "unknown argument '$argument'; see scripts/lint.sh --help" ;;
  esac
done

# find_tool NAME: prints the command of version 14, or fails with the cure.
find_tool() {
  local candidate
  for candidate in "$1-14" "$1"; do
    if "$candidate" --version 2>/dev/null | grep -q 'version 14\.'; then echo "$candidate"; return; fi
  done
  return 1
}
tool() {
  find_tool "$1" && return
  [ "$install" = no ] || install_packages "$1-14" || true
  find_tool "$1" || fail "$1 14 is not here: install $1-14 (Debian), or run scripts/lint.sh --install"
}

mapfile -d '' sources < <(find src tests bench \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 | sort -z)
clang_format=$(tool clang-format)
if [ "$mode" = fix ]; then
  "$clang_format" -i "${sources[@]}"
  exit
fi
step "clang-format on ${#sources[@]} files"
unformatted=$("$clang_format" --dry-run "${sources[@]}" 2>&1 | sed -n 's/^\([^ :]*\):[0-9]*:.*\[-Wclang-format.*/  \1/p' | sort -u)
status=0
if [ -n "$unformatted" ]; then
  say "error: not formatted (run scripts/lint.sh --fix):" "$unformatted"
  status=1
fi
if [ "$mode" = format ]; then step; exit "$status"; fi

clang_tidy=$(tool clang-tidy)
build=build-lint options=(-DLMTRAIN_TESTS=OFF -DLMTRAIN_UNITY=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON)
folders=(base config formats corpus schedule batching report)
if [ "$mode" = all ]; then
  folders=(.)
  root=$(scripts/setup.sh --print-torch-root)
  options+=(-DLMTRAIN_TORCH=ON "-DTORCH_ROOT=$root")
else
  options+=(-DLMTRAIN_TORCH=OFF)
fi
cmake -S . -B "$build" -G Ninja "${options[@]}" >/dev/null
sed -i 's/ -fno-thread-jumps//' "$build/compile_commands.json"  # GCC's alone

# Only files that CMake compiles: clang-tidy needs their flags.
mapfile -t units < <(
  for folder in "${folders[@]}"; do find "src/$folder" -name '*.cpp' 2>/dev/null; done |
    sed 's,/\./,/,' | sort | while read -r unit; do
      if grep -qF "\"$repo_root/$unit\"" "$build/compile_commands.json"; then echo "$unit"; fi
    done
)
step "clang-tidy on ${#units[@]} files"
printf '%s\0' "${units[@]}" |
  xargs -0 -n 1 -P "$(num_jobs)" "$clang_tidy" -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option >"$build/tidy.log" 2>"$build/tidy.err" || {
  cat "$build/tidy.log" >&2
  grep -E 'error' "$build/tidy.err" >&2 || true
  say "error: clang-tidy has findings (above)"
  status=1
}
step
exit "$status"
