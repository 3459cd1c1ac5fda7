#!/usr/bin/env bash
# Packs what a machine with a GPU needs for scripts/gpu_check.sh where there is no network: the programs that were built here, the
# libraries that such a machine lacks, the scripts and the tests' data.
#   scripts/gpu_pack.sh [FOLDER]     default gpu_pack (ignored by git): gets lmtrain_gpu.tar.xz, at most 30 MB, and start.sh
#   LMTRAIN_BUILD=DIR                the build to pack; default build
#   LMTRAIN_PACK_LEVEL=N             xz's level, 0 to 9; default 1, which takes ten seconds
# There: FOLDER/start.sh [OPTION of scripts/gpu_check.sh...]. torch 2.11.0+cu130 is found there, by PYTHON or LMTRAIN_TORCH.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case "${1:-}" in -h | --help) print_help "$0"; exit ;; esac
[ $# -le 1 ] || fail "one folder at most; see scripts/gpu_pack.sh --help"

folder=$(realpath -m "${1:-$repo_root/gpu_pack}")
build=$(realpath -m "${LMTRAIN_BUILD:-$repo_root/build}")
level=${LMTRAIN_PACK_LEVEL:-1}
most_bytes=30000000
programs=(lmtrain test_gpu bench_gpu_kernels)
for program in "${programs[@]}"; do [ -x "$build/$program" ] || fail "no $build/$program: run scripts/build.sh first"; done
torch_root=$(sed -n 's/^TORCH_ROOT:[A-Z]*=//p' "$build/CMakeCache.txt")
[ -e "$torch_root/lib/libtorch_cpu.so" ] || torch_root=$("$repo_root/scripts/setup.sh" --print-torch-root)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pack=$work/lmtrain_gpu
mkdir -p "$pack/build/lib" "$pack/runtime" "$pack/tests" "$pack/data" "$folder"

# Whether a library comes with torch: it lies in its folder, or in those of the NVIDIA wheels beside it.
is_torchs() { [ -e "$torch_root/lib/$1" ] || compgen -G "$torch_root/../nvidia/*/lib/$1" >/dev/null; }
for program in "${programs[@]}"; do
  strip -o "$pack/build/$program" "$build/$program"
  ldd "$build/$program" >"$work/needed"
  ! grep 'not found' "$work/needed" >&2 || fail "$build/$program lacks libraries (see above): build it again"
  while read -r name path; do
    case $name in
      ld-linux* | linux-vdso* | lib[cm].so* | libdl.so* | librt.so* | libpthread.so* | libutil.so*) continue ;;  # of every Linux
      libstdc++.so* | libgcc_s.so*) into=$pack/runtime ;;  # for machines whose own is older
      *) if is_torchs "$name"; then continue; fi; into=$pack/build/lib ;;
    esac
    [ -e "$into/$name" ] || strip --strip-unneeded -o "$into/$name" "$(realpath "$path")"
  done < <(sed -n 's/^[[:space:]]*\([^ ]*\) => \([^ ]*\) .*/\1 \2/p' "$work/needed")
done

# The program loads it by name, so ldd does not list it.
nccl=$build/lib/liblmtrain_nccl.so
[ ! -e "$nccl" ] || strip --strip-unneeded -o "$pack/build/lib/liblmtrain_nccl.so" "$nccl"

cp -r "$repo_root/tests/reference" "$pack/tests/reference"
cp -r "$repo_root/data/." "$pack/data/"
cp "$repo_root/README.md" "$repo_root/LICENSE" "$pack/"
mkdir -p "$pack/scripts/sweep"
cp "$repo_root"/scripts/{lib.sh,gpu_check.sh,gpu_*.py,bench_vs_pytorch.py,bench_processes.py,bench_contestants.py,time_to_loss.py,run_files.py,recipe_grid.py} "$pack/scripts/"
cp "$repo_root/scripts/sweep/table.py" "$pack/scripts/sweep/"
git -C "$repo_root" describe --always --dirty --abbrev=40 >"$pack/packed" 2>/dev/null || echo unknown >"$pack/packed"

tar --create --directory "$work" --sort=name --owner=0 --group=0 --mtime=@0 lmtrain_gpu | xz "-$level" --threads=1 >"$folder/lmtrain_gpu.tar.xz.new"
size=$(stat -c %s "$folder/lmtrain_gpu.tar.xz.new")
[ "$size" -le "$most_bytes" ] || fail "the archive has $size bytes, and $most_bytes are the most: give a higher LMTRAIN_PACK_LEVEL"
mv "$folder/lmtrain_gpu.tar.xz.new" "$folder/lmtrain_gpu.tar.xz"
cp "$repo_root/scripts/gpu_start.sh" "$folder/start.sh"
if [[ $("$build/lmtrain" --version) == *'GPU architectures compiled in: none'* ]]; then
  say "warning: $build/lmtrain has no GPU kernels: a check of it says nothing of them; build it with LMTRAIN_CUDA=on"
fi
say "$folder/lmtrain_gpu.tar.xz: $size bytes, of $(cat "$pack/packed")" "There: $(basename "$folder")/start.sh correctness" "and:   $(basename "$folder")/start.sh speed"
