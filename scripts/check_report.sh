#!/usr/bin/env bash
# Does the script of a report run? Opens a page of `lmtrain report` in headless Chromium: every chart must be drawn by the page's own
# script, and pictures to look at are written: 1280 and 390 pixels wide, light, dark, and printed.
#   scripts/check_report.sh PAGE FOLDER      FOLDER: for the pictures
# Needs Chromium (Debian: chromium).
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case "${1:-}" in -h | --help) print_help "$0"; exit ;; esac
[ $# -eq 2 ] || fail "a page and a folder are needed: scripts/check_report.sh PAGE FOLDER"
command -v chromium >/dev/null || fail "there is no chromium; install it"
page=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
browse() {
  timeout 120 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
    --virtual-time-budget=4000 "$@" 2>/dev/null
}

browse --dump-dom "file://$page" >"$work/dom"
count() { { grep -o "$1" "$work/dom" || true; } | wc -l; }
charts=$(count '<figure class="chart')
# What the program has drawn is "against tokens".
drawn=$(count 'aria-label="[^"]* against target tokens"')
[ "$charts" -gt 0 ] || fail "$page has no chart"
[ "$charts" = "$drawn" ] || fail "$page: $drawn of $charts charts are drawn by its script"

# Chromium's window has a least width; a frame has not.
cp "$page" "$work/page.html"
echo '<body style="margin:0"><iframe src="page.html" width="390" height="3000" style="border:0"></iframe>' >"$work/narrow.html"
for colours in light dark; do
  scheme=1
  [ "$colours" = light ] || scheme=0
  browse --blink-settings=preferredColorScheme=$scheme --window-size=1280,2400 --screenshot="$folder/1280_$colours.png" "file://$page"
  browse --blink-settings=preferredColorScheme=$scheme --window-size=600,3000 --screenshot="$folder/390_$colours.png" "file://$work/narrow.html"
done
browse --print-to-pdf="$folder/print.pdf" "file://$page"
echo "$drawn charts are drawn by the script of $page; pictures are in $folder"
