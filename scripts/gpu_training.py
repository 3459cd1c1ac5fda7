"""Checks of scripts/gpu_check.py that train: the GPU beside the CPU, graphs beside script, and a longer run over all lengths.

Losses are compared step by step, as |difference| / max(1, loss). The first step sees equal weights, so only rounding differs;
later ones drift.
"""

import glob
import json
import os
import random
import string
import subprocess
import threading
import time

from bench_processes import visible_gpu
from gpu_programs import NO_FP8, architectures_compiled_in, has_fp8, run

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STEPS, REHEARSED_STEPS = 50, 12
FIRST_LOSS_TOLERANCE = {"fp32": 1e-5, "bf16": 2e-2, "fp16": 5e-3, "fp8": 4e-2}
LOSSES_TOLERANCE = {"fp32": 5e-3, "bf16": 5e-2, "fp16": 2e-2, "fp8": 1e-1}
EVAL_TOLERANCE = 1e-4
SOAK_STEPS, REHEARSED_SOAK_STEPS = 200, 40
STEPS_TO_CAPTURE = 3  # of a length, until each of its shapes is a graph and has its memory
MOST_RESERVED = 1.5  # times what tensors occupy at the peak


def small_config(context, batching):
    """The path of a config of a small model on the repository's own sample."""
    width, layers = (128, 4) if context.on_gpu else (32, 1)
    config = {
        "name": "gpu_check", "seed": 1, "deterministic": True,
        "tokenizer": {"train": {"vocab_size": 512}},
        "data": {"train": [os.path.join(REPO, "data", "sample")], "cache_dir": os.path.join(context.work, "cache")},
        "sequence": {"max_length": 128, "min_length": 64, "batching": batching, "schedule": {"type": "constant"}},
        "model": {
            "hidden_size": width, "intermediate_size": 11 * width // 4, "num_hidden_layers": layers, "num_attention_heads": 4,
            "num_key_value_heads": 2, "tie_word_embeddings": False,
        },
        "batch": {"tokens": 2048},
        "lr_schedule": {"type": "cosine", "warmup": 4},
        "optimizer": {"lr": 3e-3},
        "train": {"steps": steps_to_take(context)},
        "eval": {"every": 0},
        "checkpoint": {"every": 0},
        "log": {"every": 1, "tensorboard": False},
    }
    return write_config(os.path.join(context.work, f"{batching}.json"), config)


def steps_to_take(context):
    return STEPS if context.on_gpu else REHEARSED_STEPS


def write_config(path, config):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
    return path


def steps_of(folder):
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        return [line for line in map(json.loads, file) if "loss" in line]


def train(context, name, batching, settings):
    """Losses of all steps, or None when the training failed; a row either way."""
    folder = os.path.join(context.work, name.replace(" ", "_"))
    command = [context.lmtrain, "train", small_config(context, batching), "--run-dir", folder]
    command += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    started = time.time()
    done = run(command)
    lines = steps_of(folder) if done.returncode == 0 else []
    losses = [line["loss"] for line in lines]
    complete = len(losses) == steps_to_take(context) and all(loss is not None for loss in losses)
    numbers = {"exit_code": done.returncode, "steps": len(losses), "seconds": round(time.time() - started, 1)}
    if complete:
        numbers |= {"first_loss": losses[0], "last_loss": losses[-1], "losses": losses}
    # These say what a graph was not captured for, or why there are none.
    fallbacks = [line for line in done.stderr.split("\n") if line.startswith("warning: compile ")] if context.on_gpu else []
    context.report.add("train " + name, complete and losses[-1] < losses[0] and not fallbacks, **numbers, fallbacks=fallbacks or None)
    if not complete:
        print(done.stderr[-3000:], flush=True)
    return losses if complete else None


def relative(a, b):
    return abs(a - b) / max(1.0, abs(b))


def on_cpu(context, batching):
    settings = {"device": "cpu", "precision": "fp32", "compile": "script"}
    return context.once(("cpu", batching), lambda: train(context, f"cpu fp32 {batching}", batching, settings))


def compare_losses(context, name, precision, losses, reference):
    if losses is None or reference is None:
        context.report.add(name, None, reason="a training failed")
        return
    first = relative(losses[0], reference[0])
    largest = max(relative(a, b) for a, b in zip(losses, reference))
    # Fifty steps on a GPU without one different bit would mean that the CPU did both.
    same_device = context.on_gpu and largest == 0
    passed = first <= FIRST_LOSS_TOLERANCE[precision] and largest <= LOSSES_TOLERANCE[precision] and not same_device
    context.report.add(
        name, passed, first_difference=first, first_tolerance=FIRST_LOSS_TOLERANCE[precision],
        largest_difference=largest, tolerance=LOSSES_TOLERANCE[precision],
    )


