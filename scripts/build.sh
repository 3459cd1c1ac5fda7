#!/usr/bin/env bash
# Configures and builds one preset of CMakePresets.json with what scripts/setup.sh has set up.
#   scripts/build.sh [preset [target...]]      default: release, all targets
#   LMTRAIN_JOBS=N            parallel compilers; default one a processor, each with 2 GiB of free memory
#   LMTRAIN_CUDA=auto|on|off  the GPU kernels; auto (default): where there is an nvcc of CUDA 13, GPU or not
#   LMTRAIN_CUDA_ARCHITECTURES=LIST   for which GPUs, as CMake has it: 90a (default; H100, H200), native, "80;90a;100"
#   LMTRAIN_WERROR=on|off     warnings are errors; off for a compiler that CI does not use, such as GCC 13
#   LMTRAIN_TORCH, LMTRAIN_ARROW, LMTRAIN_CACHE: as in scripts/setup.sh
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$repo_root"
case "${1:-}" in -h | --help) print_help "$0"; exit ;; esac

preset=${1:-release}
shift $(($# > 0))
arrow_root=$(scripts/setup.sh --print-arrow-root)
options=("-DARROW_ROOT=$arrow_root" ${LMTRAIN_WERROR:+"-DLMTRAIN_WERROR=$LMTRAIN_WERROR"})
if [ "$preset" != core ]; then
  root=$(scripts/setup.sh --print-torch-root)
  options+=("-DTORCH_ROOT=$root" "-DLMTRAIN_CUDA=${LMTRAIN_CUDA:-auto}"
    "-DLMTRAIN_CUDA_ARCHITECTURES=${LMTRAIN_CUDA_ARCHITECTURES:-90a}")
fi
cmake --preset "$preset" "${options[@]}" >&2
cmake --build --preset "$preset" --parallel "$(num_jobs)" ${1:+--target "$@"} >&2
