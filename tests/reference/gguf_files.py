#!/usr/bin/env python3
"""Makes tests/reference/gguf: a small Qwen3 with a byte-level tokenizer, and the GGUF files that lmtrain writes of it and of eval/hf.

    ~/.cache/lmtrain/venv-gguf/bin/python tests/reference/gguf_files.py [LMTRAIN]

scripts/check_gguf.sh makes that environment. A file is stored only if PyPI's package gguf reads every field and tensor of it, with the numbers
of the folder. The tests want lmtrain to write the same bytes, so what the package reads is held in CI without it.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy

REFERENCE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(REFERENCE, "..", "..", "scripts"))
import check_gguf  # noqa: E402

FOLDER = os.path.join(REFERENCE, "gguf")
TOKENIZER = os.path.join(REFERENCE, "tokenizer_json", "qwen2.json")
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 432, "hidden_size": 32, "intermediate_size": 64,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": True, "hidden_act": "silu", "attention_bias": False,
}  # fmt: skip


def write_model(folder):
    """Random weights in fp32, by the names of transformers."""
    d, f, head, heads, kv = (CONFIG[key] for key in ("hidden_size", "intermediate_size", "head_dim", "num_attention_heads", "num_key_value_heads"))
    layer = {
        "input_layernorm": (d,), "self_attn.q_proj": (heads * head, d), "self_attn.k_proj": (kv * head, d), "self_attn.v_proj": (kv * head, d),
        "self_attn.o_proj": (d, heads * head), "self_attn.q_norm": (head,), "self_attn.k_norm": (head,), "post_attention_layernorm": (d,),
        "mlp.gate_proj": (f, d), "mlp.up_proj": (f, d), "mlp.down_proj": (d, f),
    }  # fmt: skip
    shapes = {"model.embed_tokens.weight": (CONFIG["vocab_size"], d), "model.norm.weight": (d,)}
    shapes |= {f"model.layers.0.{name}.weight": shape for name, shape in layer.items()}
    draw = numpy.random.default_rng(1)
    header, data = {}, b""
    for name, shape in shapes.items():
        raw = draw.normal(0, 0.02, shape).astype(numpy.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(CONFIG, file, indent=1)
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"eos_token": "<|im_end|>"}, file)


def main():
    lmtrain = sys.argv[1] if len(sys.argv) > 1 else os.path.join(REFERENCE, "..", "..", "build", "lmtrain")
    write_model(os.path.join(FOLDER, "qwen3"))
    with tempfile.TemporaryDirectory() as work:
        folders = {"llama": os.path.join(work, "llama"), "qwen3": os.path.join(work, "qwen3")}
        shutil.copytree(os.path.join(REFERENCE, "eval", "hf"), folders["llama"])
        shutil.copytree(os.path.join(FOLDER, "qwen3"), folders["qwen3"])
        shutil.copy(TOKENIZER, os.path.join(folders["qwen3"], "tokenizer.json"))
        for name, dtype in (("llama", "fp32"), ("llama", "bf16"), ("qwen3", "fp16"), ("qwen3", "q8_0")):
            path = os.path.join(FOLDER, f"{name}-{dtype}.gguf")
            if os.path.exists(path):
                os.remove(path)
            subprocess.run([lmtrain, "export", folders[name], "--format", "gguf", "--to", path, "--dtype", dtype], check=True)
            check_gguf.check_fields(path, folders[name], dtype)
    sys.exit(1 if check_gguf.failures else 0)


main()
