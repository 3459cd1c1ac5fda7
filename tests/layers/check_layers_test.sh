#!/usr/bin/env bash
# check_layers.sh, check_docs.sh and check_tree.sh must see what they are for: each fault below is put alone into a copy of the tree, and must be
# the one thing reported.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect NAME FILE TEXT MESSAGE: with TEXT at the end of FILE, MESSAGE is the one complaint.
expect() {
  local name=$1 file=$2 text=$3 message=$4 report
  rm -rf "$work/tree"
  mkdir "$work/tree"
  cp -r "$root/src" "$work/tree/src"
  mkdir -p "$(dirname "$work/tree/$file")"
  printf '%s' "$text" >>"$work/tree/$file"
  if report=$("$here/check_layers.sh" "$work/tree" 2>&1); then
    echo "FAIL $name: not noticed"
  elif [ "$(grep -c -v '^[0-9]* violations' <<<"$report")" -ne 1 ] || ! grep -qF "$message" <<<"$report"; then
    printf 'FAIL %s: expected "%s" alone, got\n%s\n' "$name" "$message" "$report"
  else
    echo "ok   $name"
    return
  fi
  failures=$((failures + 1))
}

expect "an include upwards" src/base/fault.cpp $'#pragma once\n#include "checkpoint/state.h"\n' \
  'src/base/fault.cpp:2: base may not include checkpoint (checkpoint/state.h)'
expect "an include sideways" src/prepare/fault.h $'#include "schedule/run_clock.h"\n' 'src/prepare/fault.h:1: prepare may not include schedule (schedule/run_clock.h)'
expect "an include in angle brackets" src/ops/fault.cu $'#include <model/llama.h>\n' 'src/ops/fault.cu:1: ops may not include model (model/llama.h)'
expect "an include with spaces" src/formats/fault.cpp $'\n  #  include   "config/config.h"  // why not\n' \
  'src/formats/fault.cpp:2: formats may not include config (config/config.h)'
expect "an include of cli" src/training/fault.cpp $'#include "cli/commands.h"\n' 'src/training/fault.cpp:1: training may not include cli (cli/commands.h)'
expect "ATen in a room without libtorch" src/batching/fault.h $'#include <ATen/core/Tensor.h>\n' \
  'src/batching/fault.h:1: batching may not include libtorch (ATen/core/Tensor.h)'
expect "torch in quotes" src/config/fault.cpp $'#include "torch/torch.h"\n' 'src/config/fault.cpp:1: config may not include libtorch (torch/torch.h)'
expect "c10" src/schedule/fault.cpp $'#include <c10/core/ScalarType.h>\n' 'src/schedule/fault.cpp:1: schedule may not include libtorch (c10/core/ScalarType.h)'
expect "sentencepiece in another room" src/training/fault.cpp $'#include <sentencepiece_processor.h>\n' \
  'src/training/fault.cpp:1: training may not include sentencepiece (sentencepiece_processor.h)'
expect "sentencepiece in another file of its room" src/tokenizer/bpe_fault.cpp $'#include <sentencepiece_processor.h>\n' \
  'src/tokenizer/bpe_fault.cpp:1: sentencepiece is for tokenizer/tokenizer*.cpp alone'
expect "sentencepiece in the tokenizer's header" src/tokenizer/tokenizer_fault.h $'#include <sentencepiece_processor.h>\n' \
  'src/tokenizer/tokenizer_fault.h:1: sentencepiece is for tokenizer/tokenizer*.cpp alone'
expect "Arrow in another room" src/formats/fault.cpp $'#include <arrow/api.h>\n' 'src/formats/fault.cpp:1: formats may not include arrow (arrow/api.h)'
expect "Arrow in another file of its room" src/text/line_fault.cpp $'#include <parquet/api/reader.h>\n' \
  'src/text/line_fault.cpp:1: Arrow is for text/arrow_* alone'
expect "nlohmann_json in base" src/base/fault.h $'#include <nlohmann/json.hpp>\n' 'src/base/fault.h:1: base may not include nlohmann_json'
expect "CLI11 outside cli" src/training/fault.h $'#include <CLI/CLI.hpp>\n' 'src/training/fault.h:1: training may not include CLI11'
expect "a path that is not from src" src/base/fault.cpp $'#include "../training/step.h"\n' 'src/base/fault.cpp:1: not a path from the root of src'
expect "torch in a kernel" src/kernels/cpu/fault.cpp $'#include <ATen/core/Tensor.h>\n' \
  'src/kernels/cpu/fault.cpp:1: kernels/cpu may not include libtorch (ATen/core/Tensor.h)'
