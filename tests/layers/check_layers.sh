#!/usr/bin/env bash
# Holds the tree to the table of docs/architecture.md: which folder of src includes which, who sees libtorch, and which other
# libraries. Prints every violation as file:line: message; exit status 1 when there is one.
#   tests/layers/check_layers.sh [ROOT]      ROOT: a tree with docs/ and src/; default: this repository
set -euo pipefail
root=${1:-$(dirname "${BASH_SOURCE[0]}")/../..}
cd "$root"
page=docs/architecture.md
mapfile -d '' sources < <(find src -mindepth 2 -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 | LC_ALL=C sort -z)
mapfile -d '' lists < <(find src -mindepth 2 -name CMakeLists.txt -print0 | LC_ALL=C sort -z)
folders=$(find src -mindepth 2 -type f -printf '%P\n' | sed 's,/[^/]*$,,' | LC_ALL=C sort -u | tr '\n' ' ')
[ ${#sources[@]} -gt 0 ] || { echo "$root/src holds no sources" >&2; exit 1; }

LC_ALL=C awk -v page="$page" -v folders="$folders" '
function complain(message) { print FILENAME ":" FNR ": " message; ++problems }
function trim(text) { gsub(/^[ \t]+|[ \t]+$/, "", text); return text }

# The table: | `folder` | `may` `include` | libtorch: yes or no | other libraries |
FILENAME == page {
  if (/layers: begin/) { inside = 1; next }
  if (/layers: end/) inside = 0
  if (!inside || !/^\| *`/) next
  count = split($0, cell, "|")
  if (count != 6) { complain("a row of the table has four cells"); next }
  folder = trim(cell[2]); gsub(/`/, "", folder)
  if (folder in row) complain("a second row for " folder)
  targets = split(cell[3], target, /[` ]+/)
  for (i = 1; i <= targets; ++i) {
    if (target[i] == "") continue
    # Only rows above: so the table cannot describe a cycle.
    if (!(target[i] in row)) complain(folder " may include " target[i] ", which is no row above it")
    allowed[folder, target[i]] = 1
  }
  row[folder] = ++rows
  name = folder; gsub("/", "_", name); linked[name] = folder
  if (trim(cell[4]) !~ /^(yes|no)$/) complain("libtorch is yes or no")
  if (trim(cell[4]) == "yes") library[folder, "libtorch"] = 1
  others = split(cell[5], other, /[ ]+/)
  for (i = 1; i <= others; ++i) if (other[i] != "") library[folder, other[i]] = 1
  next
}

FNR == 1 {
  folder = FILENAME; sub(/^src\//, "", folder); sub(/\/[^\/]*$/, "", folder)
  file = substr(FILENAME, length("src/" folder "/") + 1)
}

# What a folder links.
FILENAME ~ /CMakeLists\.txt$/ {
  sub(/#.*/, "")
  while (match($0, /lmtrain_[a-z_]+/)) {
    name = substr($0, RSTART + 8, RLENGTH - 8)
    $0 = substr($0, RSTART + RLENGTH)
    if (!(name in linked)) continue
    to = linked[name]
    if (to != folder && !((folder, to) in allowed)) complain(folder " may not link " to)
  }
  next
}

# A file that is open must not pass into a program that ours would start.
!/^[ \t]*\/\// && !/CLOEXEC/ && (/(^|[^A-Za-z0-9_])::open\(/ || /(^|[^A-Za-z0-9_.>])(openat|socket|accept4|pipe2|memfd_create|mkostemp|dup3)\(/) {
  complain("a file is opened without close-on-exec: " trim($0))
}
!/^[ \t]*\/\// && (/(^|[^A-Za-z0-9_])::accept\(/ || /(^|[^A-Za-z0-9_.>])(creat|pipe|dup|dup2|mkstemp|fopen|popen|epoll_create)\(/) {
  complain("this call cannot open a file with close-on-exec: " trim($0))
}

/^[ \t]*#[ \t]*include/ {
  match($0, /["<][^">]*[">]/)
  if (RLENGTH < 3) { complain("an include that is not understood: " trim($0)); next }
  quoted = substr($0, RSTART, 1) == "\""
  path = substr($0, RSTART + 1, RLENGTH - 2)
  room = path; sub(/\/[^\/]*$/, "", room)
  if (room in row) {
    if (room != folder && !((folder, room) in allowed)) complain(folder " may not include " room " (" path ")")
    next
  }
  first = path; sub(/\/.*/, "", first)
  name = ""
  if (first ~ /^(torch|ATen|c10|caffe2)$/) name = "libtorch"
  else if (first == "nlohmann") name = "nlohmann_json"
  else if (first == "CLI") name = "CLI11"
  else if (first ~ /^(arrow|parquet)$/) name = "arrow"
  else if (path ~ /^sentencepiece/) name = "sentencepiece"
  else if (path ~ /^(pcre2|utf8proc)\.h$/) { name = path; sub(/\.h$/, "", name) }
  else if (quoted) { complain("not a path from the root of src: \"" path "\""); next }
  if (name == "") next
  if (!((folder, name) in library)) complain(folder " may not include " name " (" path ")")
  else if (name == "sentencepiece" && file !~ /^tokenizer[a-z_]*\.cpp$/) complain("sentencepiece is for corpus/tokenizer/tokenizer*.cpp alone (" path ")")
  else if (name == "arrow" && file !~ /^arrow_[a-z_]+\.(h|cpp)$/) complain("Arrow is for corpus/readers/arrow_* alone (" path ")")
}

END {
  if (rows == 0) { print page ": no table between `layers: begin` and `layers: end`"; ++problems }
  for (i = split(folders, found, " "); i > 0; --i) {
    here[found[i]] = 1
    if (!(found[i] in row)) { print page ": no row for src/" found[i]; ++problems }
  }
  for (folder in row) if (!(folder in here)) { print page ": a row for src/" folder ", which does not exist"; ++problems }
  if (problems) { print problems " violations of the layers in " page; exit 1 }
  print ARGC - 2 " files keep the layers of " page
}' "$page" "${lists[@]}" "${sources[@]}"
