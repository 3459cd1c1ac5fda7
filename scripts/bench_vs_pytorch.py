#!/usr/bin/env python3
"""Step time and memory of lmtrain beside HF Trainer and plain PyTorch loops: same Llama, same weights, same tokens, CPU.

    python=$(scripts/check_transformers.sh --python)      # the virtual environment with torch and transformers
    $python scripts/bench_vs_pytorch.py --size 7m --length 256 --precision fp32 --rounds 5 --json bench.json

Each contestant runs in a process of its own, all with the same number of threads; a round runs each once, and every
round begins with another one, so that a drift of the machine hits all. A step's time is the wall clock from the end of
one update to the end of the next, data loading included; the first steps of a process are dropped.

    lmtrain    build/lmtrain train, timed by `elapsed` of its metrics.jsonl
    trainer    transformers.Trainer on LlamaForCausalLM with its defaults (fused AdamW, SDPA); bf16: bf16=True
    loop       a plain PyTorch Llama and loop: SDPA, fused AdamW, clip_grad_norm_, eager; bf16: autocast
    compile    the same with torch.compile
    hf-loop    the same loop around LlamaForCausalLM (not in the default set)
    pure-bf16, pure-bf16-compile   the loops with bf16 weights and bf16 AdamW states (less than lmtrain keeps: fp32 masters); bf16 only

Ratios are contestant / lmtrain within one round: above 1 lmtrain is faster (or smaller). Median and range over rounds.
Every round also measures the best matrix product (`lmtrain bench`, 2048 x 2048 and the like, the same dtype and threads);
"of matmul" is the model's FLOPs (6N + 6LDT a token, causal) at the contestant's speed, in percent of it.
Memory is the largest resident size of the process, the libraries' own pages included. torch.compile needs g++ and
Python's headers (Debian: python3-dev). Run it on an idle machine: threads that spin on busy processors take ten times
as long, and the range shows it.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time

# Only the standard library here: a child's largest resident size begins at its parent's, so this process stays small.
REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIZES = {
    "tiny": dict(hidden_size=64, intermediate_size=176, num_hidden_layers=2, num_attention_heads=4, vocab_size=1024),
    "7m": dict(hidden_size=256, intermediate_size=704, num_hidden_layers=6, num_attention_heads=4, vocab_size=8192),
    "30m": dict(hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8, vocab_size=8192),
    "30m-32k": dict(hidden_size=384, intermediate_size=1056, num_hidden_layers=10, num_attention_heads=6, vocab_size=32000),
}
OPTIMIZER = dict(lr=1e-3, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.1)
CLIP = 1.0
DROPPED_STEPS = 3


# ---------------------------------------------------------------------------------------------------------------------
# Children: each is `bench_vs_pytorch.py --child NAME SPEC` and writes {"times": [...], "losses": [...]} to its result file.


def child_prepare(spec):
    """Corpus (the Python sources of the installed torch), tokenizer, token stream and starting weights."""
    import glob

    import sentencepiece
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    work = spec["work"]
    if spec["corpus"]:
        files = [spec["corpus"]]
    else:
        files = sorted(glob.glob(os.path.join(os.path.dirname(torch.__file__), "**", "*.py"), recursive=True))
    text, limit = [], 8_000_000
    for path in files:
        with open(path, "rb") as file:
            text.append(file.read().decode("utf-8", errors="replace"))
        limit -= len(text[-1])
        if limit < 0:
            break
    text = "".join(text).replace("\u2581", " ")
    tokenizer = os.path.join(work, "tokenizer.model")
    if spec["tokenizer"]:
        shutil.copyfile(spec["tokenizer"], tokenizer)
    elif not os.path.exists(tokenizer):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(line for line in text.split("\n") if line), model_prefix=os.path.join(work, "tokenizer"),
            model_type="bpe", vocab_size=spec["model"]["vocab_size"], byte_fallback=True, normalization_rule_name="identity",
            add_dummy_prefix=False, remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, num_threads=2, minloglevel=2,
        )
    processor = sentencepiece.SentencePieceProcessor(model_file=tokenizer)
    needed = spec["steps"] * spec["rows"] * spec["length"] + 1
    for characters in (needed * 4, needed * 8, len(text)):
        part = text[:characters]
        ids = [processor.bos_id(), *processor.encode(part), processor.eos_id()]
        if len(ids) >= needed + 1:
            break
    else:
        sys.exit(f"the corpus has {len(ids)} tokens, {needed} are needed: give a longer --corpus")
    with open(os.path.join(work, "corpus.txt"), "w", encoding="utf-8", newline="") as file:
        file.write(part)
    torch.save(torch.tensor(ids, dtype=torch.int64), os.path.join(work, "tokens.pt"))

    config = LlamaConfig(
        **(spec["model"] | {"vocab_size": max(spec["model"]["vocab_size"], processor.get_piece_size())}),
        num_key_value_heads=spec["model"]["num_attention_heads"], max_position_embeddings=spec["length"],
        rms_norm_eps=1e-5, tie_word_embeddings=True, use_cache=False,
    )
    torch.manual_seed(1)
    model = LlamaForCausalLM(config)
    model.save_pretrained(os.path.join(work, "start"))
    shutil.copyfile(tokenizer, os.path.join(work, "start", "tokenizer.model"))
    return {"parameters": sum(p.numel() for p in model.parameters()), "torch": torch.__version__}


def stream_batch(tokens, spec, step):
    """Inputs and targets [rows, length]: consecutive rows of one stream, each sharing one token with the next."""
    rows, length = spec["rows"], spec["length"]
    begin = step * rows * length
    piece = tokens[begin : begin + rows * length + 1]
    return piece[:-1].view(rows, length), piece[1:].view(rows, length)


def plain_llama(config, weights):
    """LlamaForCausalLM in plain PyTorch as one would write it for speed: F.rms_norm, SDPA, one matmul for q, k and v."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    head_dim, eps = hidden // heads, config["rms_norm_eps"]

    class Block(nn.Module):
        def __init__(self, prefix):
            super().__init__()
            get = lambda name: nn.Parameter(weights[prefix + name + ".weight"].clone())
            self.norm_1, self.norm_2 = get("input_layernorm"), get("post_attention_layernorm")
            self.qkv = nn.Parameter(torch.cat([weights[f"{prefix}self_attn.{k}_proj.weight"] for k in "qkv"]))
            self.out = get("self_attn.o_proj")
            self.gate_up = nn.Parameter(torch.cat([weights[f"{prefix}mlp.{k}_proj.weight"] for k in ("gate", "up")]))
            self.down = get("mlp.down_proj")

        def forward(self, x_BTD, cos, sin):
            def rotate(x):
                first, second = x.chunk(2, -1)
                return x * cos + torch.cat([-second, first], -1) * sin

            batch, length, _ = x_BTD.shape
            qkv = F.linear(F.rms_norm(x_BTD, (hidden,), self.norm_1, eps), self.qkv)
            q, k, v = qkv.view(batch, length, 3, heads, head_dim).permute(2, 0, 3, 1, 4)
            h = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
            x_BTD = x_BTD + F.linear(h.transpose(1, 2).reshape(batch, length, hidden), self.out)
            gate, up = F.linear(F.rms_norm(x_BTD, (hidden,), self.norm_2, eps), self.gate_up).chunk(2, -1)
            return x_BTD + F.linear(F.silu(gate) * up, self.down)

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Parameter(weights["model.embed_tokens.weight"].clone())
            self.norm = nn.Parameter(weights["model.norm.weight"].clone())
            self.blocks = nn.ModuleList(Block(f"model.layers.{i}.") for i in range(config["num_hidden_layers"]))
            theta = config["rope_parameters"]["rope_theta"] if "rope_parameters" in config else config["rope_theta"]
            frequency = 1.0 / theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
            angle = torch.arange(config["max_position_embeddings"]).float()[:, None] * frequency
            angle = torch.cat([angle, angle], -1)
            self.register_buffer("cos", angle.cos(), persistent=False)
            self.register_buffer("sin", angle.sin(), persistent=False)

        def forward(self, ids_BT, targets_BT):
            length = ids_BT.shape[1]
            x = F.embedding(ids_BT, self.embed)
            cos, sin = self.cos[:length].to(x.dtype), self.sin[:length].to(x.dtype)
            for block in self.blocks:
                x = block(x, cos, sin)
            logits = F.linear(F.rms_norm(x, (hidden,), self.norm, eps), self.embed)
            return F.cross_entropy(logits.float().flatten(0, 1), targets_BT.flatten())

    return Llama()


