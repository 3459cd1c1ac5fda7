#!/usr/bin/env python3
"""Does llama.cpp read a GGUF file of lmtrain, and compute the same with it?

Run by scripts/check_gguf.sh, which says what the arguments mean and makes the virtual environment. One line a check: PASS or FAIL.
`--file FILE --folder FOLDER` checks a file that is there already against a folder of transformers, without lmtrain.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile

import gguf
import numpy
import xllamacpp

PROMPTS = [
    "The", "#include", "A checkpoint is", "for (int i = 0; i < 10; ++i) {\n", "1234567 and 89", "  two  spaces", "Zürich 東京 🙂",
    "a", "// ", "std::vector<", "namespace lmtrain {", "return", "\tif (", "It's what they're told", "x = 3.14;", "UPPER lower CamelCase",
    "what,where;why?", "https://example.org/a?b=1", "\n\n", "e\u0301 \u00e9 привет",
]  # fmt: skip
TYPES = {"fp32": "F32", "fp16": "F16", "bf16": "BF16", "q8_0": "Q8_0"}
# The largest error of a number, in parts of the largest of its row.
ERRORS = {"F32": 0, "F16": 2**-11, "BF16": 2**-8, "Q8_0": 0.5 / 127 + 2**-11}

NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
NAMES_IN_LAYER = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip

# llama.cpp computes a Mistral as a Llama.
ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}

failures = 0


def report(passed, what, detail=""):
    global failures
    failures += not passed
    print("PASS" if passed else "FAIL", what, detail, flush=True)


def read_safetensors(path):
    """The tensors of a file; bf16 and fp16 as fp32."""
    dtypes = {"F32": numpy.float32, "F16": numpy.float16, "BF16": numpy.uint16, "I64": numpy.int64}
    tensors = {}
    with open(path, "rb") as file:
        data = file.read()
    (size,) = struct.unpack("<Q", data[:8])
    for key, entry in json.loads(data[8 : 8 + size]).items():
        if key == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        values = numpy.frombuffer(data[8 + size + begin : 8 + size + end], dtypes[entry["dtype"]])
        if entry["dtype"] == "BF16":
            values = (values.astype(numpy.uint32) << 16).view(numpy.float32)
        elif entry["dtype"] == "F16":
            values = values.astype(numpy.float32)
        tensors[key] = values.reshape(entry["shape"])
    return tensors


def tensors_of(folder):
    """The tensors of a folder, by the names of transformers."""
    tensors = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith("model") and name.endswith(".safetensors"):
            tensors |= read_safetensors(os.path.join(folder, name))
    return tensors


def expected_tensors(folder, config):
    """The tensors of the file, by the names and in the order of rows of llama.cpp."""
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config.get("num_key_value_heads", config["num_attention_heads"])}
    expected = {}
    for name, values in tensors_of(folder).items():
        if name == "lm_head.weight" and config.get("tie_word_embeddings"):
            continue
        stem, part = name.rsplit(".", 1)  # "weight" or "bias"
        if stem.startswith("model.layers."):
            _, _, layer, rest = stem.split(".", 3)
            theirs = f"blk.{layer}.{NAMES_IN_LAYER[rest]}.{part}"
        else:
            theirs = f"{NAMES[stem]}.{part}"
        kind = stem.rsplit(".", 1)[-1]
        if ARCHITECTURES.get(config["model_type"]) == "llama" and kind in heads:
            rows = values.reshape(heads[kind], 2, -1, values.shape[1])
            values = rows.swapaxes(1, 2).reshape(values.shape)
        expected[theirs] = values
    return expected


def check_fields(path, folder, dtype):
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    reader = gguf.GGUFReader(path)
    fields = {key: field.contents() for key, field in reader.fields.items()}
    family = fields["general.architecture"]
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    wanted = {
        "GGUF.version": 3, "general.architecture": ARCHITECTURES[config["model_type"]], "general.alignment": 32,
        f"{family}.block_count": config["num_hidden_layers"], f"{family}.embedding_length": config["hidden_size"],
        f"{family}.feed_forward_length": config["intermediate_size"], f"{family}.attention.head_count": config["num_attention_heads"],
        f"{family}.attention.head_count_kv": config["num_key_value_heads"], f"{family}.attention.key_length": head_dim,
        f"{family}.attention.value_length": head_dim, f"{family}.rope.dimension_count": head_dim,
        f"{family}.vocab_size": config["vocab_size"],
        f"{family}.attention.layer_norm_rms_epsilon": float(numpy.float32(config["rms_norm_eps"])),
        f"{family}.rope.freq_base": float(numpy.float32(rope.get("rope_theta", config.get("rope_theta", 10000.0)))),
    }  # fmt: skip
    if rope.get("rope_type") in ("linear", "yarn"):
        wanted[f"{family}.rope.scaling.type"] = rope["rope_type"]
        wanted[f"{family}.rope.scaling.factor"] = float(numpy.float32(rope["factor"]))
    if rope.get("rope_type") == "yarn":
        wanted[f"{family}.rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
    wrong = {key: (fields.get(key), value) for key, value in wanted.items() if fields.get(key) != value}
    report(not wrong, f"{dtype}: {len(fields)} fields are read", str(wrong or ""))
    for key in ("tokens", "token_type") + (("scores",) if fields["tokenizer.ggml.model"] == "llama" else ()):
        count = len(fields[f"tokenizer.ggml.{key}"])
        report(count == config["vocab_size"], f"{dtype}: {count} of tokenizer.ggml.{key}")
    expected = expected_tensors(folder, config)
    scaled = rope.get("rope_type") == "llama3"
    names = {tensor.name for tensor in reader.tensors}
    report(names == set(expected) | ({"rope_freqs.weight"} if scaled else set()), f"{dtype}: {len(names)} tensors")
    for tensor in reader.tensors:
        if tensor.name not in expected:
            continue
        values = expected[tensor.name]
        odd = TYPES[dtype] == "Q8_0" and values.shape[-1] % 32 != 0
        type_name = "F32" if values.ndim == 1 else "F16" if odd else TYPES[dtype]
        read = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(values.shape)
        limit = ERRORS[type_name] * numpy.abs(values).max(axis=-1, keepdims=True)
        is_same = tensor.tensor_type.name == type_name and bool((numpy.abs(read - values) <= limit).all())
        if type_name == "Q8_0":  # the bytes of the package's own quantizer
            is_same = is_same and bool((gguf.quantize(values, tensor.tensor_type) == tensor.data).all())
        if not is_same:
            report(False, f"{dtype}: {tensor.name} is {tensor.tensor_type.name}", f"error {numpy.abs(read - values).max():g}")
            return
    report(True, f"{dtype}: every tensor has the numbers of the folder")


def server_of(path):
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = 0
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.warmup = False
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32  # as lmtrain; the default is fp16
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # tiny models; more only wait for each other
    params.verbosity = 0
    return xllamacpp.Server(params)


def continue_prompt(server, prompt, tokens):
    """The greedy text and the log-likelihoods of its tokens."""
    answer = server.handle_completions({
        "prompt": prompt, "max_tokens": tokens, "temperature": 0, "logprobs": 1, "n_probs": 1, "cache_prompt": False,
    })  # fmt: skip
    if "choices" not in answer:
        raise RuntimeError(str(answer)[:500])
    choice = answer["choices"][0]
    return choice["text"], [entry["logprob"] for entry in choice["logprobs"]["content"]]


def json_lines(program, arguments, lines):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
        file.flush()
        done = subprocess.run([program, *arguments, file.name], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_texts(path, program, target, folder, options):
    server = server_of(path)
    prompts = options.prompt or PROMPTS
    theirs = [continue_prompt(server, prompt, options.tokens) for prompt in prompts]
    greedy = ["generate", target, "--temperature", "0", "--precision", "fp32", "--device", "cpu", "--batch-size", "1"]
    ours = json_lines(program, [*greedy, "--max-tokens", str(options.tokens), "--prompts"], [{"prompt": p} for p in prompts])
    for prompt, (text, _), answer in zip(prompts, theirs, ours, strict=True):
        is_same = text.rstrip("\ufffd") == answer["text"].rstrip("\ufffd")
        report(is_same, f"greedy text after {prompt!r}", "" if is_same else f"\n  lmtrain   {answer['text']!r}\n  llama.cpp {text!r}")
    check_logits(server, program, folder)


def check_logits(server, program, folder):
    """Log-probabilities of every token after random ids, by both."""
    writer = os.path.join(os.path.dirname(os.path.abspath(program)), "write_logits")
    if not os.path.exists(writer):
        print("SKIP logits: no build/write_logits (scripts/build.sh release write_logits)", flush=True)
        return
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        subprocess.run([writer, folder, file.name], check=True, capture_output=True)
        stored = read_safetensors(file.name)
    ids, logits = stored["input_ids"][0], stored["logits"][0].astype(numpy.float64)
    largest = 0.0
    for length in sorted({1, 2, 7, len(ids) // 2, len(ids) - 1}):  # one position is left for the answer
        answer = server.handle_completions({
            "prompt": [int(i) for i in ids[:length]], "max_tokens": 1, "temperature": 0, "logprobs": logits.shape[1],
            "n_probs": logits.shape[1], "cache_prompt": False,
        })  # fmt: skip
        if "choices" not in answer:
            raise RuntimeError(str(answer)[:500])
        entries = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        theirs = {entry["id"]: entry["logprob"] for entry in entries}
        ours = logits[length - 1]
        ours = ours - ours.max() - numpy.log(numpy.exp(ours - ours.max()).sum())
        if len(theirs) != len(ours):
            report(False, f"logits after {length} ids", f"llama.cpp gives {len(theirs)} of {len(ours)}")
            return
        largest = max(largest, max(abs(ours[i] - logprob) for i, logprob in theirs.items()))
    report(largest < 1e-3, f"logits of {len(logits[0])} tokens after up to {len(ids) - 1} ids", f"largest difference {largest:.1e}")


def check_target(program, target, options):
    print(f"== {target}")
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "hf")
        subprocess.run([program, "export", target, "--format", "hf", "--to", folder], check=True, capture_output=True)
        for dtype in TYPES:
            path = os.path.join(work, f"{dtype}.gguf")
            export = [program, "export", target, "--format", "gguf", "--to", path, "--dtype", dtype]
            done = subprocess.run(export, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                report(False, f"{dtype}: export", done.stderr)
                continue
            check_fields(path, folder, dtype)
            if dtype == "fp32":
                check_texts(path, program, target, folder, options)
            else:
                text, logprobs = continue_prompt(server_of(path), "The", options.tokens)
                report(bool(logprobs), f"{dtype}: llama.cpp continues", repr(text[:40]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--lmtrain", default="build/lmtrain")
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--prompt", action="append")
    parser.add_argument("--file")
    parser.add_argument("--folder")
    parser.add_argument("--dtype", default="fp32", choices=TYPES)
    options = parser.parse_args()
    if options.file:
        check_fields(options.file, options.folder, options.dtype)
        if os.path.exists(options.lmtrain) and options.dtype == "fp32":
            check_texts(options.file, options.lmtrain, options.folder, options.folder, options)
    for target in options.targets:
        check_target(options.lmtrain, target, options)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
