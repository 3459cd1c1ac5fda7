#!/usr/bin/env bash
# Gets what the build needs: Debian packages, and Arrow C++ 26.0.1 and libtorch 2.11.0, unpacked from their wheels into a
# cache outside the clone.
#   scripts/setup.sh                      install what is missing; the last lines on stdout are ARROW_ROOT= and TORCH_ROOT=<folder>
#   scripts/setup.sh --core               Debian packages and Arrow: all that the preset `core` needs
#   scripts/setup.sh --packages           Debian packages alone
#   scripts/setup.sh --libraries          Arrow and libtorch alone, for which no root is needed
#   scripts/setup.sh --print-torch-root   print that folder and install nothing; fails when it is not there yet
#   scripts/setup.sh --print-arrow-root   the same for Arrow
# Run it as often as you like: a second run changes nothing and touches no network.
#   LMTRAIN_CACHE=DIR         cache, default ${XDG_CACHE_HOME:-~/.cache}/lmtrain; holds torch-2.11.0/torch and arrow-26.0.1/pyarrow
#   LMTRAIN_TORCH=DIR         use this torch 2.11.0 (a Python `torch` folder, or the site-packages above it); no download
#   LMTRAIN_ARROW=DIR         use this pyarrow 26.0.1 in the same way
#   LMTRAIN_CUDA=auto|on|off  auto (default): on when both nvcc and a GPU are here; on fetches the CUDA wheels too (2 GB)
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

readonly torch_version=2.11.0
readonly arrow_version=26.0.1
readonly pins=$repo_root/scripts/requirements
cache=${LMTRAIN_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or LMTRAIN_CACHE}/.cache}/lmtrain}
cache=$(realpath -m "$cache")
readonly cache

# The bundles, each a folder of unpacked wheels. Torch: torch/ and, where its RPATH looks, nvidia/. Arrow: pyarrow/.
bundle_folder() {
  case $1 in
    torch) echo "$cache/torch-$torch_version" ;;
    arrow) echo "$cache/arrow-$arrow_version" ;;
  esac
}
bundle_contents() {
  case $1 in
    torch) echo torch nvidia ;;
    arrow) echo pyarrow ;;
  esac
}

# --- System packages -------------------------------------------------------------------------------------------------

# have cmd:NAME | header:NAME
have() {
  local name=${1#*:}
  case $1 in
    cmd:*) command -v "$name" >/dev/null ;;
    header:*) printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$name" | "${CXX:-g++}" -E -x c++ - >/dev/null 2>&1 ;;
  esac
}

# Fills the array `missing` with the packages of requirements/debian.txt whose probe fails.
find_missing() {
  missing=()
  local package probe description
  while read -r package probe description; do
    case $package in '' | '#'*) continue ;; esac
    have "$probe" || missing+=("$package")
  done <"$pins/debian.txt"
}

explain_missing() {
  local package probe description
  say "Please install, by hand or by your system's packages, then run this again:"
  while read -r package probe description; do
    case " ${missing[*]} " in *" $package "*) say "  $description   (Debian package: $package)" ;; esac
  done <"$pins/debian.txt"
}

# require_version NAME FOUND LEAST
require_version() {
  [ "$(printf '%s\n%s\n' "$3" "$2" | sort -V | head -n 1)" = "$3" ] ||
    fail "$1 is $2, and lmtrain needs $3 or newer (Debian 12's is). Install a newer one first on PATH."
}

