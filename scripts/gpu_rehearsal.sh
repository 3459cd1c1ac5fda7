#!/usr/bin/env bash
# Rehearses what is done on a borrowed machine with a GPU, without one: packs the build, unpacks it in a root that has never seen this
# repository, and runs scripts/gpu_check.sh there on the CPU: correctness, then speed, in calls that are killed when their time is over. Then
# joins the reports.
#   scripts/gpu_rehearsal.sh [--limit SECONDS] [FOLDER]
#     --limit N   a call is killed after N seconds; default 600
#     FOLDER      an archive of scripts/gpu_pack.sh that is there already; default: a new one
# That root has the system's /usr, a Python and torch's folder, both read-only, and stand-ins for nvidia-smi and compute-sanitizer; it has
# no network, no home folder, no caches and no sentencepiece. The namespaces need root, or a kernel that lets users have theirs.
# Prints the transcript of the calls. Exit code 0 when every call did what it should; 77 where there can be no namespaces.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

limit=600 folder=''
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) print_help "$0"; exit ;;
    --limit) limit=${2:?--limit wants a number of seconds}; shift 2 ;;
    -*) fail "unknown argument '$1'; see scripts/gpu_rehearsal.sh --help" ;;
    *) folder=$(realpath "$1"); shift ;;
  esac
done

namespaces=(unshare --mount --net --pid --fork --kill-child)
[ "$(id -u)" -eq 0 ] || namespaces+=(--map-root-user)
"${namespaces[@]}" true 2>/dev/null || { say "no rehearsal: this machine lets nobody have namespaces of their own"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$folder" ]; then
  step "pack"
  folder=$work/gpu_pack
  "$repo_root/scripts/gpu_pack.sh" "$folder"
fi
torch_root=$("$repo_root/scripts/setup.sh" --print-torch-root)
site=$(dirname "$torch_root")
python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
python_root=$(python3 -c 'import sys; print(sys.base_prefix)')

cat >"$work/nvidia-smi" <<'SH'
#!/bin/sh
case "$*" in
  -L) echo "GPU 0: a stand-in" ;;
  *=compute_cap*) echo 9.0 ;;
  *) echo "a stand-in, 9.0, 1 MiB, 0" ;;
esac
SH
printf '#!/bin/sh\necho "========= Error: Device not supported"\nexit 1\n' >"$work/compute-sanitizer"
chmod +x "$work/nvidia-smi" "$work/compute-sanitizer"

# Makes the root and runs the calls in it; in the namespaces.
cat >"$work/inside.sh" <<'SH'
set -euo pipefail
set -m  # a call in the background is a group of processes
root=$work/root
mkdir "$root"
mount -t tmpfs tmpfs "$root"
bind() {  # SOURCE TARGET: read-only
  if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$(dirname "$root$2")"; : >"$root$2"; fi
  mount --rbind "$1" "$root$2"
  mount -o remount,ro,bind "$root$2" 2>/dev/null || true
}
for place in /usr /bin /sbin /lib /lib64; do
  if [ -L "$place" ]; then cp -P "$place" "$root$place"; elif [ -e "$place" ]; then bind "$place" "$place"; fi
done
case $python_root in /usr | /usr/*) ;; *) bind "$python_root" "$python_root" ;; esac
bind "$site" /opt/site
for device in null zero random urandom; do bind "/dev/$device" "/dev/$device"; done
# A library of the system that such a machine lacks: an empty file, which does not load.
for library in "$root"/usr/lib/*/libsentencepiece*.so*; do
  if [ ! -L "$library" ] && [ -e "$library" ]; then mount --bind /dev/null "$library"; fi
done
mkdir -p "$root"/{proc,scratch,dev/shm,out,stand-ins,etc,srv/session/repo}
mount -t proc proc "$root/proc"
cp "$work/nvidia-smi" "$work/compute-sanitizer" "$root/stand-ins/"
cp -r "$folder" "$root/srv/session/repo/gpu_pack"

