#!/usr/bin/env bash
# Does lmtrain train on this machine's GPU, and like the CPU does? Needs a GPU, a Python with torch 2.11, and to build nvcc.
#   scripts/gpu_check.sh [REPORT.json [SECTION...]]    default: gpu_check.json, all sections
#   LMTRAIN_BINARY=FILE       this program instead of a build
#   LMTRAIN_BUILD=DIR         folder of test_gpu and bench_gpu_kernels; default build, or the folder of LMTRAIN_BINARY
#   PYTHON=python3            the Python that has torch; LMTRAIN_TORCH=DIR: its torch folder, where that is elsewhere
#   LMTRAIN_ARROW=DIR         a pyarrow folder, where scripts/setup.sh cannot fetch one
# Sections: tests training sanitizer kernels growth bench-124m-1024 bench-350m-2048 bench-1.1b-2048 bench-1.1b-8192
# (scripts/gpu_check.py says what each is). The benchmarks want transformers and accelerate beside torch; all together take about an hour.
# Some of the tests read tests/reference where the program was built. Prints PASS, FAIL and SKIP lines and writes one JSON report,
# in which sections of several calls come together. Exit code 0 only when a GPU is there and nothing failed.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case "${1:-}" in -h | --help) print_help "$0"; exit ;; esac
report=$(realpath -m "${1:-gpu_check.json}")
[ $# -eq 0 ] || shift
python=${PYTHON:-python3}
binary=${LMTRAIN_BINARY:+$(realpath -m "$LMTRAIN_BINARY")}
cd "$repo_root"

if ! gpus=$(nvidia-smi -L 2>/dev/null) || [[ $gpus != *GPU* ]]; then fail "no GPU: nvidia-smi finds none, so there is nothing to check here"; fi
command -v "$python" >/dev/null || fail "no $python: set PYTHON"

# The torch folder, found without importing torch.
torch=${LMTRAIN_TORCH:-$("$python" -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")')}
[ -n "$torch" ] || fail "no torch in $python: set PYTHON or LMTRAIN_TORCH"
[ -e "$torch/lib/libtorch_cuda.so" ] || torch=$torch/torch
[ -e "$torch/lib/libtorch_cuda.so" ] || fail "no libtorch_cuda.so under ${torch%/torch}: a torch built for CUDA is needed"
version=$(sed -n "s/^__version__ = '\([^']*\)'.*/\1/p" "$torch/version.py")
case $version in 2.11.*) ;; *) fail "torch is ${version:-of unknown version}; lmtrain needs 2.11" ;; esac

if [ -z "$binary" ]; then
  scripts/setup.sh --core
  LMTRAIN_TORCH=$torch LMTRAIN_CUDA=auto LMTRAIN_CUDA_ARCHITECTURES=native scripts/build.sh release
  binary=$repo_root/build/lmtrain
fi
build=${LMTRAIN_BUILD:-$(dirname "$binary")}

# A program built elsewhere looks for its libraries where it was built: show it those that are here, or beside it.
libraries=$torch/lib:$(dirname "$binary")
if arrow=$(scripts/setup.sh --print-arrow-root 2>/dev/null); then libraries+=:$arrow; fi
for folder in "$torch"/../nvidia/*/lib; do [ ! -d "$folder" ] || libraries+=:$folder; done
if ! "$binary" --version >/dev/null 2>&1; then export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; fi
"$binary" --version || fail "$binary does not start (see above)"

exec "$python" scripts/gpu_check.py --lmtrain "$binary" --build "$build" --torch-version "$version" --report "$report" "$@"
