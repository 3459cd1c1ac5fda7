#!/usr/bin/env python3
"""Step time and memory of lmtrain beside HF Trainer and plain PyTorch loops: same Llama, same weights, same tokens.

    python=$(scripts/check_transformers.sh --python)      # the virtual environment with torch and transformers
    $python scripts/bench_vs_pytorch.py --size 7m --length 256 --precision fp32 --rounds 5 --json bench.json
    python3 scripts/bench_vs_pytorch.py --device cuda --size 124m --length 1024 --json bench.json      # one GPU

Each contestant runs in a process of its own, all with the same number of threads; a round runs each once, and every
round begins with another one, so that a drift of the machine hits all. A step's time is the wall clock from the end of
one update to the end of the next, data loading included; the first steps of a process are dropped. All sum the gradients
of the same micro-batches.

    lmtrain    build/lmtrain train, timed by `elapsed` of its metrics.jsonl
    lmtrain-graph, lmtrain-fp8     the same with `compile: graph`, and with `precision: fp8` besides; GPU only
    trainer    transformers.Trainer on LlamaForCausalLM with its defaults (fused AdamW, SDPA); bf16: bf16=True
    loop       a plain PyTorch Llama and loop: SDPA, fused AdamW, clip_grad_norm_, eager; bf16: autocast
    compile    the same with torch.compile
    hf-loop    the same loop around LlamaForCausalLM (not in the default set)
    double     the plain loop in double: what the losses would be without rounding (not in the default set)
    pure-bf16, pure-bf16-compile   the loops with bf16 weights and bf16 AdamW states (less than lmtrain keeps: fp32 masters); bf16 only

Ratios are contestant / lmtrain within one round: above 1 lmtrain is faster (or smaller). Median and range over rounds.
Every round also measures the best matrix product (`lmtrain bench`, the same dtype and device); "of matmul" is the model's
FLOPs (6N + 6LDT a token, causal) at the contestant's speed, in percent of it; "MFU" counts 6N + 12LDT against the GPU's
data sheet. Memory is the largest resident size of the process, the libraries' own pages included, or on a GPU the peak of
its tensors, lmtrain's as `lmtrain bench` measures it. A contestant that runs out of memory is a row that says so.
torch.compile needs g++ and Python's headers (Debian: python3-dev). Run it
on an idle machine: threads that spin on busy processors take ten times as long, and the range shows it.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

from bench_processes import LMTRAIN, PYTHON, REPO, SIZES, ContestantFailed, make_spec, run_contestant, run_python, visible_gpu

DROPPED_STEPS = 3
DEFAULT_CONTESTANTS = {
    ("cpu", "fp32"): ["lmtrain", "trainer", "loop", "compile"],
    ("cpu", "bf16"): ["lmtrain", "trainer", "loop", "compile", "pure-bf16", "pure-bf16-compile"],
    ("cuda", "fp32"): ["lmtrain", "lmtrain-graph", "trainer", "loop", "compile"],
    ("cuda", "bf16"): ["lmtrain", "lmtrain-graph", "lmtrain-fp8", "trainer", "loop", "compile"],
}
# Tokens of a step and of a micro-batch.
TOKENS = {"cpu": (4096, 4096), "cuda": (131072, 32768)}


def processor_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        lines = file.read().splitlines()
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    return fields.get("model name", platform.machine()), fields.get("flags", "").split()


def gpu_name():
    query = ["nvidia-smi", "-i", visible_gpu(), "--query-gpu=name", "--format=csv,noheader"]
    try:
        listed = subprocess.run(query, stdout=subprocess.PIPE, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        sys.exit("no GPU: nvidia-smi finds none")
    return listed.stdout.strip().split("\n")[0]


def summarise(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def spread(summary, scale=1.0, form=".2f"):
    median, low, high = (format(summary[key] * scale, form) for key in ("median", "min", "max"))
    return f"{median} ({low}-{high})"


def percent(entry, key):
    return f"{100 * entry[key]['median']:.0f} %" if key in entry else ""


def print_table(report):
    base = report["base"]
    columns = ["", "ms/step", "tokens/s", f"time / {base}", "of matmul", "MFU", "first step s", "peak MB", f"memory / {base}", "loss diff"]
    rows = [columns]
    for name, entry in report["contestants"].items():
        rows.append([
            name,
            spread(entry["step_seconds"], 1e3, ".0f" if entry["step_seconds"]["median"] > 0.1 else ".1f"),
            f"{report['batch_tokens'] / entry['step_seconds']['median']:.0f}",
            spread(entry["time_ratio"]),
            percent(entry, "of_matmul"),
            percent(entry, "mfu"),
            f"{entry['first_step_seconds']['median']:.1f}",
            f"{entry['peak_bytes']['median'] / 1e6:.0f}",
            spread(entry["memory_ratio"]),
            f"{entry['largest_loss_difference']:.1e}",
        ])
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    for row in rows:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--size", choices=SIZES, default="7m")
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--batch-tokens", type=int, help="targets per step, a multiple of the length; default 4096, on a GPU 131072")
    parser.add_argument("--micro-tokens", type=int, help="of which at once, a divisor; default 4096, on a GPU 32768")
    parser.add_argument("--steps", type=int, default=15, help=f"per process; the first {DROPPED_STEPS} are dropped")
    parser.add_argument("--precision", choices=["fp32", "bf16"], help="default fp32, on a GPU bf16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS", 2)))
    parser.add_argument("--contestants", help="comma-separated; default depends on device and precision")
    parser.add_argument("--lmtrain", default=os.environ.get("LMTRAIN_BINARY", os.path.join(REPO, "build", "lmtrain")))
    parser.add_argument("--corpus", help="a text file; default: the Python sources of the installed torch and transformers")
    parser.add_argument("--work", help="folder for tokens, weights and logs; default: in the lmtrain cache")
    parser.add_argument("--json", help="write everything measured here")
    arguments = parser.parse_args()
    arguments.precision = arguments.precision or ("fp32" if arguments.device == "cpu" else "bf16")
    batch, micro = TOKENS[arguments.device]
    arguments.batch_tokens = arguments.batch_tokens or batch
    arguments.micro_tokens = arguments.micro_tokens or min(micro, arguments.batch_tokens)
    if arguments.batch_tokens % arguments.micro_tokens or arguments.micro_tokens % arguments.length:
        parser.error("--batch-tokens must be a multiple of --micro-tokens, and that of --length")
    if arguments.steps <= DROPPED_STEPS:
        parser.error(f"--steps must be above {DROPPED_STEPS}")
    default = DEFAULT_CONTESTANTS[arguments.device, arguments.precision]
    arguments.names = arguments.contestants.split(",") if arguments.contestants else default
    for name in arguments.names:
        is_for_bf16 = name.startswith("pure-") or name == "lmtrain-fp8"
        if name not in {*LMTRAIN, *PYTHON} or (is_for_bf16 and arguments.precision != "bf16"):
            parser.error(f"no contestant {name} at {arguments.precision}")
        if name.startswith("lmtrain-") and arguments.device == "cpu":
            parser.error(f"{name} needs --device cuda")
    return arguments


def measure(arguments, spec):
    """Results of every round by contestant; without those that ran out of memory."""
    names = arguments.names
    runs = {name: [] for name in names}
    for round_index in range(arguments.rounds):
        turn = round_index % len(names)
        for name in names[turn:] + names[:turn]:
            if name not in runs:
                continue
            try:
                result = run_contestant(name, spec, arguments.lmtrain)
            except ContestantFailed as failed:
                if not failed.out_of_memory:
                    sys.exit(str(failed))
                print(f"round {round_index + 1} {name}: out of memory", file=sys.stderr, flush=True)
                del runs[name]
                continue
            result["step_seconds"] = statistics.median(result["times"][DROPPED_STEPS:])
            runs[name].append(result)
            print(f"round {round_index + 1} {name}: {result['step_seconds'] * 1e3:.1f} ms, {result['memory'] / 1e6:.0f} MB", file=sys.stderr, flush=True)
    return runs


def summary_of(runs, name, base, batch_tokens, attention_flops):
    pairs = list(zip(runs[name], runs[base]))
    entry = {
        "step_seconds": summarise([run["step_seconds"] for run in runs[name]]),
        "first_step_seconds": summarise([run["times"][0] for run in runs[name]]),
        "peak_bytes": summarise([run["memory"] for run in runs[name]]),
        "time_ratio": summarise([a["step_seconds"] / b["step_seconds"] for a, b in pairs]),
        "memory_ratio": summarise([a["memory"] / b["memory"] for a, b in pairs]),
        "largest_loss_difference": max(abs(x - y) for x, y in zip(runs[name][0]["losses"], runs[base][0]["losses"])),
        "losses": runs[name][0]["losses"],
        "step_seconds_of_rounds": [run["step_seconds"] for run in runs[name]],
    }
    warnings = sorted({warning for run in runs[name] for warning in run.get("warnings", [])})
    if warnings:
        entry["warnings"] = warnings
    if base not in LMTRAIN:
        return entry
    # Of the causal half of attention the FLOPs are in flops_per_token; MFU counts both.
    ideal = [batch_tokens * b["flops_per_token"] / b["matmul_rate"] for b in runs[base]]
    entry["of_matmul"] = summarise([seconds / a["step_seconds"] for seconds, (a, _) in zip(ideal, pairs)])
    if runs[base][0]["data_sheet_rate"]:
        entry["mfu"] = summarise([
            batch_tokens * (b["flops_per_token"] + attention_flops / 2) / b["data_sheet_rate"] / a["step_seconds"] for a, b in pairs
        ])
    return entry


def main():
    arguments = parse_arguments()
    if arguments.device == "cpu":
        device_name, flags = processor_name()
        if arguments.precision == "bf16" and "avx512_bf16" not in flags:
            sys.exit("this processor has no bf16 instructions (avx512_bf16): a bf16 comparison says nothing here")
    else:
        device_name = gpu_name()
    if not os.access(arguments.lmtrain, os.X_OK):
        print(f"no {arguments.lmtrain} (scripts/build.sh builds it): the others only", file=sys.stderr)
        arguments.names = [name for name in arguments.names if name not in LMTRAIN]
    if not arguments.names:
        sys.exit("nothing to measure")
    base = next((name for name in (*LMTRAIN, "loop") if name in arguments.names), arguments.names[0])

    cache = os.environ.get("LMTRAIN_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "lmtrain"
    )
    work = os.path.abspath(arguments.work or os.path.join(cache, "bench", arguments.size))
    os.makedirs(work, exist_ok=True)
    spec = make_spec(
        work, arguments.size, arguments.length, arguments.steps, arguments.batch_tokens, arguments.micro_tokens, arguments.device,
        arguments.precision, arguments.threads, arguments.corpus,
    )
    try:
        prepared = run_python("prepare", spec)
    except ContestantFailed as failed:
        sys.exit(str(failed))
    print(
        f"{arguments.size} ({prepared['parameters'] / 1e6:.1f}M weights), length {arguments.length}, {arguments.batch_tokens} tokens a step, "
        f"{arguments.precision}, {arguments.threads} threads, torch {prepared['torch']}, {device_name}", flush=True,
    )

    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"warning: load average {load:.1f} before the start: other work on this machine will spoil the figures", file=sys.stderr)

    runs = measure(arguments, spec)
    out_of_memory = [name for name in arguments.names if name not in runs]
    arguments.names = [name for name in arguments.names if name in runs]
    if not arguments.names:
        sys.exit("every contestant ran out of memory: give fewer --micro-tokens")
    if base not in runs:
        base = arguments.names[0]
    attention_flops = 12 * spec["model"]["num_hidden_layers"] * spec["model"]["hidden_size"] * arguments.length
    report = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "device": arguments.device, "device_name": device_name,
        "threads": arguments.threads, "torch": prepared["torch"], "size": arguments.size, "parameters": prepared["parameters"],
        "length": arguments.length, "batch_tokens": arguments.batch_tokens, "micro_tokens": arguments.micro_tokens,
        "precision": arguments.precision, "steps": arguments.steps, "rounds": arguments.rounds, "load_average_before": load,
        "base": base, "out_of_memory": out_of_memory,
        "contestants": {name: summary_of(runs, name, base, arguments.batch_tokens, attention_flops) for name in arguments.names},
    }
    if base in LMTRAIN:
        report["matmul_rate"] = summarise([run["matmul_rate"] for run in runs[base]])
        print(f"best matrix product: {spread(report['matmul_rate'], 1e-9, '.0f')} GFLOP/s")
    print_table(report)
    for name in out_of_memory:
        print(f"{name}: out of memory with micro-batches of {arguments.micro_tokens} tokens")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
