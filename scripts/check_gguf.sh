#!/usr/bin/env bash
# Does llama.cpp read what `lmtrain export --format gguf` writes, and does it compute the same? By hand; needs the network once.
#   scripts/check_gguf.sh TARGET...   runs, checkpoints or folders of transformers with a tokenizer
#   scripts/check_gguf.sh             the stored reference folders and tiny runs of its own: Llama, Qwen3, Qwen2 with yarn and Mistral with
#                                     linear positions, with both kinds of tokenizer, and a Llama with the rule of SmolLM 2 that a second
#                                     run continues
#     --tokens N    of each greedy text (default 40)
#     --prompt TEXT repeatable; default: some of several kinds
# Exports in fp32, fp16, bf16 and q8_0. The package gguf reads every field and tensor back and compares the numbers with those of the
# exported folder; llama.cpp, by the package xllamacpp, continues prompts, whose greedy text in fp32 must be the text of `lmtrain generate`,
# and gives logits after random ids, which must be within 1e-3 of lmtrain's. Prints PASS and FAIL lines; exit code 1 when anything failed.
# The environment lives in the cache (LMTRAIN_CACHE), with the versions of scripts/requirements/gguf.txt; LMTRAIN_BINARY names another
# lmtrain than build/lmtrain.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case "${1:-}" in -h | --help) print_help "$0"; exit ;; esac

cache=${LMTRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lmtrain}
requirements=$repo_root/scripts/requirements/gguf.txt
venv=$cache/venv-gguf
wanted=$(grep -v '^#' "$requirements")
if [ "$(cat "$venv/requirements.installed" 2>/dev/null)" != "$wanted" ]; then
  say "Making a virtual environment for gguf and llama.cpp in $venv (0.2 GB)"
  mkdir -p "$cache"
  rm -rf "$venv"
  python3 -m venv "$venv" || fail "python3 -m venv failed; on Debian: apt install python3-venv"
  mapfile -t packages <<<"$wanted"
  "$venv/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check --only-binary :all: "${packages[@]}" >&2 ||
    fail "pip could not install: ${packages[*]}"
  printf '%s\n' "$wanted" >"$venv/requirements.installed"
fi

binary=${LMTRAIN_BINARY:-$repo_root/build/lmtrain}
[ -x "$binary" ] || fail "no $binary: build it with scripts/build.sh"
check=("$venv/bin/python" "$repo_root/scripts/check_gguf.py" --lmtrain "$binary")
has_target=
for argument in "$@"; do if [ -d "$argument" ]; then has_target=1; fi; done
if [ -n "$has_target" ]; then exec "${check[@]}" "$@"; fi

status=0
"${check[@]}" "$repo_root"/tests/reference/eval/hf "$repo_root"/tests/reference/eval/hf_sharded "$@" || status=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/tiny.json" <<JSON
{
  "device": "cpu", "precision": "fp32",
  "tokenizer": { "train": { "vocab_size": 512 } },
  "data": { "train": [ "$repo_root/src/**/*.h" ], "cache_dir": "$work/cache" },
  "sequence": { "max_length": 256, "min_length": 256, "schedule": { "type": "constant" } },
  "model": { "hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
             "tie_word_embeddings": false },
  "batch": { "tokens": 1024 }, "optimizer": { "lr": 0.002 }, "train": { "steps": 60 }
}
JSON
for model in llama qwen3 qwen2 mistral; do
  for type in bpe byte_bpe; do
    run=$work/$model-$type
    changes=(--set "model.model_type=$model" --set "tokenizer.train.type=$type")
    case $model in
      qwen3) changes+=(--set model.head_dim=64) ;;
      qwen2) changes+=(--set 'model.rope_scaling={"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 64}') ;;
      mistral) changes+=(--set 'model.rope_scaling={"rope_type": "linear", "factor": 2}') ;;
    esac
    if "$binary" train "$work/tiny.json" --run-dir "$run" "${changes[@]}" >"$work/out" 2>"$work/log"; then
      "${check[@]}" "$run" "$@" || status=1
    else
      tail -n 5 "$work/log" >&2
      echo "FAIL a tiny $model with $type to check"
      status=1
    fi
  done
done
mkdir "$work/smollm"
cp "$repo_root/tests/reference/tokenizer_json/smollm.json" "$work/smollm/tokenizer.json"
echo '{ "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>" }' >"$work/smollm/tokenizer_config.json"
smollm=(--set 'tokenizer={"model": "'"$work"'/smollm/tokenizer.json"}' --set model.tie_word_embeddings=true)
if "$binary" train "$work/tiny.json" --run-dir "$work/begun" "${smollm[@]}" >"$work/out" 2>"$work/log" &&
  "$binary" export "$work/begun" --format hf --to "$work/hf" >"$work/out" 2>"$work/log" &&
  "$binary" train "$work/tiny.json" --run-dir "$work/continued" --set init_from="$work/hf" --set tokenizer='{}' --set model='{}' >"$work/out" 2>"$work/log"; then
  "${check[@]}" "$work/continued" "$@" || status=1
else
  tail -n 5 "$work/log" >&2
  echo "FAIL a tiny model with the tokenizer of SmolLM 2 to check"
  status=1
fi
exit $status
