#!/usr/bin/env bash
# Does lmtrain train on this machine's GPU, like the CPU does, and faster than PyTorch? Needs a GPU, a Python with torch 2.11, and to build nvcc.
#   scripts/gpu_check.sh [OPTION...] [correctness | speed | SECTION[/ITEM]...]    default: all sections, in the order of what is wanted first
#     correctness        all that says right or wrong, beside each other, in at most 350 seconds
#     speed              all that measures, alone on the GPU, the most telling first, in at most 350 seconds
#     --seconds N        end before so many seconds are over: items that no longer fit are not begun, and the last lines name them
#     --beside N         so many items beside each other
#     --report FILE      the report, one of each call; default gpu_check-DATE.json
#     --join REPORT...   make one report of several (into --report) and print it; needs no GPU
#     --list             print the items, with the seconds that each takes at most; needs no GPU
#     --device cpu       a rehearsal: the CPU in the GPU's place, tiny models, and what needs a GPU is skipped
#   LMTRAIN_BINARY=FILE       this program instead of a build; in an archive of scripts/gpu_pack.sh: the one packed
#   LMTRAIN_BUILD=DIR         folder of test_gpu and bench_gpu_kernels; default build, or the folder of LMTRAIN_BINARY
#   PYTHON=python3            the Python that has torch; LMTRAIN_TORCH=DIR: its torch folder, where that is elsewhere
#   LMTRAIN_ARROW=DIR         a pyarrow folder, where scripts/setup.sh cannot fetch one
# Sections: operators training kernels bench-124m-1024 bench-1.1b-2048 first-step time-to-loss soak growth shapes nccl profile sanitizer fp8
# bench-350m-2048 bench-1.1b-8192 recipe (scripts/gpu_check.py says what each is, docs/gpu.md how to go about it). The benchmarks want transformers and
# accelerate beside torch.
# Prints PASS, FAIL, SKIP, STOPPED and MEASURED lines as they come, and one screen at the end. Exit code 0 only when nothing failed.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case "${1:-}" in -h | --help) print_help "$0"; exit ;; esac
export LMTRAIN_CHECK_BEGAN=${LMTRAIN_CHECK_BEGAN:-$(date +%s)}  # a build takes its time from --seconds too
python=${PYTHON:-python3}
command -v "$python" >/dev/null || fail "no $python: set PYTHON"
listing=no
case " $* " in *' --list '*) listing=yes ;; esac
case " $* " in *' --join '*) exec "$python" "$repo_root/scripts/gpu_check.py" "$@" ;; esac
binary=${LMTRAIN_BINARY:+$(realpath -m "$LMTRAIN_BINARY")}
# `packed` is a file of the archives of gpu_pack.sh.
if [ -z "$binary" ] && [ -e "$repo_root/packed" ]; then binary=$repo_root/build/lmtrain; fi

if [ $listing = yes ] && [ ! -e "$repo_root/packed" ]; then
  exec "$python" "$repo_root/scripts/gpu_check.py" ${binary:+--lmtrain "$binary" --build "${LMTRAIN_BUILD:-$(dirname "$binary")}"} "$@"
fi

if [ $listing = no ]; then
  gpus=$(nvidia-smi -L 2>/dev/null) || gpus=''
  [[ $gpus == *GPU* ]] || fail "no GPU: nvidia-smi finds none, so there is nothing to check here"
fi

# The torch folder, found without importing torch.
torch=${LMTRAIN_TORCH:-$("$python" -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")')}
[ -n "$torch" ] || fail "no torch in $python: set PYTHON or LMTRAIN_TORCH"
[ -e "$torch/lib/libtorch_cuda.so" ] || torch=$torch/torch
[ -e "$torch/lib/libtorch_cuda.so" ] || fail "no libtorch_cuda.so under ${torch%/torch}: a torch built for CUDA is needed"
version=$(sed -n "s/^__version__ = '\([^']*\)'.*/\1/p" "$torch/version.py")
case $version in 2.11.*) ;; *) fail "torch is ${version:-of unknown version}; lmtrain needs 2.11" ;; esac

if [ -z "$binary" ]; then
  (
    cd "$repo_root"
    scripts/setup.sh --core
    LMTRAIN_TORCH=$torch LMTRAIN_CUDA=on LMTRAIN_CUDA_ARCHITECTURES=native scripts/build.sh release
  )
  binary=$repo_root/build/lmtrain
fi
build=${LMTRAIN_BUILD:-$(dirname "$binary")}

# A program built elsewhere looks for its libraries where it was built, and for the tests' data too: show it those that are here.
libraries=$torch/lib:$(dirname "$binary")
if [ ! -e "$repo_root/packed" ] && arrow=$("$repo_root/scripts/setup.sh" --print-arrow-root 2>/dev/null); then libraries+=:$arrow; fi
for folder in "$torch"/../nvidia/*/lib; do [ ! -d "$folder" ] || libraries+=:$folder; done
starts() { "$binary" --version >/dev/null 2>&1; }
if [ -e "$repo_root/packed" ] || ! starts; then
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  # The C++ runtime that was packed, where the machine's is older.
  if ! starts && [ -d "$repo_root/runtime" ]; then export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$repo_root/runtime; fi
fi
"$binary" --version || fail "$binary does not start (see above)"
export LMTRAIN_SOURCE_DIR=$repo_root

exec "$python" "$repo_root/scripts/gpu_check.py" --lmtrain "$binary" --build "$build" --torch-version "$version" "$@"
