"""The processes of scripts/bench_vs_pytorch.py, one a contestant: what each is given, how it is run, and what it gives back.

Standard library only: a child's largest resident size begins at its parent's, so the parent stays small.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time

from run_files import json_lines

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIZES = {
    "tiny": dict(hidden_size=64, intermediate_size=176, num_hidden_layers=2, num_attention_heads=4, vocab_size=1024),
    "7m": dict(hidden_size=256, intermediate_size=704, num_hidden_layers=6, num_attention_heads=4, vocab_size=8192),
    "30m": dict(hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8, vocab_size=8192),
    "30m-32k": dict(hidden_size=384, intermediate_size=1056, num_hidden_layers=10, num_attention_heads=6, vocab_size=32000),
    "124m": dict(hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12, vocab_size=50304),
    "350m": dict(hidden_size=1024, intermediate_size=2816, num_hidden_layers=24, num_attention_heads=16, vocab_size=50304),
    "1.1b": dict(
        hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32, num_key_value_heads=4,
        vocab_size=32000, tie_word_embeddings=False,
    ),
}
OPTIMIZER = dict(lr=1e-3, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.1)
# The rate rises over more steps than a comparison has. At once at 1e-3 a model of 1.1B diverges in every contestant, and losses say nothing then.
WARMUP_STEPS, WARMUP_START = 100, 0.01
CLIP = 1.0
STEPS_BEYOND = 5  # of a run that is killed
# Settings of lmtrain's contestants, and the names of the Python ones.
LMTRAIN = {"lmtrain": {}, "lmtrain-graph": {"compile": "graph"}, "lmtrain-fp8": {"compile": "graph", "precision": "fp8"}}
PYTHON = ["trainer", "loop", "compile", "hf-loop", "double", "pure-bf16", "pure-bf16-compile"]
OUT_OF_MEMORY = re.compile(r"out of memory|OutOfMemory|_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation|std::bad_alloc", re.IGNORECASE)
LMTRAIN_OUT_OF_MEMORY = 6  # its exit code


class ContestantFailed(Exception):
    """A contestant that gave no result. `out_of_memory`: for want of memory."""

    def __init__(self, name, status, log):
        with open(log, encoding="utf-8", errors="replace") as file:
            text = file.read()
        self.out_of_memory = bool(OUT_OF_MEMORY.search(text)) or (name in LMTRAIN and status == LMTRAIN_OUT_OF_MEMORY)
        super().__init__(f"{name} ended with {status}; the end of {log}:\n" + "\n".join(text.splitlines()[-15:]))


def visible_gpu():
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]


def make_spec(work, size, length, steps, batch_tokens, micro_tokens, device, precision, threads, corpus=None):
    """What every contestant of a comparison is given."""
    return {
        "work": work, "model": SIZES[size], "length": length, "steps": steps, "rows": batch_tokens // length,
        "micro_rows": micro_tokens // length, "device": device, "precision": precision, "threads": threads,
        "optimizer": OPTIMIZER, "warmup_steps": WARMUP_STEPS, "warmup_start": WARMUP_START, "clip": CLIP,
        "corpus": corpus and os.path.abspath(corpus),
    }


def run_process(command, threads, log, output=None, enough=None):
    """(exit status, largest resident size in bytes); standard output goes to `output`, or to the log too. Where enough() is
    given, it is asked fifty times a second, and the process is killed once it says so; its status is then 0."""
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": visible_gpu(),  # Trainer would take all
    }
    with open(log, "wb") as messages, open(output or os.devnull, "wb") as printed:
        process = subprocess.Popen(command, stdout=printed if output else messages, stderr=messages, env=environment)
        killed = False
        try:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG if enough else 0)
            while not ended:
                if not killed and enough():
                    process.kill()
                    killed = True
                time.sleep(0.02)
                ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        except BaseException:  # stopped from outside, for want of time
            process.kill()
            raise
    process.returncode = os.waitstatus_to_exitcode(status)
    return 0 if killed else process.returncode, usage.ru_maxrss * 1024


def run_python(name, spec):
    result = os.path.join(spec["work"], f"{name}.result.json")
    log = os.path.join(spec["work"], f"{name}.log")
    spec_path = os.path.join(spec["work"], "spec.json")
    with open(spec_path, "w", encoding="utf-8") as file:
        json.dump(spec, file)
    command = [sys.executable, os.path.join(REPO, "scripts", "bench_contestants.py"), name, spec_path, result]
    status, resident = run_process(command, spec["threads"], log)
    if status != 0:
        raise ContestantFailed(name, status, log)
    with open(result, encoding="utf-8") as file:
        measured = json.load(file)
    return measured | {"memory": measured.get("memory") or resident}


def steps_of(metrics):
    """The lines of the steps in a metrics.jsonl that may still be written to."""
    try:
        with open(metrics, encoding="utf-8") as file:
            complete = [line for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []
    return [line for line in map(json.loads, complete) if "elapsed" in line and "loss" in line]


def lmtrain_config(name, spec):
    """The config of a contestant of LMTRAIN, from the weights that all start from."""
    work = spec["work"]
    return {
        "name": "bench", "seed": 1, "device": spec["device"], "precision": spec["precision"], "threads": spec["threads"],
        "init_from": os.path.join(work, "start"),
        "tokenizer": {"model": os.path.join(work, "tokenizer.model")},
        "data": {
            "train": [{"path": os.path.join(work, "tokens.bin")}], "eval_fraction": 0, "format": "tokens", "token_dtype": "uint32",
            "cache_dir": os.path.join(work, "lmtrain-cache"), "shuffle": False,
        },
        "sequence": {
            "max_length": spec["length"], "min_length": min(64, spec["length"]), "batching": "concat",
            "schedule": {"type": "constant"},
        },
        "batch": {"tokens": spec["rows"] * spec["length"], "micro_tokens": spec["micro_rows"] * spec["length"]},
        "optimizer": {"type": "adamw", **OPTIMIZER},
        "lr_schedule": {"type": "constant", "warmup": spec["warmup_steps"], "warmup_start": spec["warmup_start"]},
        "clip": {"type": "norm", "max": CLIP},
        "train": {"steps": spec["steps"] + STEPS_BEYOND},
        "eval": {"every": 0},
        "checkpoint": {"every": 0},
        "log": {"every": 1, "tensorboard": False},
    } | LMTRAIN[name]


def train_steps(binary, config, place, threads, steps):
    """{"lines": of so many steps in metrics.jsonl, "start_seconds", "start": the fields of event `first_step`, "warnings", "memory": the process's
    largest resident size} of a run of lmtrain, which is killed after the last step that counts: the checkpoint of 1.1b has 13 GB, and would
    only take time. Files are called `place`, and an ending. start_seconds: from the start of the program to the end of its first step."""
    path, run, log = (place + ending for ending in (".json", "-run", ".log"))
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
    shutil.rmtree(run, ignore_errors=True)
    metrics = os.path.join(run, "metrics.jsonl")
    started, seen = time.monotonic(), []

    def enough():
        lines = steps_of(metrics)
        if lines and not seen:
            seen.append(time.monotonic() - started)
        return len(lines) >= steps

    status, resident = run_process([binary, "train", path, "--run-dir", run], threads, log, enough=enough)
    if status != 0:
        raise ContestantFailed("lmtrain", status, log)
    lines, start = steps_of(metrics)[:steps], first_step_of(os.path.join(run, "events.jsonl"))
    shutil.rmtree(run)
    with open(log, encoding="utf-8", errors="replace") as file:
        warnings = [line.strip() for line in file if line.startswith("warning:")]
    return {"lines": lines, "start_seconds": seen[0] if seen else None, "start": start, "warnings": warnings, "memory": resident}


def first_step_of(events):
    """The event `first_step` of a run's events.jsonl: when the first step was done, and which seconds before it went where; {} without it."""
    try:
        return next((event for event in json_lines(events) if event.get("event") == "first_step"), {})
    except FileNotFoundError:
        return {}


