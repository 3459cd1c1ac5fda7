#!/usr/bin/env bash
# A job of Slurm that trains, on one machine or on many, and goes on by itself until the run is over. Give it to sbatch:
#   sbatch [OPTION of sbatch...] scripts/slurm_train.sh CONFIG.json --run-dir DIR [OPTION of `lmtrain train`...]
#   sbatch --nodes=2 --ntasks-per-node=4 --cpus-per-task=16 --time=24:00:00 scripts/slurm_train.sh own.json --run-dir runs/own
#   sbatch --nodes=2 --gpus-per-node=8 --ntasks-per-node=8 --cpus-per-task=12 scripts/slurm_train.sh own.json --run-dir runs/own
# Options of sbatch replace those at the head of this file. Every task is one process. The run folder must lie where every
# machine sees it, since the machine of rank 0 may be another one when the job is started again.
# Five minutes before its time is over the run saves and ends, and the job is put into the queue again, where it goes on. The same
# happens when a process was lost (a machine failed, memory ran out), at most LMTRAIN_LOSSES times, 10 where that is not set.
# LMTRAIN=PROGRAM takes the place of build/lmtrain of the folder in which sbatch was called. SRUN_OPTIONS are given to srun.

#SBATCH --job-name=lmtrain
#SBATCH --output=%x-%j.log
#SBATCH --open-mode=append
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
#SBATCH --signal=USR1@300

set -euo pipefail

# Slurm runs a copy of this file, beside which there is no lib.sh.
say() { printf '%s\n' "$*" >&2; }
fail() { say "error: $*"; exit 2; }
case "${1:-}" in -h | --help) awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"; exit ;; esac

[ -n "${SLURM_JOB_ID:-}" ] || fail "this is a job for Slurm: sbatch $0 $*"
[ -r "${1:-}" ] || fail "give a config that can be read; see $0 --help"
case " $* " in *' --run-dir '* | *' --run-dir='*) ;; *) fail "give --run-dir: a job that is started again goes on there" ;; esac
losses=${LMTRAIN_LOSSES:-10}
[[ $losses =~ ^[0-9]+$ ]] || fail "LMTRAIN_LOSSES is '$losses'; give a whole number"
lmtrain=${LMTRAIN:-${SLURM_SUBMIT_DIR:-.}/build/lmtrain}
[ -x "$lmtrain" ] || fail "$lmtrain is not there; build it with scripts/build.sh, or name it in LMTRAIN"

# Since Slurm 22.05 srun does not take over what sbatch was told of the processors.
cpus=()
if [ -n "${SLURM_CPUS_PER_TASK:-}" ]; then
  cpus=(--cpus-per-task "$SLURM_CPUS_PER_TASK")
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$SLURM_CPUS_PER_TASK}
fi
read -r -a more <<<"${SRUN_OPTIONS:-}"

# The processes end each other and name the cause, so srun leaves them the time for it. Slurm sends its signals to them, not to
# this shell: USR1, named above, when the time is nearly over, and TERM when somebody cancels the job.
code=0
srun --kill-on-bad-exit=0 --wait=900 "${cpus[@]}" "${more[@]}" "$lmtrain" train "$@" --continue || code=$?

again() {
  say "$1; job $SLURM_JOB_ID goes into the queue again"
  scontrol requeue "$SLURM_JOB_ID"
  exit 0
}
case $code in
  0) say "the run is over" ;;
  138) again "the time of the job is over (exit 138)" ;;  # 128 + USR1
  143) say "cancelled (exit 143)" ;;                     # 128 + TERM
  5 | 13[0-9] | 1[4-9][0-9])
    # How often this job has lost a process, a line each.
    lost=${SLURM_SUBMIT_DIR:-.}/lmtrain-$SLURM_JOB_ID.lost
    printf '%s exit %s\n' "$(date -u +%FT%TZ)" "$code" >>"$lost"
    [ "$(wc -l <"$lost")" -gt "$losses" ] || again "a process was lost (exit $code)"
    say "a process was lost (exit $code), more than $losses times: see $lost"
    ;;
esac
exit "$code"