def child_loop(spec, compiled=False, pure=False, transformers_model=False):
    import torch
    from safetensors.torch import load_file

    start = os.path.join(spec["work"], "start")
    with open(os.path.join(start, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    if transformers_model:
        from transformers import LlamaForCausalLM

        model = LlamaForCausalLM.from_pretrained(start, attn_implementation="sdpa", dtype=torch.float32).train()
        forward = lambda ids, targets: model(input_ids=ids, labels=targets, shift_labels=targets, use_cache=False).loss
    else:
        model = plain_llama(config, load_file(os.path.join(start, "model.safetensors")))
        forward = model
    if pure:
        model.bfloat16()
    if compiled:
        forward = torch.compile(forward)
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": OPTIMIZER["weight_decay"]}, {"params": vectors, "weight_decay": 0.0}],
        lr=OPTIMIZER["lr"], betas=tuple(OPTIMIZER["betas"]), eps=OPTIMIZER["eps"], fused=True,
    )
    tokens = torch.load(os.path.join(spec["work"], "tokens.pt"))
    autocast = spec["precision"] == "bf16" and not pure
    ends, losses = [time.perf_counter()], []
    for step in range(spec["steps"]):
        ids, targets = stream_batch(tokens, spec, step)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = forward(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        ends.append(time.perf_counter())
    return {"times": [b - a for a, b in zip(ends, ends[1:])], "losses": losses}


def child_trainer(spec):
    import torch
    from transformers import LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

    model = LlamaForCausalLM.from_pretrained(os.path.join(spec["work"], "start"), dtype=torch.float32)
    tokens = torch.load(os.path.join(spec["work"], "tokens.pt"))
    length = spec["length"]

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return spec["steps"] * spec["rows"]

        def __getitem__(self, row):
            piece = tokens[row * length : (row + 1) * length + 1]
            # shift_labels: targets as they are, else the model would drop the last of each row
            return {"input_ids": piece[:-1], "labels": piece[1:], "shift_labels": piece[1:]}

    ends, losses = [], []

    class Clock(TrainerCallback):
        def on_train_begin(self, *_, **__):
            ends.append(time.perf_counter())

        def on_step_end(self, *_, **__):
            ends.append(time.perf_counter())

    class LossTrainer(Trainer):
        def training_step(self, *args, **kwargs):
            loss = super().training_step(*args, **kwargs)
            losses.append(loss.detach())
            return loss

    arguments = TrainingArguments(
        output_dir=os.path.join(spec["work"], "trainer"), use_cpu=True, bf16=spec["precision"] == "bf16",
        per_device_train_batch_size=spec["rows"], max_steps=spec["steps"], learning_rate=OPTIMIZER["lr"],
        lr_scheduler_type="constant", weight_decay=OPTIMIZER["weight_decay"], adam_beta1=OPTIMIZER["betas"][0],
        adam_beta2=OPTIMIZER["betas"][1], adam_epsilon=OPTIMIZER["eps"], max_grad_norm=CLIP, save_strategy="no",
        logging_strategy="no", report_to="none", disable_tqdm=True, remove_unused_columns=False,
        train_sampling_strategy="sequential",  # the same order as the others
    )
    LossTrainer(model=model, args=arguments, train_dataset=Rows(), callbacks=[Clock()]).train()
    return {"times": [b - a for a, b in zip(ends, ends[1:])], "losses": [x.item() for x in losses]}


CHILDREN = {
    "prepare": child_prepare,
    "trainer": child_trainer,
    "loop": child_loop,
    "compile": lambda spec: child_loop(spec, compiled=True),
    "hf-loop": lambda spec: child_loop(spec, transformers_model=True),
    "pure-bf16": lambda spec: child_loop(spec, pure=True),
    "pure-bf16-compile": lambda spec: child_loop(spec, pure=True, compiled=True),
}
DEFAULT_CONTESTANTS = {
    "fp32": ["lmtrain", "trainer", "loop", "compile"],
    "bf16": ["lmtrain", "trainer", "loop", "compile", "pure-bf16", "pure-bf16-compile"],
}


# ---------------------------------------------------------------------------------------------------------------------
# The parent


def run_process(command, threads, log):
    """(exit status, largest resident size in bytes, seconds)"""
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false",
    }
    started = time.perf_counter()
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_maxrss * 1024, time.perf_counter() - started


def tail(path, count=15):
    with open(path, encoding="utf-8", errors="replace") as file:
        return "".join(file.readlines()[-count:])


def run_child(name, spec):
    result = os.path.join(spec["work"], f"{name}.result.json")
    log = os.path.join(spec["work"], f"{name}.log")
    spec_path = os.path.join(spec["work"], "spec.json")
    with open(spec_path, "w", encoding="utf-8") as file:
        json.dump(spec, file)
    command = [sys.executable, os.path.abspath(__file__), "--child", name, spec_path, result]
    status, memory, _ = run_process(command, spec["threads"], log)
    if status != 0:
        sys.exit(f"{name} ended with {status}; the end of {log}:\n{tail(log)}")
    with open(result, encoding="utf-8") as file:
        return json.load(file) | {"memory": memory}


def run_lmtrain(spec, binary):
    work = spec["work"]
    config = {
        "name": "bench", "seed": 1, "device": "cpu", "precision": spec["precision"], "threads": spec["threads"],
        "init_from": os.path.join(work, "start"),
        "tokenizer": {"model": os.path.join(work, "tokenizer.model")},
        "data": {
            "train": [{"path": os.path.join(work, "corpus.txt")}], "eval_fraction": 0, "format": "text",
            "cache_dir": os.path.join(work, "lmtrain-cache"), "shuffle": False,
        },
        "sequence": {
            "max_length": spec["length"], "min_length": min(64, spec["length"]), "batching": "concat",
            "schedule": {"type": "constant"},
        },
        "batch": {"tokens": spec["rows"] * spec["length"]},
        "optimizer": {"type": "adamw", **OPTIMIZER},
        "lr_schedule": {"type": "constant", "warmup": 0},
        "clip": {"type": "norm", "max": CLIP},
        "train": {"steps": spec["steps"]},
        "eval": {"every": 0},
        "checkpoint": {"every": 0},
        "log": {"every": 1, "tensorboard": False},
    }
    path, run, log = (os.path.join(work, name) for name in ("lmtrain.json", "lmtrain-run", "lmtrain.log"))
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
    shutil.rmtree(run, ignore_errors=True)
    status, memory, _ = run_process([binary, "train", path, "--run-dir", run], spec["threads"], log)
    if status != 0:
        sys.exit(f"lmtrain ended with {status}; the end of {log}:\n{tail(log)}")
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as file:
        lines = [line for line in map(json.loads, file) if "elapsed" in line and "loss" in line]
    elapsed = [0.0] + [line["elapsed"] for line in lines]
    bench = subprocess.run([binary, "bench", path, "--steps", "1", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    measured = json.loads(bench.stdout)
    return {
        "matmul_rate": measured["matmul_flops_per_second"],
        "flops_per_token": measured["lengths"][0]["flops_per_token"],
        "times": [b - a for a, b in zip(elapsed, elapsed[1:])],
        "losses": [line["loss"] for line in lines],
        "memory": memory,
    }


def processor_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        lines = file.read().splitlines()
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    return fields.get("model name", platform.machine()), fields.get("flags", "").split()


def summarise(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def spread(summary, scale=1.0, form=".2f"):
    median, low, high = (format(summary[key] * scale, form) for key in ("median", "min", "max"))
    return f"{median} ({low}-{high})"


def print_table(report):
    base = report["base"]
    columns = ["", "ms/step", "tokens/s", f"time / {base}", "of matmul", "peak MB", f"memory / {base}", "loss diff"]
    rows = [columns]
    for name, entry in report["contestants"].items():
        rows.append([
            name,
            spread(entry["step_seconds"], 1e3, ".0f" if entry["step_seconds"]["median"] > 0.1 else ".1f"),
            f"{report['batch_tokens'] / entry['step_seconds']['median']:.0f}",
            spread(entry["time_ratio"]),
            f"{100 * entry['of_matmul']['median']:.0f} %" if "of_matmul" in entry else "",
            f"{entry['peak_bytes']['median'] / 1e6:.0f}",
            spread(entry["memory_ratio"]),
            f"{entry['largest_loss_difference']:.1e}",
        ])
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    for row in rows:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))))


