"""Checks of scripts/gpu_check.py that measure steps beside PyTorch: a row a contestant, so that one that fails costs one row.

All contestants of a section have the same model, start from the same weights and take the same tokens (bench_processes.py). A
micro-batch that is too large for a contestant's memory is halved until it fits, so each has its own, and the row says which.
"""

import json
import os
import statistics
import subprocess
import sys

from bench_processes import LMTRAIN, REPO, SIZES, ContestantFailed, make_spec, run_contestant, run_python
from gpu_programs import NO_FP8, has_fp8, run
from gpu_report import BENCHMARKS

BATCH_TOKENS, MICRO_TOKENS = 131072, 32768
STEPS, DROPPED = 12, 3
# Seconds that a contestant takes at most: with the start of the process, and compiling.
SECONDS = {"124m": {"prepare": 30, "compile": 60}, "350m": {"prepare": 40, "compile": 75}, "1.1b": {"prepare": 60, "compile": 90}}
SECONDS_OF_OTHERS = {"124m": 25, "350m": 30, "1.1b": 40}
PEERS = ("compile", "trainer", "loop")
GROWTH = 0.9  # of the FLOP/s at 1024 that are wanted at 8192


def missing_packages():
    """Why the contestants in Python cannot run; empty where they can."""
    done = subprocess.run([sys.executable, "-c", "import torch, transformers, accelerate"], stderr=subprocess.PIPE, text=True, check=False)
    return "" if done.returncode == 0 else f"{sys.executable}: {done.stderr.strip().split(chr(10))[-1]}"


def prepared(context, section):
    """(what all contestants of a section are given, why they cannot be compared)"""

    def prepare():
        size, length, _ = BENCHMARKS[section]
        if not context.on_gpu:
            return None, "a rehearsal has no GPU to measure"
        lack = missing_packages()
        if lack:
            return None, lack
        work = os.path.join(context.work, section)
        os.makedirs(work, exist_ok=True)  # a contestant before this one may have found no room to prepare
        spec = make_spec(work, size, length, STEPS, BATCH_TOKENS, MICRO_TOKENS, "cuda", "bf16", min(8, os.cpu_count() or 1))
        run_python("prepare", spec)
        return spec, ""

    return context.once(("prepared", section), prepare)


def measure(context, section, name, row):
    """Adds `row` with what the contestant `name` took."""
    spec, lack = prepared(context, section)
    if lack:
        context.report.add(row, None, reason=lack)
        return
    spec = dict(spec)
    tried = []
    while spec["micro_rows"] >= 1:
        tried.append(spec["micro_rows"] * spec["length"])
        try:
            result = run_contestant(name, spec, context.lmtrain)
        except ContestantFailed as failed:
            print(str(failed), flush=True)
            if not failed.out_of_memory:
                context.report.add(row, False, reason=str(failed)[-800:])
                return
            spec["micro_rows"] //= 2
            continue
        context.report.add(row, "measured", **numbers_of(context, section, spec, result), too_large=tried[:-1] or None)
        return
    # A peer that needs more memory than there is says nothing against us.
    context.report.add(row, False if name in LMTRAIN else None, reason=f"out of memory with micro-batches of {', '.join(map(str, tried))} tokens")


def numbers_of(context, section, spec, result):
    times = result["times"][DROPPED:]
    seconds = statistics.median(times)
    tokens = spec["rows"] * spec["length"]
    numbers = {
        "step_seconds": seconds, "fastest": min(times), "slowest": max(times), "tokens_per_second": tokens / seconds,
        "first_step_seconds": result["times"][0], "peak_bytes": result["memory"], "micro_tokens": spec["micro_rows"] * spec["length"],
        "losses": result["losses"],
    }
    if "flops_per_token" in result:
        rates = context.memo[("rates", section)] = {key: result[key] for key in ("flops_per_token", "data_sheet_rate", "matmul_rate")}
        numbers |= {"start_seconds": result["start_seconds"], "warnings": result["warnings"] or None}
    else:
        rates = context.memo.get(("rates", section))
    if rates and rates["data_sheet_rate"]:
        # flops_per_token counts the causal half of attention; MFU counts both.
        model = SIZES[BENCHMARKS[section][0]]
        attention = 6 * model["num_hidden_layers"] * model["hidden_size"] * spec["length"]
        numbers["mfu"] = (rates["flops_per_token"] + attention) / rates["data_sheet_rate"] * tokens / seconds
        numbers["matmul_rate"] = rates["matmul_rate"]
    return numbers


def fp8(context, section):
    if not has_fp8(context):
        context.report.add(section, None, reason=NO_FP8)
        return
    measure(context, section, "lmtrain-fp8", section)


def growth(context):
    """FLOP/s of a 1.1B model at 8192 beside those at 1024, by graphs, as `lmtrain bench` has them."""
    if not context.on_gpu:
        context.report.add("1.1b", None, reason="a rehearsal has no GPU to measure")
        return
    config = {
        "name": "growth", "tokenizer": {"train": {"vocab_size": 32000}}, "device": "cuda", "precision": "bf16", "compile": "graph",
        "data": {"train": [{"path": os.path.join(REPO, "README.md")}]},
        "sequence": {"max_length": 8192, "min_length": 1024, "batching": "concat", "schedule": {"type": "linear"}},
        "model": SIZES["1.1b"],
        "batch": {"tokens": BATCH_TOKENS},
        "train": {"steps": 10},
    }
    path = os.path.join(context.work, "growth.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    done = run([context.lmtrain, "bench", path, "--steps", "5", "--json"])
    if done.returncode != 0:
        context.report.add("1.1b", False, exit_code=done.returncode, reason=done.stderr.strip()[-300:])
        return
    measured = json.loads(done.stdout)
    rates = {length["length"]: length["flops_per_second"] for length in measured["lengths"]}
    kept = rates[8192] / rates[1024]
    context.report.add("1.1b", kept >= GROWTH, of_rate_at_1024=kept, wanted=GROWTH, bench=measured)


def items(_context):
    found = [("growth", "1.1b", 100, growth)]
    for section, (size, _, _) in BENCHMARKS.items():
        of_size = SECONDS[size]
        for place, name in enumerate(("lmtrain-graph", "lmtrain", *PEERS)):
            seconds = of_size.get(name, SECONDS_OF_OTHERS[size]) + (of_size["prepare"] if place == 0 else 0)
            found.append((section, name, seconds, lambda c, s=section, n=name: measure(c, s, n, n)))
    for section in ("bench-124m-1024", "bench-1.1b-2048"):
        seconds = SECONDS[BENCHMARKS[section][0]]["prepare"] + SECONDS_OF_OTHERS[BENCHMARKS[section][0]]
        found.append(("fp8", section, seconds, lambda c, s=section: fp8(c, s)))
    return found

