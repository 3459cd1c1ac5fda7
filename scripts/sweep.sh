#!/usr/bin/env bash
# Trains one config several times with settings changed, and prints a table of how the runs ended (docs/sweeps.md).
#   scripts/sweep.sh CONFIG.json --out DIR [OPTION...] [-- --set KEY=VALUE...]
# Points, the combinations of settings that are tried; given several of these, all their combinations:
#   --vary KEY=A,B,...     a grid (may be repeated); commas within brackets or quotes do not divide
#   --points FILE          one point a line: NAME --set KEY=VALUE --set KEY=VALUE ... (quotes as in a shell; # begins a comment)
#   --draw KEY=log:LOW:HIGH, --draw KEY=uniform:LOW:HIGH   random values (may be repeated)
#   --draws N              how many points are drawn (default 10); more of them leave the first ones as they are
#   --draw-seed S          another seed, other values (default 1)
#   --seeds 1,2,3          each point with each seed; default: the seed of the config
# Runs. Each has its folder, DIR/POINT/seed_N (DIR/POINT/run without --seeds), and is an ordinary run of `lmtrain train`; the settings after -- are for all.
#   --parallel N           so many at once (default 1), each with a GPU, or with its share of the processors
#   --devices LIST         where they run: cuda:0,cuda:2, or cpu; default: all GPUs that lmtrain can use, else the processors
#   --for TIME             stop after 90s, 30min or 2h; runs save first
#   --halve N              successive halving for `wsd`: N times, at .../8, 1/4 and 1/2 of the run, the better half of the points
#                          goes on. A point is judged by a branch that decays there
# The same command goes on where the sweep was stopped or killed. Finished runs are not touched; failed ones are tried again.
# The table, best mean first:
#   --base POINT           differences to this point, paired over seeds, with their standard errors
#   --target LOSS          tokens and seconds of training until the held-out loss is this low
#   --report FILE.html     also a page of all runs, by `lmtrain report`
#   --json                 the table as one JSON document
#   --table                train nothing; print the table of what is there
#   --dry-run              train nothing; print the points, their settings and states
# Exit codes: 0 all runs are done (some may have diverged); 2 wrong usage or settings; 4 all diverged; 75 the time of --for is over;
# 128+n stopped by signal n, after the runs saved; else that of the first run that failed. LMTRAIN=PROGRAM takes the place of
# build/lmtrain; where neither is there, lmtrain of the PATH. Needs Python 3.9 or newer, its standard library alone.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for argument in "$@"; do
  case $argument in
    --) break ;;
    -h | --help) print_help "$0"; exit ;;
  esac
done
command -v python3 >/dev/null || fail "scripts/sweep.sh needs Python 3; install the package python3"
if [ -z "${LMTRAIN:-}" ]; then
  LMTRAIN=$repo_root/build/lmtrain
  [ -x "$LMTRAIN" ] || LMTRAIN=$(command -v lmtrain) || LMTRAIN=$repo_root/build/lmtrain
fi
export LMTRAIN
exec python3 -B "$repo_root/scripts/sweep" "$@"
