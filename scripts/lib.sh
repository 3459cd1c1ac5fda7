# shellcheck shell=bash
# Shared by the scripts beside it: messages, the repository's root, job count, Debian packages, whether CUDA is wanted.
# Sourced, never run. Everything a script says about its progress goes to stderr.

# shellcheck disable=SC2034  # used by those that source it
repo_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$@" >&2; }  # each argument a line
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# print_help FILE: the comment at the head of a script, which is its help.
print_help() { awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$1"; }

# step "2/4 build": prints a heading, and the time the previous step took. `step` alone closes the last one.
step_name='' step_started=0
step() {
  [ -z "$step_name" ] || say "-- $step_name: $((SECONDS - step_started)) s"
  step_name=${1:-} step_started=$SECONDS
  [ -z "$step_name" ] || say "" "== $step_name"
}

# Parallel jobs: one a processor, and 2 GiB of memory for each, since a file that includes torch needs 1.3 GB.
num_jobs() {
  local by_memory
  by_memory=$(awk '/^MemAvailable:/ {print int($2 / 2097152)}' /proc/meminfo 2>/dev/null || echo 1)
  local jobs=${LMTRAIN_JOBS:-$(nproc)}
  [ -n "${LMTRAIN_JOBS:-}" ] || { [ "$jobs" -le "$by_memory" ] || jobs=$by_memory; }
  [ "$jobs" -ge 1 ] && echo "$jobs" || echo 1
}

# list_tests PROGRAM [OPTION...]: the tests of a test program. Each has a process of its own, as in ctest: some of them send it a signal.
list_tests() { "$@" --gtest_list_tests | awk '/^[^ ].*\./ { suite = $1; next } /^  / { print suite $1 }'; }

# The CUDA compiler: $CUDACXX, on PATH, or where NVIDIA's installer puts it. Empty and false when there is none.
find_nvcc() {
  local candidate
  for candidate in "${CUDACXX:-}" "$(command -v nvcc || true)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"; do
    if [ -n "$candidate" ] && [ -x "$candidate" ]; then echo "$candidate"; return; fi
  done
  return 1
}

# True when lmtrain is to run on a GPU here. LMTRAIN_CUDA=auto (the default): toolkit and GPU are both here.
cuda_wanted() {
  case "${LMTRAIN_CUDA:-auto}" in
    on | ON | 1) find_nvcc >/dev/null || fail "LMTRAIN_CUDA=on, but there is no nvcc: install the CUDA 13.0 toolkit, or set CUDACXX" ;;
    off | OFF | 0) return 1 ;;
    auto) find_nvcc >/dev/null && nvidia-smi -L >/dev/null 2>&1 ;;
    *) fail "LMTRAIN_CUDA is '$LMTRAIN_CUDA'; use auto, on or off" ;;
  esac
}

# install_packages PACKAGE...: with apt, as root or through sudo. When it cannot, says so and returns false.
install_packages() {
  command -v apt-get >/dev/null || { say "There is no apt-get on this machine."; return 1; }
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { say "Installing needs root, and there is no sudo."; return 1; }
    as_root=(sudo)
  fi
  say "Installing with apt: $*"
  "${as_root[@]}" apt-get update -qq >&2 || say "warning: apt-get update failed; trying with the lists there are"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "$@" >&2
}
