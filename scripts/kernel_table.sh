#!/usr/bin/env bash
# Registers, stack, spills, shared memory and the widths of loads of every CUDA kernel, as nvcc compiles it. No GPU is needed.
#   scripts/kernel_table.sh [ARCHITECTURE]     default 90a (H100, H200)
# Prints a table, and fails on a kernel that spills registers, on one with a stack, on one that is made for packs and loads nothing of
# 16 bytes at once or stores packs in pieces, and on loads and stores whose address space the compiler does not know (slower on a GPU).
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case "${1:-}" in -h | --help) print_help "$0"; exit ;; esac
architecture=${1:-90a}
nvcc=$(find_nvcc) || fail "there is no nvcc: install the CUDA 13.0 toolkit, or set CUDACXX"
sources=${LMTRAIN_KERNELS:-$repo_root/src/kernels/cuda}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compile() {
  local name
  name=$(basename "$1" .cu)
  "$nvcc" -std=c++20 -O3 -DNDEBUG -I "$repo_root/src" "-arch=sm_$architecture" -ptx -o "$work/$name.ptx" "$1" &&
    "$(dirname "$nvcc")/ptxas" -v "-arch=sm_$architecture" "$work/$name.ptx" -o "$work/$name.cubin" 2>"$work/$name.info"
}
export -f compile
export work nvcc architecture repo_root
printf '%s\0' "$sources"/*.cu | xargs -0 -n 1 -P "$(num_jobs)" bash -c 'compile "$1"' - || fail "the kernels do not compile for $architecture (see above)"

# Lines `file mangled registers stack spills shared wide narrow generic pieces`, a kernel each.
for ptx in "$work"/*.ptx; do
  awk -v file="$(basename "$ptx" .ptx).cu" '
    # What ptxas says of each kernel.
    FILENAME ~ /\.info$/ && /Compiling entry function/ { split($0, part, "\047"); name = part[2] }
    FILENAME ~ /\.info$/ && /bytes stack frame/ { stack[name] = $1; spills[name] = $5 + $9 }
    FILENAME ~ /\.info$/ && /Used [0-9]+ registers/ {
      for (i = 1; i <= NF; ++i) {
        if ($i == "Used") registers[name] = $(i + 1)
        if ($(i) == "bytes" && $(i + 1) ~ /^smem/) shared[name] = $(i - 1)
      }
    }
    # What its PTX loads and stores; an access without a space is generic.
    FILENAME ~ /\.ptx$/ && /\.entry / { kernel = $0; sub(/.*\.entry +/, "", kernel); sub(/\(.*/, "", kernel); order[++count] = kernel }
    FILENAME ~ /\.ptx$/ && /(^|[ \t])(ld|st)\./ {
      access_ = $0
      sub(/^[ \t]*(@!?%p[0-9]+[ \t]+)?/, "", access_)
      sub(/[ \t].*/, "", access_)
      if (access_ !~ /^(ld|st)\./ || access_ ~ /\.param/) next
      if (access_ !~ /\.(global|shared|local|const)/) { ++generic[kernel]; next }
      if (access_ ~ /^st.*\.v2\.[a-z]+16$/) ++pieces[kernel]
      if (access_ !~ /^ld.*\.global/) next
      if (access_ ~ /\.v4\.[a-z]32|\.v2\.[a-z]64|\.v8\.|\.b128/) ++wide[kernel]; else ++narrow[kernel]
    }
    END {
      for (i = 1; i <= count; ++i) {
        name = order[i]
        print file, name, registers[name] + 0, stack[name] + 0, spills[name] + 0, shared[name] + 0, wide[name] + 0, narrow[name] + 0, generic[name] + 0, pieces[name] + 0
      }
    }' "${ptx%.ptx}.info" "$ptx"
done >"$work/kernels"

awk '{ print $2 }' "$work/kernels" | c++filt | sed 's/(anonymous namespace):://g; s/lmtrain::cuda:://g; s/^void //; s/(.*//; s/__nv_bfloat16/bf16/g; s/__half/fp16/g; s/ //g' >"$work/names"
paste -d ' ' "$work/names" "$work/kernels" | awk '
  BEGIN {
    format = "%-20s %-36s %9s %5s %6s %6s %7s %6s %7s\n"
    printf format, "file", "kernel", "registers", "stack", "spills", "shared", "16-byte", "others", "generic"
  }
  function complain(what) { problems = problems "error: " $2 ": " $1 " " what "\n" }
  {
    printf format, $2, $1, $4, $5, $6, $7, $8, $9, $10
    if ($4 == 0) complain("is not in what ptxas says")
    if ($6 > 0) complain("spills " $6 " bytes of registers")
    if ($5 > 0) complain("has a stack of " $5 " bytes")
    # The first number among the template arguments is the width of a pack; the loss has packs always.
    width = $1 ~ /[<,][0-9]+/ ? substr($1, match($1, /[<,][0-9]+/) + 1) + 0 : ($2 == "cross_entropy.cu" ? 8 : 1)
    if (width > 1 && $8 == 0) complain("is made for packs of " width " and loads nothing of 16 bytes")
    if ($11 > 0) complain("stores packs in " $11 " pieces of 2 elements")
    if ($10 > 0) complain("has " $10 " accesses to an address space that the compiler does not know")
  }
  END {
    if (NR == 0) problems = problems "error: no kernel was found\n"
    printf "%d kernels\n", NR
    printf "%s", problems > "/dev/stderr"
    exit problems != ""
  }'