def run_lmtrain(name, spec, binary):
    work = spec["work"]
    place = os.path.join(work, name)
    trained = train_steps(binary, lmtrain_config(name, spec), place, spec["threads"], spec["steps"])
    elapsed = [0.0] + [line["elapsed"] for line in trained["lines"]]
    bench = os.path.join(work, "lmtrain-bench.json")
    status, _ = run_process([binary, "bench", place + ".json", "--steps", "1", "--json"], spec["threads"], place + ".log", bench)
    if status != 0:
        raise ContestantFailed(name, status, place + ".log")
    with open(bench, encoding="utf-8") as file:
        measured = json.load(file)
    of_length = measured["lengths"][0]
    return {
        "matmul_rate": measured["matmul_flops_per_second"],
        "data_sheet_rate": measured["data_sheet_flops_per_second"],
        "flops_per_token": of_length["flops_per_token"],
        "times": [b - a for a, b in zip(elapsed, elapsed[1:])],
        "start_seconds": trained["start_seconds"],
        "start": trained["start"],
        "losses": [line["loss"] for line in trained["lines"]],
        "memory": of_length["peak_memory"] if spec["device"] == "cuda" else trained["memory"],
        "warnings": trained["warnings"],
    }


def run_contestant(name, spec, binary):
    result = run_lmtrain(name, spec, binary) if name in LMTRAIN else run_python(name, spec)
    if len(result["times"]) != spec["steps"]:
        raise RuntimeError(f"{name} took {len(result['times'])} steps, {spec['steps']} were wanted")
    return result
