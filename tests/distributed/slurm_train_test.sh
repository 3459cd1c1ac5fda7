#!/usr/bin/env bash
# scripts/slurm_train.sh without Slurm: stand-ins for srun and scontrol start the program as Slurm does, send the signal that comes
# before a job's time is over, and note what is put into the queue again.
#   slurm_train_test.sh LMTRAIN
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
lmtrain=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL: $*"; for log in "$work"/*.log; do echo "== $log"; cat "$log"; done; exit 1; }

mkdir "$work/bin"
# Starts SLURM_NTASKS processes on this machine. With STEP it sends USR1 to all of them once that step is in the metrics.
cat >"$work/bin/srun" <<'SRUN'
#!/usr/bin/env bash
while [[ $1 == --* ]]; do
  case $1 in --cpus-per-task) shift ;; esac
  shift
done
ranks=()
for ((rank = 0; rank < SLURM_NTASKS; ++rank)); do
  SLURM_PROCID=$rank SLURM_LOCALID=$rank SLURM_STEP_NUM_TASKS=$SLURM_NTASKS SLURM_STEP_NODELIST=localhost "$@" &
  ranks+=($!)
done
if [ -n "${STEP:-}" ]; then
  until grep -q "\"step\":$STEP," "$METRICS" 2>/dev/null || ! kill -0 "${ranks[0]}" 2>/dev/null; do sleep 0.02; done
  kill -USR1 "${ranks[@]}"
fi
worst=0
for rank in "${ranks[@]}"; do
  code=0
  wait "$rank" || code=$?
  [ "$code" -le "$worst" ] || worst=$code
done
exit "$worst"
SRUN
cat >"$work/bin/scontrol" <<SCONTROL
#!/usr/bin/env bash
echo "\$*" >>"$work/queue"
SCONTROL
chmod +x "$work/bin/"*

cat >"$work/config.json" <<CONFIG
{
  "threads": 1,
  "tokenizer": { "model": "$root/tests/reference/tokenizer/tokenizer.model" },
  "data": { "train": ["$root/data/sample"], "cache_dir": "$work/cache" },
  "sequence": { "max_length": 64, "min_length": 16 },
  "model": { "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4 },
  "batch": { "tokens": 256 }, "train": { "steps": 600 }, "eval": { "every": 0 }, "log": { "tensorboard": false },
  "parallel": { "sum": "exact", "parts": 2 }
}
CONFIG

# job NUMBER LOG ARGUMENT...: as the job of this number; what it says goes to LOG.log, and its exit code to the variable `code`.
job() {
  local number=$1 log=$2
  shift 2
  code=0
  PATH=$work/bin:$PATH SLURM_JOB_ID=$number SLURM_SUBMIT_DIR=$work SLURM_NTASKS=2 SLURM_CPUS_PER_TASK=1 OMP_NUM_THREADS=1 \
    "$root/scripts/slurm_train.sh" "$@" >"$work/$log.log" 2>&1 || code=$?
}
queued() { [ -e "$work/queue" ] && wc -l <"$work/queue" || echo 0; }

# A run whose time is over in the middle goes on when the job is started again.
number=$$
run=$work/run
METRICS=$run/metrics.jsonl STEP=10 LMTRAIN=$lmtrain job $number first "$work/config.json" --run-dir "$run"
[ "$code" = 0 ] || fail "the first part of the job ends with $code"
[ "$(cat "$work/queue")" = "requeue $number" ] || fail "the job is not put into the queue again"
grep -q '"state":"stopped"' "$run/status.json" || fail "the run has not stopped: $(cat "$run/status.json")"
LMTRAIN=$lmtrain job $number second "$work/config.json" --run-dir "$run"
[ "$code" = 0 ] || fail "the second part of the job ends with $code"
[ "$(queued)" = 1 ] || fail "a run that is over is put into the queue again"
grep -q '"state":"done"' "$run/status.json" || fail "the run is not done: $(cat "$run/status.json")"
grep -q '"event":"resume"' "$run/events.jsonl" || fail "the second part does not go on with the first"
grep -q '"communication_share"' "$run/metrics.jsonl" || fail "the run was not one of several processes"

# ends_with CODE: a program that ends so.
ends_with() { printf '#!/bin/sh\nexit %s\n' "$1" >"$work/program"; chmod +x "$work/program"; }
# expect CODE QUEUED: how the job with that program ends, and how often jobs are put into the queue after it.
expect() {
  rm -f "$work/queue"
  LMTRAIN=$work/program LMTRAIN_LOSSES=1 job 7 program "$work/config.json" --run-dir "$work/none"
  [ "$code $(queued)" = "$1 $2" ] || fail "exit $code and $(queued) in the queue, expected $1 and $2"
}
ends_with 5
expect 0 1  # the first loss
expect 5 0  # one too many
[ "$(wc -l <"$work/lmtrain-7.lost")" = 2 ] || fail "the losses are not counted"
rm "$work/lmtrain-7.lost"
ends_with 137
expect 0 1
for end in 2 4 75 143; do
  ends_with "$end"
  expect "$end" 0
done

# refused WORDS ARGUMENT...: the message, with exit code 2.
refused() {
  local words=$1
  shift
  LMTRAIN=$lmtrain job 7 refused "$@"
  [ "$code" = 2 ] || fail "exit $code instead of 2"
  grep -qF -- "$words" "$work/refused.log" || fail "not said: $words"
}
refused 'give --run-dir' "$work/config.json"
refused 'give a config' "$work/none.json" --run-dir "$run"
if "$root/scripts/slurm_train.sh" "$work/config.json" 2>"$work/refused.log"; then fail "it runs without Slurm"; fi
grep -q sbatch "$work/refused.log" || fail "it does not say what runs it"

if command -v shellcheck >/dev/null; then shellcheck "$root/scripts/slurm_train.sh" || fail "shellcheck has findings"; fi
echo PASS
