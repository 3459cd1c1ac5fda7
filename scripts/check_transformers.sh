#!/usr/bin/env bash
# Checks that what lmtrain writes opens in transformers unchanged and gives the same numbers. By hand; needs the network once.
#   scripts/check_transformers.sh RUN_DIR            newest checkpoint of a run
#   scripts/check_transformers.sh CHECKPOINT         or any Llama folder with a tokenizer.model
#   scripts/check_transformers.sh                    the stored reference folders and, where lmtrain is built, a tiny run of its own
#     --data PATH      documents to compare losses on (repeatable; file, folder, .jsonl); default: tests/reference/eval/documents
#     --max-length N   window in targets (repeatable); default: the model's longest and a quarter of it
#     --logits FILE    safetensors with input_ids [B, T] and logits [B, T, V] to compare with; default: golden.safetensors of the folder
#   scripts/check_transformers.sh --python           only makes the virtual environment and prints its python
# Prints PASS, FAIL and SKIP lines; exit code 1 when anything failed. The environment lives in the cache
# (LMTRAIN_CACHE), with the versions of tests/reference/requirements.txt; LMTRAIN_TRANSFORMERS=4.57.6 takes another
# transformers in an environment of its own; LMTRAIN_BINARY another lmtrain than build/lmtrain.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case "${1:-}" in -h | --help) print_help "$0"; exit ;; esac

cache=${LMTRAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lmtrain}
requirements=$repo_root/tests/reference/requirements.txt
venv=$cache/venv-check
wanted=$(grep -v '^#' "$requirements")
if [ -n "${LMTRAIN_TRANSFORMERS:-}" ]; then
  venv+="-transformers-$LMTRAIN_TRANSFORMERS"
  wanted=$(grep -v -e '^transformers' -e '^tokenizers' <<<"$wanted"; echo "transformers==$LMTRAIN_TRANSFORMERS")
fi
if [ "$(cat "$venv/requirements.installed" 2>/dev/null)" != "$wanted" ]; then
  say "Making a virtual environment for transformers in $venv (torch comes with its CUDA libraries: about 5 GB)"
  mkdir -p "$cache"
  rm -rf "$venv"
  python3 -m venv "$venv" || fail "python3 -m venv failed; on Debian: apt install python3-venv"
  mapfile -t packages <<<"$wanted"
  "$venv/bin/pip" install --quiet --no-cache-dir --disable-pip-version-check "${packages[@]}" >&2 || fail "pip could not install: ${packages[*]}"
  printf '%s\n' "$wanted" >"$venv/requirements.installed"
fi
python=$venv/bin/python
if [ "${1:-}" = --python ]; then echo "$python"; exit; fi

binary=${LMTRAIN_BINARY:-$repo_root/build/lmtrain}
check=("$python" "$repo_root/scripts/check_transformers.py")
if [ -x "$binary" ]; then check+=(--lmtrain "$binary"); else say "no $binary: only transformers' side is checked (scripts/build.sh builds it)"; fi
if [ $# -gt 0 ]; then exec "${check[@]}" "$@"; fi

status=0
reference=$repo_root/tests/reference
for folder in "$reference"/llama/*/ "$reference"/eval/hf/ "$reference"/eval/hf_sharded/; do
  "${check[@]}" "${folder%/}" --max-length 16 --max-length 64 || status=1
done
if [ -x "$binary" ]; then
  # Our own sources as the text: a tokenizer of 512 pieces, a model of two million weights, 20 steps, untied and grouped; as a
  # Llama, a Qwen3 whose checkpoints are in bf16, a Qwen2 with yarn and a Mistral with linear positions.
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
  "batch": { "tokens": 1024 }, "train": { "steps": 20 }
}
JSON
  for model in llama qwen3 qwen2 mistral; do
    changes=(--set "model.model_type=$model")
    case $model in
      qwen3) changes+=(--set model.head_dim=64 --set checkpoint.dtype=bf16) ;;
      qwen2) changes+=(--set 'model.rope_scaling={"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 64}') ;;
      mistral) changes+=(--set model.sliding_window=256 --set 'model.rope_scaling={"rope_type": "linear", "factor": 2}') ;;
    esac
    if "$binary" train "$work/tiny.json" --run-dir "$work/$model" "${changes[@]}" >"$work/out" 2>"$work/log"; then
      "${check[@]}" "$work/$model" || status=1
    else
      tail -n 5 "$work/log" >&2
      echo "FAIL a tiny $model of lmtrain to check"
      status=1
    fi
  done
fi
exit $status
