#!/usr/bin/env bash
# In src no two types have one name: two of them in one namespace would be one type to the linker.
# Prints every violation; exit status 1 when there is one.
#   tests/layers/check_tree.sh [ROOT]      ROOT: a tree with src/; default: this repository
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"
problems=0
complain() { printf '%s\n' "$*"; problems=$((problems + 1)); }

[ -d src ] || { echo "no sources in $PWD" >&2; exit 1; }
while read -r name; do
  complain "$name is the name of several types: $(grep -rlE "^(class|struct|enum class) $name( final)?( :| *\{)" src | LC_ALL=C sort | tr '\n' ' ')"
done < <(grep -rhoE '^(class|struct|enum class) [A-Za-z0-9]+( final)?( :| *\{)' src | sed -E 's/^(class|struct|enum class) ([A-Za-z0-9]+).*/\2/' | LC_ALL=C sort | uniq -d)
echo "$(grep -rhoE "^(class|struct|enum class) [A-Za-z0-9]+" src | wc -l) types looked at"
[ "$problems" -eq 0 ] || { echo "$problems problems"; exit 1; }
