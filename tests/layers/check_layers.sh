#!/usr/bin/env bash
# Holds the tree to src/rooms.cmake: which room of src includes which, and which libraries. CMake links by the same list.
# Prints every violation as file:line: message; exit status 1 when there is one.
#   tests/layers/check_layers.sh [ROOT]      ROOT: a tree with src/; default: this repository
set -euo pipefail
root=${1:-$(dirname "${BASH_SOURCE[0]}")/../..}
cd "$root"
list=src/rooms.cmake
mapfile -d '' sources < <(find src -mindepth 2 -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 | LC_ALL=C sort -z)
folders=$(find src -mindepth 2 -type f -printf '%P\n' | sed 's,/[^/]*$,,' | LC_ALL=C sort -u | tr '\n' ' ')
[ ${#sources[@]} -gt 0 ] || { echo "$root/src holds no sources" >&2; exit 1; }

LC_ALL=C awk -v list="$list" -v folders="$folders" '
function complain(message) { print FILENAME ":" FNR ": " message; ++problems }
function trim(text) { gsub(/^[ \t]+|[ \t]+$/, "", text); return text }

# A room: lmtrain_room(NAME [MAY_INCLUDE room...] [LIBRARIES library...]), over one line or several.
function note_room(text,   count, word, i, kind) {
  gsub(/[()]/, " ", text)
  count = split(trim(text), word, /[ \t]+/)
  folder = word[2]
  if (folder in row) complain("a second line for " folder)
  for (i = 3; i <= count; ++i) {
    if (word[i] ~ /^(MAY_INCLUDE|LIBRARIES)$/) kind = word[i]
    else if (kind == "LIBRARIES") library[folder, word[i]] = 1
    else if (kind == "") complain("a room that is not understood: " text)
    # Only rooms above: so the list cannot describe a cycle.
    else if (!(word[i] in row)) complain(folder " may include " word[i] ", which is no room above it")
    else allowed[folder, word[i]] = 1
  }
  row[folder] = ++rows
}
FILENAME == list {
  sub(/#.*/, "")
  if (!entry && !/lmtrain_room\(/) next
  entry = entry " " $0
  if (/\)/) { note_room(entry); entry = "" }
  next
}

FNR == 1 {
  folder = FILENAME; sub(/^src\//, "", folder); sub(/\/[^\/]*$/, "", folder)
  file = substr(FILENAME, length("src/" folder "/") + 1)
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
  else if (name == "sentencepiece" && file !~ /^tokenizer[a-z_]*\.cpp$/) complain("sentencepiece is for tokenizer/tokenizer*.cpp alone (" path ")")
  else if (name == "arrow" && file !~ /^arrow_[a-z_]+\.(h|cpp)$/) complain("Arrow is for text/arrow_* alone (" path ")")
}

END {
  if (rows == 0) { print list ": it lists no room"; ++problems }
  for (i = split(folders, found, " "); i > 0; --i) {
    here[found[i]] = 1
    if (!(found[i] in row)) { print list ": no line for src/" found[i]; ++problems }
  }
  for (folder in row) if (!(folder in here)) { print list ": a line for src/" folder ", which does not exist"; ++problems }
  if (problems) { print problems " violations of the layers in " list; exit 1 }
  print ARGC - 2 " files keep the layers of " list
}' "$list" "${sources[@]}"
