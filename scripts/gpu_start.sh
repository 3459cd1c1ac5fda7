#!/usr/bin/env bash
# Unpacks lmtrain_gpu.tar.xz of scripts/gpu_pack.sh, which lies beside this file, and runs its gpu_check.sh with the same arguments.
#   start.sh [OPTION of scripts/gpu_check.sh...]
#   LMTRAIN_GPU_ROOT=DIR   where it is unpacked; default lmtrain_gpu in the folder for temporary files
set -euo pipefail
export LMTRAIN_CHECK_BEGAN=${LMTRAIN_CHECK_BEGAN:-$(date +%s)}  # the seconds of --seconds count from here
archive=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/lmtrain_gpu.tar.xz
root=${LMTRAIN_GPU_ROOT:-${TMPDIR:-/tmp}/lmtrain_gpu}
sum=$(cksum <"$archive")
if [ "$(cat "$root/.archive" 2>/dev/null)" != "$sum" ]; then
  if [ -e "$root" ] && [ ! -e "$root/.archive" ]; then echo "error: $root is there, and not of ours: set LMTRAIN_GPU_ROOT" >&2; exit 1; fi
  rm -rf "$root" "$root.new"
  mkdir -p "$root.new"
  if command -v xz >/dev/null; then
    tar --extract --xz --file "$archive" --directory "$root.new" --strip-components=1
  else
    "${PYTHON:-python3}" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$archive" "$root.new"
    mv "$root.new/lmtrain_gpu" "$root.inner" && rmdir "$root.new" && mv "$root.inner" "$root.new"
  fi
  echo "$sum" >"$root.new/.archive"
  mv "$root.new" "$root"
fi
exec "$root/scripts/gpu_check.sh" "$@"
