#!/usr/bin/env bash
# What the pages say exists must exist. Prints file:line: message; exit status 1 when something does not.
#   tests/layers/check_docs.sh [ROOT]   in README.md and its like and docs/**/*.md: every relative link (and its #heading), and every
#                                       path (src/base/file.h) and every test (Suite.Test) in backticks
# A path may hold * and ?, and a name in capitals (src/FOLDER) stands for any.
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}"
problems=0
complain() { printf '%s\n' "$*"; problems=$((problems + 1)); }

# headings PAGE: the anchors of its headings as GitHub makes them.
headings() {
  sed -n 's/^##* *//p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

# Lines `number<TAB>kind<TAB>text` for the links and the code spans outside fenced blocks.
spans() {
  awk '
    /^ *```/ { fenced = !fenced; next }
    fenced { next }
    {
      rest = $0
      while (match(rest, /`[^`]+`/)) {
        print FNR "\tcode\t" substr(rest, RSTART + 1, RLENGTH - 2)
        rest = substr(rest, 1, RSTART - 1) " " substr(rest, RSTART + RLENGTH)
      }
      while (match(rest, /\]\([^)]*\)/)) {
        print FNR "\tlink\t" substr(rest, RSTART + 2, RLENGTH - 3)
        rest = substr(rest, RSTART + RLENGTH)
      }
    }' "$1"
}

check_links() {
  local page line kind text target anchor
  local pages=()
  mapfile -t pages < <(find . -maxdepth 1 -name '*.md' -printf '%f\n' | LC_ALL=C sort; find docs data tests -name '*.md' | LC_ALL=C sort)
  for page in "${pages[@]}"; do
    while IFS=$'\t' read -r line kind text; do
      if [ "$kind" = link ]; then
        case $text in *://* | mailto:*) continue ;; esac
        anchor=''
        case $text in *'#'*) anchor=${text#*#} ;; esac
        target=${text%%#*}
        target=${target:+$(dirname "$page")/$target}
        target=${target:-$page}
        if [ ! -e "$target" ]; then
          complain "$page:$line: the link $text leads nowhere"
        elif [ -n "$anchor" ] && ! headings "$target" | grep -qxF -- "$anchor"; then
          complain "$page:$line: the link $text: $target has no such heading"
        fi
        continue
      fi
      # The name of a test: Suite.Test, or Instance/Suite.Test.
      if [[ $text =~ ^([A-Za-z0-9]+/)?([A-Z][A-Za-z0-9]*)\.([A-Z][A-Za-z0-9]*)$ ]]; then
        grep -rqE --include='*_test.cpp' "^TEST(_F|_P)?\(${BASH_REMATCH[2]}, *${BASH_REMATCH[3]}\)" tests || complain "$page:$line: there is no test $text"
        continue
      fi
      # The first word is the path: what follows are arguments.
      target=${text%% *}
      case $target in src/* | tests/* | scripts/* | docs/* | configs/* | data/* | .ci/*) ;; *) continue ;; esac
      target=${target%[,.:;]}
      [[ $target =~ ^[A-Za-z0-9_./*?-]+$ ]] || continue
      [ -e "$target" ] || target=$(sed -E 's/[A-Z]{2,}/*/g' <<<"$target")
      compgen -G "$target" >/dev/null || complain "$page:$line: there is no $target"
    done < <(spans "$page")
  done
  echo "${#pages[@]} pages looked at"
}

check_links
[ "$problems" -eq 0 ] || { echo "$problems problems"; exit 1; }