# call STATUS ARGUMENT...: start.sh as the machine would be told to run it; STATUS is what it must exit with.
call() {
  local wanted=$1 status=0
  shift
  printf '\n$ gpu_pack/start.sh %s\n' "$*"
  chroot "$root" /usr/bin/env -i "PATH=/stand-ins:/usr/bin:/bin" TMPDIR=/scratch "PYTHON=$python" PYTHONPATH=/opt/site \
    bash -c 'cd /srv/session/repo && limit=$1 && shift && exec timeout --signal=KILL "$limit" gpu_pack/start.sh "$@"' - "$limit" "$@" || status=$?
  [ "$status" -eq "$wanted" ] || { echo "FAIL: it ended with $status, not $wanted"; exit 1; }
}
call 0 --list
call 0 --device cpu --report /out/1.json --seconds "$limit" correctness
call 0 --device cpu --report /out/2.json --seconds "$limit" speed
call 0 --device cpu --report /out/5.json --seconds "$limit" profile sanitizer
# One that has no time for what is asked, and one that is killed in the middle: both leave a report that can be read.
call 0 --device cpu --report /out/3.json --seconds 9 soak
(call 0 --device cpu --report /out/4.json training) & killed=$!
for _ in {1..600}; do
  if grep -q '"training/bucket-fp32"' "$root/out/4.json" 2>/dev/null; then break; fi
  sleep 0.1
done
kill -KILL -- "-$killed"
wait "$killed" || true
call 0 --join /out/1.json /out/2.json /out/3.json /out/4.json /out/5.json --report /out/joined.json
cp "$root"/out/*.json "$work/"
SH
step "calls of at most $limit s"
export work folder site python python_root limit
"${namespaces[@]}" bash "$work/inside.sh" || fail "the rehearsal failed (see above)"
step "reports"
python3 - "$work" <<'PYTHON'
import json, sys
reports = {name: json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("1", "2", "3", "4", "5", "joined")}
rows = {(row["section"], row["name"]): row["result"] for row in reports["joined"]["rows"]}
def expect(what, holds):
    if not holds:
        sys.exit(f"error: {what}")
expect("a check failed", "fail" not in rows.values())
expect("the device tests were not listed", sum(section == "operators" for section, _ in rows) >= 4)
expect("nothing was trained", rows.get(("training", "train cpu fp32 bucket")) == "pass")
expect("graphs were not compared", rows.get(("training", "losses cpu fp32 bucket by graphs against script")) == "pass")
expect("the soak did not pass", rows.get(("soak", "pack")) == "pass")
expect("packed rows were not trained", rows.get(("training", "train cpu fp32 pack")) == "pass")
expect("the first run was not timed", rows.get(("first-step", "100k, 5 steps")) == "measured")
expect("the time to a loss is neither measured nor a skip", rows.get(("time-to-loss", "30m")) in ("measured", "skip"))
first = {row["name"]: row for row in reports["2"]["rows"] if row["section"] == "first-step"}["100k, 5 steps"]
expect("the first step does not say where the time went", first["phases"] and abs(sum(first["phases"].values()) - first["first_step_seconds"]) < 0.05)
calls = {name: report["calls"][0] for name, report in reports.items()}
expect("the call of correctness left something", not calls["1"]["not_begun"] and set(calls["1"]["begun"]) == set(calls["1"]["ended"]))
expect("speed does not begin with what tells most", calls["2"]["begun"][0] == "bench-124m-1024/lmtrain")
expect("the processes were not compared", rows.get(("nccl", "2 processes against one")) in ("pass", "skip"))
expect("divided weights were not compared", rows.get(("nccl", "2 processes with divided weights against one")) in ("pass", "skip"))
expect("a sanitizer that cannot run is no skip", rows.get(("sanitizer", "memcheck")) == "skip")
expect("a benchmark without a GPU is no skip", rows.get(("bench-124m-1024", "compile")) == "skip")
expect("a call without time begins something", reports["3"]["calls"][0]["not_begun"] and not reports["3"]["rows"])
expect("a call that was killed left no report", reports["4"]["calls"][0]["begun"])
print(f"PASS: {len(rows)} rows in {len(reports) - 1} reports")
PYTHON
step