def compare_graphs(context, how, settings, batching, script):
    """The same steps by captured graphs: not one bit may differ."""
    name = f"losses {how} by graphs against script"
    graph = train(context, how + " graph", batching, settings | {"compile": "graph"})
    if graph is None or script is None:
        context.report.add(name, None, reason="a training failed")
        return
    differing = sum(a != b for a, b in zip(graph, script))
    if differing and train(context, how + " again", batching, settings) != script:
        # The device test GpuGraphs.GiveTheBitsOfScript compares all weights.
        context.report.add(name, None, reason="script does not give the same bits twice", differing_steps=differing)
        return
    context.report.add(name, differing == 0, differing_steps=differing)


def compare_precision(context, batching, precision):
    if precision == "fp8" and not has_fp8(context):
        context.report.add(f"{batching} fp8", None, reason=NO_FP8)
        return
    reference = on_cpu(context, batching)
    settings = {"device": context.device, "precision": precision, "compile": "script"}
    how = f"{context.device} {precision} {batching}"
    losses = train(context, how + " script", batching, settings)
    compare_losses(context, f"losses {how} against cpu fp32", precision, losses, reference)
    if not context.on_gpu or architectures_compiled_in(context) is not None:
        compare_graphs(context, how, settings, batching, losses)


def compare_default(context, batching):
    """As runs are by default, with whatever attention is the fastest: near, not equal."""
    precision = "bf16" if context.on_gpu else "fp32"
    for compile_mode in ("script", "graph"):
        how = f"{context.device} {precision} {batching} {compile_mode} not deterministic"
        settings = {"device": context.device, "precision": precision, "compile": compile_mode, "deterministic": "false"}
        losses = train(context, how, batching, settings)
        compare_losses(context, f"losses {how} against cpu fp32", precision, losses, on_cpu(context, batching))


def compare_evaluations(context):
    """The GPU's checkpoint, evaluated on both devices."""
    name = "evaluation against cpu"
    runs = os.path.join(context.work, f"{context.device}_fp32_bucket_script", "checkpoints", "step_*")
    if not glob.glob(runs):
        train(context, f"{context.device} fp32 bucket script", "bucket", {"device": context.device, "precision": "fp32", "compile": "script"})
    checkpoints = sorted(glob.glob(runs))
    if not checkpoints:
        context.report.add(name, None, reason="no checkpoint")
        return
    losses = {}
    for device in {"cpu", context.device}:
        data = os.path.join(REPO, "tests", "reference", "eval", "documents")
        done = run([context.lmtrain, "eval", checkpoints[-1], "--data", data, "--device", device, "--precision", "fp32", "--json"])
        if done.returncode != 0:
            context.report.add(name, False, device=device, exit_code=done.returncode, reason=done.stderr.strip()[-300:])
            return
        losses[device] = json.loads(done.stdout)["loss"]
    difference = relative(losses[context.device], losses["cpu"])
    context.report.add(name, difference <= EVAL_TOLERANCE, **losses, difference=difference, tolerance=EVAL_TOLERANCE)


