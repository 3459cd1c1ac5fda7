#!/usr/bin/env bash
# Every script that has --help prints the comment at its head, all of it and nothing else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
problems=0
for script in scripts/*.sh; do
  grep -q -- '--help)' "$script" || continue
  shown=$("$script" --help)
  head=$(sed -n '2,${/^#/!q;s/^# \{0,1\}//;p}' "$script")
  [ "$shown" != "$head" ] || continue
  printf '%s --help does not print the comment at its head:\n' "$script"
  diff <(printf '%s\n' "$head") <(printf '%s\n' "$shown") || true
  problems=$((problems + 1))
done
[ "$problems" = 0 ]
