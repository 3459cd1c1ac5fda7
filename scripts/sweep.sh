#!/usr/bin/env bash
# Trains one config several times with settings changed, one run after another, and prints a table of how they ended.
#   scripts/sweep.sh CONFIG.json --out DIR [--vary KEY=A,B,...]... [--points FILE] [--seeds 1,2,3] [--for 15min] [-- OPTION...]
# A point is one combination of the values of every --vary (values without commas), or one line of FILE:
#   name  --set KEY=VALUE --set KEY=VALUE ...        (options of `lmtrain train`; quotes as in a shell; # begins a comment)
# Given both, each point of FILE is run with each combination. Run of a point and a seed: DIR/POINT/seed_N, made by
#   build/lmtrain train CONFIG.json --run-dir DIR/POINT/seed_N --continue --set seed=N <the point's options> OPTION...
# The same command again goes on where the sweep was stopped; finished runs are not touched. --for stops it after that
# long, in the middle of a run if need be (exit 75). A run that fails is noted in the table and does not stop the others.
#   --table   print the table of what is there and train nothing
# LMTRAIN=PROGRAM takes the place of build/lmtrain.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

config='' out='' points='' seeds='' time_limit='' table_only=false
vary=() common=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) print_help "$0"; exit ;;
    --table) table_only=true; shift; continue ;;
    --) shift; common=("$@"); break ;;
    --*) [ $# -ge 2 ] || fail "$1 needs a value" ;;&
    --out) out=$2 ;;
    --vary) case $2 in *=*) vary+=("$2") ;; *) fail "--vary $2: give KEY=VALUE,VALUE,..." ;; esac ;;
    --points) points=$2; [ -r "$points" ] || fail "--points $points cannot be read" ;;
    --seeds) seeds=$2 ;;
    --for) time_limit=$2 ;;
    --*) fail "unknown option $1; see scripts/sweep.sh --help" ;;
    *) [ -z "$config" ] || fail "one config only: $config, $1"; config=$1; shift; continue ;;
  esac
  shift 2
done
if [ -z "$config" ] || [ -z "$out" ]; then fail "give a config and --out; see scripts/sweep.sh --help"; fi
[ -r "$config" ] || fail "$config cannot be read"
[[ ${seeds:-0} =~ ^[0-9]+(,[0-9]+)*$ ]] || fail "--seeds $seeds: give numbers, separated by commas"
readonly lmtrain=${LMTRAIN:-$repo_root/build/lmtrain}
"$table_only" || [ -x "$lmtrain" ] || fail "$lmtrain is not there; build it with scripts/build.sh"

seconds_of() {
  local number=${1%%[a-z]*}
  [[ $number =~ ^[0-9]+$ ]] || fail "--for $1: give a whole number of s, min or h, such as 15min"
  case ${1#"$number"} in
    s | '') echo "$number" ;;
    min) echo $((60 * number)) ;;
    h) echo $((3600 * number)) ;;
    *) fail "--for $1: the unit is s, min or h" ;;
  esac
}