expect "a file without close-on-exec" src/base/fault.cpp $'int fd = ::open("a", O_RDONLY);\n' 'src/base/fault.cpp:1: a file is opened without close-on-exec'
expect "a socket without close-on-exec" src/training/fault.cpp $'const int fd = socket(AF_INET, SOCK_STREAM, 0);\n' \
  'src/training/fault.cpp:1: a file is opened without close-on-exec'
expect "a pipe without close-on-exec" src/training/fault.cpp $'  if (::pipe(ends) != 0) return;\n' 'src/training/fault.cpp:1: this call cannot open a file with close-on-exec'
expect "a folder that is not listed" src/extra/fault.cpp $'int x;\n' 'src/rooms.cmake: no line for src/extra'
expect "a room that does not exist" src/rooms.cmake $'lmtrain_room(extra)\n' 'src/rooms.cmake: a line for src/extra, which does not exist'

# expect_list NAME COMMAND MESSAGE: with the list that the command of sed makes of it, MESSAGE is among the complaints.
expect_list() {
  rm -rf "$work/tree"
  mkdir -p "$work/tree"
  cp -r "$root/src" "$work/tree/src"
  sed -i "$2" "$work/tree/src/rooms.cmake"
  if report=$("$here/check_layers.sh" "$work/tree") || ! grep -qF "$3" <<<"$report"; then
    echo "FAIL $1: not noticed"
    failures=$((failures + 1))
  else
    echo "ok   $1"
  fi
}
expect_list "a list without rooms, which permits nothing" 's/lmtrain_room/room/' 'it lists no room'
expect_list "a cycle" 's/^lmtrain_room(base)/lmtrain_room(base MAY_INCLUDE config)/' 'base may include config, which is no room above it'

# expect_in_docs NAME TEXT MESSAGE: a README with TEXT in a small tree of its own gives MESSAGE; an empty one: no complaint.
expect_in_docs() {
  rm -rf "$work/docs"
  mkdir -p "$work/docs/docs" "$work/docs/data" "$work/docs/tests" "$work/docs/src/base"
  printf '# Map\n' >"$work/docs/docs/map.md"
  touch "$work/docs/src/base/file.h" "$work/docs/src/base/file.cpp"
  printf '%s' "$2" >"$work/docs/README.md"
  local passes=no
  report=$("$here/check_docs.sh" "$work/docs") && passes=yes
  if [ -z "$3" ] && [ "$passes" = yes ] || { [ -n "$3" ] && [ "$passes" = no ] && grep -qF "$3" <<<"$report"; }; then
    echo "ok   $1"
    return
  fi
  printf 'FAIL %s: expected "%s", got\n%s\n' "$1" "$3" "$report"
  failures=$((failures + 1))
}
expect_in_docs "a link to nowhere" $'# A\nsee [b](docs/b.md)\n' 'README.md:2: the link docs/b.md leads nowhere'
expect_in_docs "a link to no heading" $'[b](docs/map.md#mop)\n' 'README.md:1: the link docs/map.md#mop: ./docs/map.md has no such heading'
expect_in_docs "a path in backticks" $'`src/base/none.h`\n' 'README.md:1: there is no src/base/none.h'
expect_in_docs "a test that is not there" $'`Suite.Test` `Other/Suite.Test`\n' 'README.md:1: there is no test Other/Suite.Test'
expect_in_docs "good links" $'[b](docs/map.md#map) `src/base/file.cpp` `src/FOLDER/*.h` [w](https://example.org)\n' ''
# expect_in_tree NAME TYPE MESSAGE: a tree with a second type of that name gives MESSAGE; an empty one: no complaint.
expect_in_tree() {
  local report passes=no
  rm -rf "$work/tree"
  mkdir -p "$work/tree/src/base"
  printf 'struct First {\n};\n' >"$work/tree/src/base/first.h"
  printf 'namespace {\nclass %s : public First {};\n}\n' "$2" >"$work/tree/src/base/second.cpp"
  report=$("$here/check_tree.sh" "$work/tree") && passes=yes
  if [ -z "$3" ] && [ "$passes" = yes ] || { [ -n "$3" ] && [ "$passes" = no ] && grep -qF "$3" <<<"$report"; }; then
    echo "ok   $1"
    return
  fi
  printf 'FAIL %s: expected "%s", got\n%s\n' "$1" "$3" "$report"
  failures=$((failures + 1))
}
expect_in_tree "two types with two names" Second ''
expect_in_tree "a type name twice" First 'First is the name of several types: src/base/first.h src/base/second.cpp'
[ "$failures" -eq 0 ] || { echo "$failures faults were not noticed"; exit 1; }