setup_packages() {
  find_missing
  if [ ${#missing[@]} -gt 0 ]; then
    install_packages "${missing[@]}" || { explain_missing; exit 1; }
    hash -r
    find_missing
    [ ${#missing[@]} -eq 0 ] || { say "Still not found after installing: ${missing[*]}"; explain_missing; exit 1; }
  fi
  require_version "CMake" "$(cmake --version | sed -n '1s/[^0-9]*//p')" 3.25
  [ -n "${CXX:-}" ] || require_version "g++" "$(g++ -dumpfullversion)" 12
}

# --- libtorch --------------------------------------------------------------------------------------------------------

# Prints the torch folder that LMTRAIN_TORCH means, or fails saying what is wrong with it.
given_torch_root() {
  local folder=$LMTRAIN_TORCH found
  [ -e "$folder/lib/libtorch_cpu.so" ] || folder=$LMTRAIN_TORCH/torch
  [ -e "$folder/lib/libtorch_cpu.so" ] || fail "LMTRAIN_TORCH=$LMTRAIN_TORCH holds no lib/libtorch_cpu.so"
  found=$(sed -n "s/^__version__ = '\([^']*\)'.*/\1/p" "$folder/version.py" 2>/dev/null || cat "$folder/build-version" 2>/dev/null || true)
  case $found in
    "$torch_version" | "$torch_version"+*) (cd "$folder" && pwd) ;;
    *) fail "LMTRAIN_TORCH=$LMTRAIN_TORCH is torch ${found:-of unknown version}; lmtrain needs $torch_version" ;;
  esac
}

# Prints the pyarrow folder that LMTRAIN_ARROW means, or fails saying what is wrong with it.
given_arrow_root() {
  local folder=$LMTRAIN_ARROW found
  [ -e "$folder/include/arrow/api.h" ] || folder=$LMTRAIN_ARROW/pyarrow
  [ -e "$folder/include/arrow/api.h" ] || fail "LMTRAIN_ARROW=$LMTRAIN_ARROW holds no include/arrow/api.h"
  found=$(sed -n 's/^#define ARROW_VERSION_STRING "\(.*\)"/\1/p' "$folder/include/arrow/util/config.h")
  [ "$found" = "$arrow_version" ] || fail "LMTRAIN_ARROW=$LMTRAIN_ARROW is Arrow ${found:-of unknown version}; lmtrain needs $arrow_version"
  (cd "$folder" && pwd)
}

# Fills the array `sets` with the pin files wanted for a bundle, by name.
find_sets() {
  sets=("$1")
  if [ "$1" = torch ] && cuda_wanted; then sets+=(torch-cuda); fi
}

sha256() { sha256sum | cut -d' ' -f1; }

# describe_bundle NAME FOLDER SET...: what its `.complete` must hold: the pins, and a hash of every file's path and size.
describe_bundle() {
  local contents folder=$2 set
  read -ra contents <<<"$(bundle_contents "$1")"
  shift 2
  for set in "$@"; do printf '%s %s\n' "$set" "$(grep -v '^#' "$pins/$set.txt" | sha256)"; done
  printf 'files %s\n' "$(cd "$folder" && find "${contents[@]}" -name __pycache__ -prune -o -type f -printf '%p %s\n' | LC_ALL=C sort | sha256)"
}

# Whether the bundle serves: one that also has the CUDA wheels serves a build without them.
bundle_is_complete() {
  local bundle found sets
  bundle=$(bundle_folder "$1")
  [ -f "$bundle/.complete" ] || return 1
  find_sets "$1"
  found=$(cat "$bundle/.complete")
  [ "$found" = "$(describe_bundle "$1" "$bundle" "${sets[@]}" 2>/dev/null)" ] ||
    { [ "$1" = torch ] && [ "$found" = "$(describe_bundle torch "$bundle" torch torch-cuda 2>/dev/null)" ]; }
}

require_disk_space() {
  local need_mb=$1 free_mb
  free_mb=$(df -Pm "$cache" | awk 'NR == 2 {print $4}')
  [ "$free_mb" -ge "$need_mb" ] || fail "$cache has $free_mb MB free, and $need_mb MB are needed: make room, or set LMTRAIN_CACHE to a folder on another disk"
}

require_pip() {
  python3 -m pip --version >/dev/null 2>&1 && return
  install_packages python3 python3-pip ||
    fail "wheels are fetched with pip: install Python 3 with pip, or set LMTRAIN_TORCH to a torch $torch_version folder and LMTRAIN_ARROW to a pyarrow $arrow_version folder"
}

# download SET FOLDER: the wheels of one pin file, hashes checked by pip. Tags are given, so the host's Python is of no account.
download() {
  local platforms=() tag
  for tag in manylinux1 manylinux2010 manylinux2014 manylinux_2_{5,12,17,18,25,27,28}; do platforms+=(--platform "${tag}_x86_64"); done
  TMPDIR=$2 PIP_REQUIRE_VIRTUALENV=0 python3 -m pip download --no-deps --require-hashes --no-cache-dir --only-binary=:all: \
    --python-version 3.11 --implementation cp --abi cp311 "${platforms[@]}" --dest "$2" --requirement "$pins/$1.txt" >&2 ||
    fail "pip could not get the wheels of scripts/requirements/$1.txt (see above). If this machine reaches its package index through a mirror or proxy, set that up in pip's own configuration."
}

# unpack WHEELS_FOLDER INTO: each wheel is removed once it is unpacked.
unpack() {
  python3 - "$1" "$2" <<'PYTHON'
import pathlib, sys, zipfile
wheels, into = pathlib.Path(sys.argv[1]), sys.argv[2]
for wheel in sorted(wheels.glob("*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        done, shown = 0, -1
        for member in members:
            archive.extract(member, into)  # checks the member's CRC
            done += member.file_size
            percent = 100 * done // max(total, 1)
            if sys.stderr.isatty() and percent != shown:
                shown = percent
                print(f"\r  unpacking {wheel.name.split('-')[0]}: {percent} %", end="", file=sys.stderr)
        end = "\n" if not sys.stderr.isatty() else "\r"
        print(f"{'' if end == chr(10) else end}  unpacked {wheel.name.split('-')[0]}: {len(members)} files, {total >> 20} MB", file=sys.stderr)
    wheel.unlink()
PYTHON
}

# setup_bundle NAME: builds it aside, marks it complete and renames it into place: a half-made one never carries its name.
setup_bundle() {
  bundle_is_complete "$1" && return
  [ "$(uname -m)" = x86_64 ] || fail "the pinned wheels are for x86_64; set LMTRAIN_TORCH to a torch $torch_version folder and LMTRAIN_ARROW to a pyarrow $arrow_version folder for $(uname -m)"

  if ! mkdir -p "$cache" || ! [ -w "$cache" ]; then fail "cannot write to $cache: set LMTRAIN_CACHE to a folder of yours"; fi
  exec 9>"$cache/.lock"
  flock -n 9 || { say "Another setup is filling $cache; waiting for it."; flock 9; }
  bundle_is_complete "$1" && { flock -u 9; return; }
  require_pip
  rm -rf "$cache"/.making.*  # left by a setup that was killed; we hold the lock
  local bundle sets set
  bundle=$(bundle_folder "$1")
  find_sets "$1"
  [ ! -e "$bundle" ] || say "$bundle is incomplete, damaged or of other pins: making it again."
  case " ${sets[*]} " in *' torch-cuda '*) require_disk_space 9000 ;; *' torch '*) require_disk_space 2500 ;; *) require_disk_space 500 ;; esac

  making=$(mktemp -d "$cache/.making.XXXXXX")
  trap 'rm -rf "$making"' EXIT
  mkdir "$making/wheels" "$making/bundle"
  for set in "${sets[@]}"; do
    say "Downloading the wheels of scripts/requirements/$set.txt"
    download "$set" "$making/wheels"
    unpack "$making/wheels" "$making/bundle" || fail "could not unpack the wheels into $making (see above); nothing was left behind"
  done
  describe_bundle "$1" "$making/bundle" "${sets[@]}" >"$making/complete"
  mv "$making/complete" "$making/bundle/.complete"
  rm -rf "$bundle"
  mv "$making/bundle" "$bundle"
  flock -u 9
}

# Print the folders that hold the libraries; false when they are not there.
torch_root() {  # with lib/ and include/
  if [ -n "${LMTRAIN_TORCH:-}" ]; then given_torch_root; return; fi
  bundle_is_complete torch && echo "$(bundle_folder torch)/torch"
}
arrow_root() {  # with libarrow.so.* and include/
  if [ -n "${LMTRAIN_ARROW:-}" ]; then given_arrow_root; return; fi
  bundle_is_complete arrow && echo "$(bundle_folder arrow)/pyarrow"
}

setup_arrow() {
  local root
  [ -n "${LMTRAIN_ARROW:-}" ] || setup_bundle arrow
  root=$(arrow_root) || exit 1
  echo "ARROW_ROOT=$root"
}
setup_torch() {
  local root
  [ -n "${LMTRAIN_TORCH:-}" ] || setup_bundle torch
  root=$(torch_root) || exit 1
  echo "TORCH_ROOT=$root"
}

case "${1:-}" in
  --print-torch-root) torch_root || fail "libtorch is not set up yet: run scripts/setup.sh" ;;
  --print-arrow-root) arrow_root || fail "Arrow is not set up yet: run scripts/setup.sh" ;;
  '')
    setup_packages
    setup_arrow
    setup_torch
    ;;
  --core)
    setup_packages
    setup_arrow
    ;;
  --packages) setup_packages ;;
  --libraries)
    setup_arrow
    setup_torch
    ;;
  -h | --help) print_help "$0" ;;
  *) fail "unknown argument '$1'; see scripts/setup.sh --help" ;;
esac
