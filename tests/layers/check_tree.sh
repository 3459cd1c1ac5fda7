#!/usr/bin/env bash
# Holds the tree to the limits of CONTRIBUTING.md. Prints every violation; exit status 1 when there is one.
#   tests/layers/check_tree.sh [ROOT]      ROOT: a tree with src/; default: this repository
# Below src, tests and bench no source file has more than 400 lines, and no folder more than 28 files. In src no two types have one
# name: two of them in one namespace would be one type to the linker.
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"
longest_file=400 most_files=28
problems=0
complain() { printf '%s\n' "$*"; problems=$((problems + 1)); }

folders=()
for folder in src tests bench; do [ ! -d "$folder" ] || folders+=("$folder"); done
num_files=0
while IFS= read -r file; do
  num_files=$((num_files + 1))
  lines=$(wc -l <"$file")
  [ "$lines" -le "$longest_file" ] || complain "$file: $lines lines, and a file has at most $longest_file"
done < <(find "${folders[@]}" -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) | LC_ALL=C sort)
[ "$num_files" -gt 0 ] || { echo "no sources in $PWD" >&2; exit 1; }
while read -r count folder; do
  [ "$count" -le "$most_files" ] || complain "$folder: $count files, and a folder has at most $most_files"
done < <(find "${folders[@]}" -type f -not -path '*/__pycache__/*' -printf '%h\n' | LC_ALL=C sort | uniq -c)
while read -r name; do
  complain "$name is the name of several types: $(grep -rlE "^(class|struct|enum class) $name( final)?( :| *\{)" src | LC_ALL=C sort | tr '\n' ' ')"
done < <(grep -rhoE '^(class|struct|enum class) [A-Za-z0-9]+( final)?( :| *\{)' src | sed -E 's/^(class|struct|enum class) ([A-Za-z0-9]+).*/\2/' | LC_ALL=C sort | uniq -d)
echo "$num_files files looked at"
[ "$problems" -eq 0 ] || { echo "$problems problems"; exit 1; }