class MemorySampler:
    """What the driver says that a process has in use on the GPU, twice a second, while it trains: (steps in its metrics.jsonl, bytes). Other
    processes may be at work beside it. Where the driver names no processes, as in some containers, there are no samples."""

    def __init__(self, folder):
        self.metrics, self.process = os.path.join(folder, "metrics.jsonl"), None

    def __enter__(self):
        self.samples, self.done = [], threading.Event()
        self.thread = threading.Thread(target=self.sample, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    def sample(self):
        query = ["nvidia-smi", "-i", visible_gpu(), "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
        while not self.done.wait(0.5):
            said = subprocess.run(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
            used = [line.split(",")[1].strip() for line in said.split("\n") if line.split(",")[0].strip() == str(self.process)]
            if used and used[0].isdigit():
                self.samples.append((self.steps(), int(used[0]) << 20))

    def steps(self):
        try:
            with open(self.metrics, encoding="utf-8") as file:
                return sum('"loss":' in line for line in file)
        except FileNotFoundError:
            return 0


def settled_growth(lengths, samples):
    """(step, bytes): the step after which every length that `lengths` (of each step) has was seen STEPS_TO_CAPTURE times, or as often as it comes
    at all, and how much more memory is in use at any later time. `samples` are MemorySampler's. No growth is known without samples on both sides."""
    seen, settled = {}, 0
    for step, length in enumerate(lengths, start=1):
        seen[length] = seen.get(length, 0) + 1
        if seen[length] <= STEPS_TO_CAPTURE:
            settled = step
    before = [used for step, used in samples if step <= settled]
    after = [used for step, used in samples if step > settled]
    return settled, max(0, max(after) - max(before)) if before and after else None


def soak_steps(context):
    return SOAK_STEPS if context.on_gpu else REHEARSED_SOAK_STEPS


def soak_config(context, batching):
    """A model of 124M parameters over lengths 64 to 8192, in graphs; a tiny one where there is no GPU."""
    corpus = os.path.join(context.work, "soak.jsonl")
    if not os.path.exists(corpus):
        # Words that no file of the repository has a say in: which lengths the batches have is then the same at every commit.
        draw = random.Random(1)
        words = ["".join(draw.choices(string.ascii_lowercase, k=draw.randint(2, 9))) for _ in range(500)]
        with open(corpus, "w", encoding="utf-8") as file:
            for _ in range(4000 if context.on_gpu else 200):
                count = int(2 ** draw.uniform(4, 13 if context.on_gpu else 8))
                file.write(json.dumps({"text": " ".join(draw.choices(words, k=count))}) + "\n")
    large = dict(hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12)
    small = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2)
    config = {
        "name": "soak", "seed": 1, "device": context.device, "precision": "bf16" if context.on_gpu else "fp32", "compile": "graph",
        "tokenizer": {"model": os.path.join(REPO, "tests", "reference", "tokenizer", "tokenizer.model")},
        "data": {"train": [corpus], "cache_dir": os.path.join(context.work, "cache")},
        "sequence": {"max_length": 8192 if context.on_gpu else 256, "min_length": 64, "batching": batching,
                     "schedule": {"type": "linear", "duration": "50%"}},
        "model": large if context.on_gpu else small,
        # Micro-batches that do not hang on what others leave free: both soaks and the tests fit beside each other in 80 GB.
        "batch": {"tokens": 131072, "micro_tokens": 16384} if context.on_gpu else {"tokens": 1024},
        "train": {"steps": soak_steps(context)},
        "eval": {"every": 0}, "checkpoint": {"every": 0}, "log": {"every": 1, "tensorboard": False},
    }
    return write_config(os.path.join(context.work, f"soak_{batching}.json"), config)


def soak(context, batching):
    path, folder = soak_config(context, batching), os.path.join(context.work, f"soak_{batching}")
    bench = run([context.lmtrain, "bench", path, "--steps", "1", "--json"])
    occupied = max(length["peak_memory"] for length in json.loads(bench.stdout)["lengths"]) if bench.returncode == 0 else None
    if occupied is None:
        print(bench.stderr[-2000:], flush=True)
    with MemorySampler(folder) as memory:
        done = run([context.lmtrain, "train", path, "--run-dir", folder], started=lambda process: setattr(memory, "process", process))
    if done.returncode != 0:
        context.report.add(batching, False, exit_code=done.returncode, reason=done.stderr.strip()[-500:])
        return
    lines = steps_of(folder)
    lengths = sorted({line["seq_len"] for line in lines})
    numbers = {"steps": len(lines), "shortest": lengths[0], "longest": lengths[-1], "lengths": lengths,
               "first_loss": lines[0]["loss"], "last_loss": lines[-1]["loss"], "tensors_bytes": occupied}
    warnings = [line for line in done.stderr.split("\n") if line.startswith("warning:")]
    complete = len(lines) == soak_steps(context) and lengths[-1] == (8192 if context.on_gpu else 256)
    passed = complete and all(line["loss"] is not None for line in lines) and lines[-1]["loss"] < lines[0]["loss"]
    if context.on_gpu:
        passed = passed and not any("compile " in line for line in warnings)
    context.report.add(batching, passed, **numbers, warnings=warnings or None)
    if context.on_gpu:
        judge_memory(context, batching, lines, memory.samples, occupied)


def judge_memory(context, batching, lines, samples, occupied):
    """No byte more once every length was seen, and not much more than the tensors take."""
    name = f"{batching} memory"
    settled, grown = settled_growth([line["seq_len"] for line in lines], samples)
    if grown is None:
        reason = "few samples" if samples else "the driver does not name the processes that use the GPU"
        context.report.add(name, None, reason=reason, samples=len(samples), settled_after=settled)
        return
    whole = max(used for _, used in samples)
    context.report.add(name, grown == 0 and (not occupied or whole <= MOST_RESERVED * occupied), in_use_bytes=whole, settled_after=settled,
                       grown_since=grown, in_use_of_tensors=occupied and whole / occupied, samples=len(samples))


def items(context):
    found = []
    for batching in ("bucket", "pack"):
        for precision in ("fp32", "bf16", "fp16") if context.on_gpu else ("fp32",):
            found.append(("training", f"{batching}-{precision}", 20, lambda c, b=batching, p=precision: compare_precision(c, b, p)))
        found.append(("training", f"{batching}-default", 20, lambda c, b=batching: compare_default(c, b)))
    found.append(("training", "evaluation", 15, compare_evaluations))
    found += [("soak", batching, 90, lambda c, b=batching: soak(c, b)) for batching in ("bucket", "pack")]
    found += [("fp8", f"train-{batching}", 20, lambda c, b=batching: compare_precision(c, b, "fp8")) for batching in ("bucket", "pack")]
    return found