def main():
    if sys.argv[1:2] == ["--child"]:
        _, _, name, spec_path, result_path = sys.argv
        with open(spec_path, encoding="utf-8") as file:
            spec = json.load(file)
        result = CHILDREN[name](spec)
        with open(result_path, "w", encoding="utf-8") as file:
            json.dump(result, file)
        return

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="7m")
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--batch-tokens", type=int, default=4096, help="targets per step, a multiple of the length")
    parser.add_argument("--steps", type=int, default=15, help=f"per process; the first {DROPPED_STEPS} are dropped")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS", 2)))
    parser.add_argument("--contestants", help="comma-separated; default depends on the precision")
    parser.add_argument("--lmtrain", default=os.environ.get("LMTRAIN_BINARY", os.path.join(REPO, "build", "lmtrain")))
    parser.add_argument("--corpus", help="a text file; default: the Python sources of the installed torch")
    parser.add_argument("--tokenizer", help="a sentencepiece model; default: trained on the corpus once")
    parser.add_argument("--work", help="folder for corpus, tokenizer, weights and logs; default: in the lmtrain cache")
    parser.add_argument("--json", help="write everything measured here")
    arguments = parser.parse_args()
    if arguments.batch_tokens % arguments.length:
        parser.error("--batch-tokens must be a multiple of --length")
    if arguments.steps <= DROPPED_STEPS:
        parser.error(f"--steps must be above {DROPPED_STEPS}")
    names = arguments.contestants.split(",") if arguments.contestants else DEFAULT_CONTESTANTS[arguments.precision]
    for name in names:
        if name not in {"lmtrain", *CHILDREN} - {"prepare"} or (name.startswith("pure-") and arguments.precision != "bf16"):
            parser.error(f"no contestant {name} at {arguments.precision}")
    model_name, flags = processor_name()
    if arguments.precision == "bf16" and not {"avx512_bf16", "amx_bf16"} & set(flags):
        sys.exit("this processor has no bf16 instructions (avx512_bf16, amx_bf16): a bf16 comparison says nothing here")
    if "lmtrain" in names and not os.access(arguments.lmtrain, os.X_OK):
        print(f"no {arguments.lmtrain} (scripts/build.sh builds it): the others only", file=sys.stderr)
        names = [name for name in names if name != "lmtrain"]
    if not names:
        sys.exit("nothing to measure")
    base = next((name for name in ("lmtrain", "loop") if name in names), names[0])

    cache = os.environ.get("LMTRAIN_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "lmtrain"
    )
    work = os.path.abspath(arguments.work or os.path.join(cache, "bench", arguments.size))
    os.makedirs(work, exist_ok=True)
    spec = {
        "work": work, "model": SIZES[arguments.size], "length": arguments.length, "steps": arguments.steps,
        "rows": arguments.batch_tokens // arguments.length, "precision": arguments.precision,
        "threads": arguments.threads, "corpus": arguments.corpus and os.path.abspath(arguments.corpus),
        "tokenizer": arguments.tokenizer and os.path.abspath(arguments.tokenizer),
    }
    prepared = run_child("prepare", spec)
    print(
        f"{arguments.size} ({prepared['parameters'] / 1e6:.1f}M weights), length {arguments.length}, {arguments.batch_tokens} tokens a step, "
        f"{arguments.precision}, {arguments.threads} threads, torch {prepared['torch']}, {model_name}", flush=True,
    )

    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"warning: load average {load:.1f} before the start: other work on this machine will spoil the figures", file=sys.stderr)

    runs = {name: [] for name in names}
    for round_index in range(arguments.rounds):
        turn = round_index % len(names)
        for name in names[turn:] + names[:turn]:
            result = run_lmtrain(spec, arguments.lmtrain) if name == "lmtrain" else run_child(name, spec)
            if len(result["times"]) != arguments.steps:
                sys.exit(f"{name} took {len(result['times'])} steps, {arguments.steps} were wanted")
            result["step_seconds"] = statistics.median(result["times"][DROPPED_STEPS:])
            runs[name].append(result)
            print(f"round {round_index + 1} {name}: {result['step_seconds'] * 1e3:.1f} ms, {result['memory'] / 1e6:.0f} MB", file=sys.stderr, flush=True)

    report = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "processor": model_name, "threads": arguments.threads,
        "torch": prepared["torch"], "size": arguments.size, "parameters": prepared["parameters"], "length": arguments.length,
        "batch_tokens": arguments.batch_tokens, "precision": arguments.precision, "steps": arguments.steps,
        "rounds": arguments.rounds, "load_average_before": load, "base": base, "contestants": {},
    }
    for name in names:
        pairs = list(zip(runs[name], runs[base]))
        report["contestants"][name] = {
            "step_seconds": summarise([run["step_seconds"] for run in runs[name]]),
            "peak_bytes": summarise([run["memory"] for run in runs[name]]),
            "time_ratio": summarise([a["step_seconds"] / b["step_seconds"] for a, b in pairs]),
            "memory_ratio": summarise([a["memory"] / b["memory"] for a, b in pairs]),
            "largest_loss_difference": max(abs(x - y) for x, y in zip(runs[name][0]["losses"], runs[base][0]["losses"])),
            "losses": runs[name][0]["losses"],
            "step_seconds_of_rounds": [run["step_seconds"] for run in runs[name]],
        }
        if "lmtrain" in runs:
            flops = [arguments.batch_tokens * run["flops_per_token"] / run["matmul_rate"] for run in runs["lmtrain"]]
            report["contestants"][name]["of_matmul"] = summarise(
                [seconds / run["step_seconds"] for seconds, run in zip(flops, runs[name])])
    if "lmtrain" in runs:
        report["matmul_rate"] = summarise([run["matmul_rate"] for run in runs["lmtrain"]])
        print(f"best matrix product: {spread(report['matmul_rate'], 1e-9, '.0f')} GFLOP/s")
    print_table(report)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
