#!/usr/bin/env bash
# packaging/lmtrain.sh, the command of a wheel, finds its program and the libraries of torch and pyarrow in environments of all shapes. The
# program is a script here that prints its arguments and LD_LIBRARY_PATH.
set -euo pipefail
launcher=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/packaging/lmtrain.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
problems=0

# environment FOLDER SITE: a prefix with the command, and the program in SITE.
environment() {
  mkdir -p "$work/$1/bin" "$work/$1/$2/lmtrain/bin"
  cp "$launcher" "$work/$1/bin/lmtrain"
  printf '#!/bin/sh\necho "$*|${LD_LIBRARY_PATH:-}"\nexit 3\n' >"$work/$1/$2/lmtrain/bin/lmtrain"
  chmod +x "$work/$1/bin/lmtrain" "$work/$1/$2/lmtrain/bin/lmtrain"
}
libraries() { mkdir -p "$work/$1/torch/lib" "$work/$1/pyarrow"; }

# expect WHAT COMMAND STATUS TEXT: TEXT is a pattern of what it prints.
expect() {
  local text status=0
  text=$(env -u LD_LIBRARY_PATH sh -c "$2" 2>&1) || status=$?
  # shellcheck disable=SC2053
  if [ "$status" != "$3" ] || [[ $text != $4 ]]; then
    echo "$1: status $status instead of $3, and: $text"
    problems=$((problems + 1))
  fi
}

environment venv lib/python3.12/site-packages
libraries venv/lib/python3.12/site-packages
expect 'a virtual environment' "'$work/venv/bin/lmtrain' train 'a b'" 3 'train a b|'
ln -s "$work/venv/bin/lmtrain" "$work/link"
expect 'a link to the command' "'$work/link' x" 3 'x|'

environment 'with space' lib/python3.11/dist-packages
libraries 'with space/lib/python3.11/dist-packages'
expect 'the folder of Debian' "'$work/with space/bin/lmtrain' x" 3 'x|'

environment target .
libraries target
expect 'pip install --target' "'$work/target/bin/lmtrain' x" 3 'x|'

environment seeing lib/python3.11/site-packages
mkdir -p "$work/system/bin"
libraries system/lib/python3/dist-packages
printf 'home = %s/system/bin\ninclude-system-site-packages = true\n' "$work" >"$work/seeing/pyvenv.cfg"
expect 'packages of the system' "'$work/seeing/bin/lmtrain' x" 3 'x|*/system/*/pyarrow:*/system/*/torch/lib:*'

environment bare lib/python3.11/site-packages
expect 'no torch' "'$work/bare/bin/lmtrain' x" 70 'lmtrain: there is no torch/lib in *; install torch 2.11.0 *'
mkdir "$work/empty"
cp "$launcher" "$work/empty/lmtrain"
expect 'no program' "'$work/empty/lmtrain'" 70 'lmtrain: there is no site-packages/lmtrain/bin/lmtrain beside *'

# The versions that pip installs and the launcher names are those that scripts/setup.sh builds against.
cd "$(dirname "$launcher")/.."
for package in torch arrow; do
  version=$(sed -n "s/^readonly ${package}_version=//p" scripts/setup.sh)
  for file in pyproject.toml packaging/lmtrain.sh docs/install.md; do
    grep -qE "$package(==| )$version([^0-9]|\$)" "$file" || { echo "$file does not name $package $version, as scripts/setup.sh has it"; problems=$((problems + 1)); }
  done
done
[ "$problems" = 0 ]
