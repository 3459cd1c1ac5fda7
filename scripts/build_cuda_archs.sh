#!/usr/bin/env bash
# Compiles the GPU kernels for every architecture lmtrain is meant for, to objects: no GPU is needed, and nothing is linked.
#   scripts/build_cuda_archs.sh [ARCHITECTURE...]     default: 80 90a 100 (A100; H100, H200; B200)
# nvcc as scripts/build.sh finds it; libtorch and Arrow as scripts/setup.sh has set them up. Output: build-cuda-archs.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case "${1:-}" in -h | --help) print_help "$0"; exit ;; esac
cd "$repo_root"

[ $# -gt 0 ] || set -- 80 90a 100
find_nvcc >/dev/null || fail "there is no nvcc: install the CUDA 13.0 toolkit, or set CUDACXX"
torch_root=$(scripts/setup.sh --print-torch-root)
arrow_root=$(scripts/setup.sh --print-arrow-root)
cmake -S . -B build-cuda-archs -G Ninja -DLMTRAIN_CUDA=on -DLMTRAIN_CUDA_ARCHITECTURES="$(IFS=';'; echo "$*")" -DLMTRAIN_TESTS=OFF \
  "-DTORCH_ROOT=$torch_root" "-DARROW_ROOT=$arrow_root" >/dev/null
cmake --build build-cuda-archs --parallel "$(num_jobs)" --target lmtrain_cuda_kernels >&2
say "The GPU kernels compile for: $*"