# Two arrays side by side: what a point is called, and its options, quoted for `eval`.
names=('') options=('')
if [ -n "$points" ]; then
  names=() options=()
  while read -r name rest; do
    case $name in '' | '#'*) continue ;; esac
    [[ $name =~ ^[A-Za-z0-9._=+-]+$ ]] || fail "$points: '$name' cannot name a folder; use letters, digits and . _ = + -"
    names+=("$name") options+=("$rest")
  done <"$points"
  [ ${#names[@]} -gt 0 ] || fail "$points holds no point"
fi
for entry in "${vary[@]+"${vary[@]}"}"; do
  key=${entry%%=*} more_names=() more_options=()
  IFS=, read -r -a values <<<"${entry#*=}"
  for i in "${!names[@]}"; do
    for value in "${values[@]}"; do
      more_names+=("${names[i]:+${names[i]}_}${key##*.}=$value")
      more_options+=("${options[i]} --set $(printf '%q' "$key=$value")")
    done
  done
  names=("${more_names[@]}") options=("${more_options[@]}")
done
[ -n "${names[0]}" ] || names=(run)

# field FILE NAME: a number or word of a one-line JSON object.
field() { sed -n "1s/.*\"$2\": *\"\{0,1\}\([^,\"}]*\).*/\1/p" "$1" 2>/dev/null; }

# One line a run: point, state, steps, tokens, held-out loss, training seconds, bytes of optimizer state.
rows() {
  local log folder status last
  for log in "$out"/*/*.log; do
    [ -e "$log" ] || continue
    folder=${log%.log} status=${log%.log}/status.json
    last=$(grep '"elapsed"' "$folder/metrics.jsonl" 2>/dev/null | tail -n 1 || true)
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$(basename "$(dirname "$folder")")" "$(field "$status" state || echo refused)" \
      "$(field "$status" step)" "$(field "$status" tokens)" "$(field "$status" eval_loss)" \
      "$(field <(printf '%s\n' "$last") elapsed)" \
      "$(find "$folder/checkpoints" -name optimizer.safetensors -printf '%s\n' 2>/dev/null | tail -n 1)"
  done
}

# The points, best mean first: loss of its finished runs (mean, and range over seeds), time of a step, optimizer state.
table() {
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' point runs 'held-out loss' range tokens 's trained' 'ms a step' 'state MB'
  rows | LC_ALL=C awk -F '\t' '
    {
      point = $1; all[point]++
      if ($2 != "done" || $5 + 0 == 0) { other[point] = other[point] " " $2; next }
      n = ++done[point]; loss[point] += $5
      if (n == 1 || $5 < low[point]) low[point] = $5
      if (n == 1 || $5 > high[point]) high[point] = $5
      tokens[point] += $4; seconds[point] += $6; steps[point] += $3; state[point] = $7
    }
    END {
      for (point in all) {
        n = done[point]
        if (n == 0) { printf "9\t%s\t0 of %d\t-\t%s\t-\t-\t-\t-\n", point, all[point], other[point]; continue }
        printf "%.6f\t%s\t%d of %d%s\t%.4f\t%.4f-%.4f\t%d\t%.0f\t%.1f\t%.1f\n", loss[point] / n, point, n, all[point], other[point],
          loss[point] / n, low[point], high[point], tokens[point] / n, seconds[point] / n, 1000 * seconds[point] / steps[point],
          state[point] / 1e6
      }
    }' | LC_ALL=C sort -n | cut -f 2-
}

if ! "$table_only"; then
  deadline=''
  [ -z "$time_limit" ] || deadline=$((SECONDS + $(seconds_of "$time_limit")))
  mkdir -p "$out"
  number=0 total=0
  IFS=, read -r -a seed_list <<<"${seeds:-}"
  [ ${#seed_list[@]} -gt 0 ] || seed_list=('')
  total=$((${#names[@]} * ${#seed_list[@]}))
  for seed in "${seed_list[@]}"; do
    for i in "${!names[@]}"; do
      number=$((number + 1))
      folder=$out/${names[i]}/${seed:+seed_}${seed:-run}
      case $(field "$folder/status.json" state) in done | diverged) continue ;; esac
      arguments=(train "$config" --run-dir "$folder" --continue)
      [ -z "$seed" ] || arguments+=(--set "seed=$seed")
      eval "arguments+=(${options[i]})"
      arguments+=("${common[@]+"${common[@]}"}")
      if [ -n "$deadline" ]; then
        left=$((deadline - SECONDS))
        [ "$left" -gt 0 ] || { say "The time given is over; the same command goes on."; exit 75; }
        arguments+=(--set "train.max_time=${left}s")
      fi
      say "[$number of $total] ${names[i]}${seed:+, seed $seed}"
      mkdir -p "$(dirname "$folder")"
      code=0
      "$lmtrain" "${arguments[@]}" >/dev/null 2>"$folder.log" || code=$?
      case $code in
        0) ;;
        75) say "The time given is over; the same command goes on."; exit 75 ;;
        12[89] | 1[3-9][0-9]) exit "$code" ;;  # stopped by a signal, after saving
        *) say "  exit code $code: $(tail -n 1 "$folder.log")" ;;
      esac
    done
  done
fi
table | column -t -s $'\t'
