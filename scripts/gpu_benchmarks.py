"""Checks of scripts/gpu_check.py that measure steps beside PyTorch: a row a contestant, so that one that fails costs one row.

All contestants of a section have the same model, start from the same weights and take the same tokens (bench_processes.py). A
micro-batch that is too large for a contestant's memory is halved until it fits, so each has its own, and the row says which.
What a section's contestants need is prepared by processors alone, so a call prepares its later sections beside its first one.
"""

import glob
import importlib.util
import json
import os
import shutil
import statistics
import sys
import time

from bench_processes import LMTRAIN, REPO, SIZES, ContestantFailed, lmtrain_config, make_spec, run_contestant, run_python, train_steps
from gpu_programs import NO_FP8, has_fp8, kill_with_descendants, run
from gpu_report import BENCHMARKS

BATCH_TOKENS, MICRO_TOKENS = 131072, 32768
STEPS, DROPPED = {"124m": 12, "350m": 10, "1.1b": 8}, 3
# Seconds that a contestant takes at most: with the start of the process, and compiling.
SECONDS = {
    "124m": {"prepare": 15, "compile": 50, "trainer": 25}, "350m": {"prepare": 20, "compile": 60, "trainer": 40},
    "1.1b": {"prepare": 40, "compile": 75, "trainer": 70},
}
SECONDS_OF_OTHERS = {"124m": 20, "350m": 25, "1.1b": 30}
PEERS = ("compile", "trainer", "loop")
GROWTH = 0.9  # of the FLOP/s at 1024 that are wanted at 8192
# The run whose first step is timed: from text to the end of 60 steps, as a first try is.
TINY, TINY_STEPS = "5m", 60
TIME_TO_LOSS = "time-to-loss"
# Of a size: seconds at most, tokens of both sides and of each run that chooses the peer's rate, tokens of lmtrain's own shorter schedules.
TIMES_TO_LOSS = {"30m": (80, 8_000_000, 2_000_000, "1M,2M"), "124m": (130, 8_000_000, 2_000_000, "1M,2M")}
REHEARSED_TIME_TO_LOSS = ("100k", 60_000, 20_000, "20K")


def num_processors():
    return len(os.sched_getaffinity(0))


def missing_packages():
    """Why the contestants in Python cannot run; empty where they can. Looking costs nothing; importing takes ten seconds."""
    missing = [name for name in ("torch", "transformers", "accelerate") if importlib.util.find_spec(name) is None]
    return f"{sys.executable} has no {', '.join(missing)}" if missing else ""


def work_of(context, section):
    path = os.path.join(context.work, section)
    os.makedirs(path, exist_ok=True)  # a contestant before this one may have found no room to prepare
    return path


def spec_of(context, section):
    size, length, _ = BENCHMARKS[section]
    threads = min(8, num_processors())
    return make_spec(work_of(context, section), size, length, STEPS[size], BATCH_TOKENS, MICRO_TOKENS, "cuda", "bf16", threads)


def prepared(context, section):
    """(what all contestants of a section are given, why they cannot be compared)"""

    def prepare():
        if not context.on_gpu:
            return None, "a rehearsal has no GPU to measure"
        lack = context.once("packages", missing_packages)
        if lack:
            return None, lack
        spec = spec_of(context, section)
        if not context.ahead or not context.ahead.waits_for(section):
            run_python("prepare", spec)
        return spec, ""

    return context.once(("prepared", section), prepare)


class Ahead:
    """A process that prepares sections, in their order, on the upper half of the processors, while the lower half measures the first
    ones. No figure of a GPU hangs on the processors that it takes."""

    def __init__(self, context, sections):
        self.folder, cores = context.work, sorted(os.sched_getaffinity(0))
        self.all, half = set(cores), len(cores) // 2
        sys.stdout.flush()
        self.process = os.fork()
        if self.process == 0:
            status = 1
            try:
                os.sched_setaffinity(0, cores[half:])
                for section in sections:
                    self.prepare(context, section)
                status = 0
            finally:
                os._exit(status)
        os.sched_setaffinity(0, cores[:half])

    def prepare(self, context, section):
        if section == TIME_TO_LOSS:
            run(time_to_loss_command(context, next(iter(TIMES_TO_LOSS))) + ["--prepare"])
        else:
            run_python("prepare", spec_of(context, section) | {"threads": num_processors()})
        with open(self.path(section), "w", encoding="utf-8"):
            pass

    def path(self, section):
        return os.path.join(self.folder, f"{section}.prepared")

    def is_over(self):
        """Whether the process has ended; the processors are then all there again."""
        if self.process is not None and os.waitpid(self.process, os.WNOHANG)[0]:
            self.process = None
            os.sched_setaffinity(0, self.all)
        return self.process is None

    def waits_for(self, section):
        """Whether the section is prepared, once that is known."""
        while not os.path.exists(self.path(section)):
            if self.is_over():
                return os.path.exists(self.path(section))
            time.sleep(0.1)
        return True

    def end(self):
        if not self.is_over():
            kill_with_descendants(self.process)
            os.waitpid(self.process, 0)
            self.process = None


def prepare_ahead(context, items):
    """Begins to prepare what these items need, where that is more than one section."""
    sections = list(dict.fromkeys(section for section, *_ in items if section in BENCHMARKS or section == TIME_TO_LOSS))
    if context.on_gpu and len(sections) > 1 and num_processors() >= 8 and not context.once("packages", missing_packages):
        context.ahead = Ahead(context, sections)


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
        numbers |= {"start_seconds": result["start_seconds"], "start": result["start"].get("phases"), "warnings": result["warnings"] or None}
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


def first_step(context, section):
    """From the start of the program to the end of its first step, with new weights; where the seconds went, as the run says itself."""
    spec, lack = prepared(context, section)
    size = BENCHMARKS[section][0]
    if lack:
        context.report.add(size, None, reason=lack)
        return
    config = lmtrain_config("lmtrain", spec)
    del config["init_from"], config["threads"], config["batch"]["micro_tokens"]
    config["model"] = {"tie_word_embeddings": True, "num_key_value_heads": spec["model"]["num_attention_heads"]} | spec["model"]
    add_first_step(context, size, lambda: train_steps(context.lmtrain, config, os.path.join(spec["work"], "first-step"), num_processors(), 2))


def add_first_step(context, row, work):
    try:
        result = work()
    except ContestantFailed as failed:
        print(str(failed), flush=True)
        context.report.add(row, False, reason=str(failed)[-800:])
        return
    said = result["start"]
    context.report.add(row, "measured", first_step_seconds=said.get("seconds", result["start_seconds"]), seen_after=result["start_seconds"],
                       whole_seconds=result.get("whole_seconds"), phases=said.get("phases"))


def first_run(context):
    """A first try, from text to the end: nothing is in a cache, and the tokenizer is to be trained."""
    size, steps = (TINY, TINY_STEPS) if context.on_gpu else ("100k", 5)
    config = {
        "name": "first", "device": context.device, "tokenizer": {"train": {"vocab_size": 512}},
        "data": {"train": [os.path.join(REPO, "data", "sample")], "cache_dir": os.path.join(work_of(context, "first-step"), "cache")},
        "model": {"size": size.upper()}, "train": {"steps": steps}, "log": {"every": 1, "tensorboard": False},
    }
    place = os.path.join(work_of(context, "first-step"), "first")

    def work():
        began = time.monotonic()
        result = train_steps(context.lmtrain, config, place, num_processors(), steps + 1)  # never enough, so the run is not killed
        return result | {"whole_seconds": time.monotonic() - began}

    add_first_step(context, f"{size}, {steps} steps", work)


def time_to_loss_command(context, size):
    """scripts/time_to_loss.py, the recipe against HF Trainer at its best rate; both sizes share corpus, tokenizer and shards."""
    _, tokens, search, ends = TIMES_TO_LOSS[size]
    vocabulary, batch = 8192, 32768
    if not context.on_gpu:
        size, tokens, search, ends = REHEARSED_TIME_TO_LOSS
        vocabulary, batch = 512, 2048
    return [sys.executable, os.path.join(REPO, "scripts", "time_to_loss.py"), "--size", size, "--device", context.device, "--tokens", str(tokens),
            "--search-tokens", str(search), "--peer-batch", str(batch), "--vocab-size", str(vocabulary), "--ends", ends, "--seeds", "1",
            "--corpus", corpus(context), "--work", work_of(context, TIME_TO_LOSS), "--lmtrain", context.lmtrain]


def corpus(context):
    """The Python sources of the torch that is here; in a rehearsal a few of them."""
    torch = os.environ.get("LMTRAIN_TORCH") or importlib.util.find_spec("torch").submodule_search_locations[0]
    if context.on_gpu:
        return torch
    few = os.path.join(work_of(context, TIME_TO_LOSS), "few")
    if not os.path.exists(few):
        os.makedirs(few)
        sources = sorted(glob.glob(os.path.join(torch, "**", "*.py"), recursive=True))
        # Small ones, and so many that a hundredth of them is some.
        for place, path in enumerate([path for path in sources if 1000 < os.path.getsize(path) < 5000][:300]):
            shutil.copyfile(path, os.path.join(few, f"{place}.py"))
    return few


def time_to_loss(context, size):
    lack = context.once("packages", missing_packages)
    if lack:
        context.report.add(size, None, reason=lack)
        return
    if context.ahead:
        context.ahead.waits_for(TIME_TO_LOSS)
    path = os.path.join(work_of(context, TIME_TO_LOSS), f"{size}.json")
    done = run(time_to_loss_command(context, size) + ["--json", path])
    if done.returncode != 0:
        context.report.add(size, False, exit_code=done.returncode, reason=done.stderr.strip()[-800:])
        return
    with open(path, encoding="utf-8") as file:
        measured = json.load(file)
    best, reached = measured["best"], measured["reached"] or {}
    # Of the shorter schedules: the first whose end is at the peer's loss or below.
    ends = [row["runs"]["1"] for row in measured["ends"][1:]]
    end = next((run for run in ends if run["loss"] is not None and run["loss"] <= best["loss"]), None)
    context.report.add(
        size, "measured", peer_seconds=best["seconds"], peer_loss=best["loss"], peer_lr=best["lr"], reached_after=reached.get("seconds"),
        times_sooner=reached.get("times_sooner"), reached_tokens=reached.get("tokens"), end_tokens=end and end["tokens"],
        end_sooner=end and best["seconds"] / end["seconds"], lmtrain_seconds=measured["lmtrain"]["seconds"],
        lmtrain_loss=measured["lmtrain"]["loss"], lmtrain_process_seconds=measured["lmtrain"]["process_seconds"], measured=measured,
    )


def items(_context):
    found = [("growth", "1.1b", 40, growth)]
    for section, (size, _, _) in BENCHMARKS.items():
        of_size = SECONDS[size]
        for place, name in enumerate(("lmtrain", "lmtrain-graph", *PEERS)):
            seconds = of_size.get(name, SECONDS_OF_OTHERS[size]) + (of_size["prepare"] if place == 0 else 0)
            found.append((section, name, seconds, lambda c, s=section, n=name: measure(c, s, n, n)))
    for section in ("bench-124m-1024", "bench-1.1b-2048"):
        seconds = SECONDS[BENCHMARKS[section][0]]["prepare"] + SECONDS_OF_OTHERS[BENCHMARKS[section][0]]
        found.append(("fp8", section, seconds, lambda c, s=section: fp8(c, s)))
    for section in ("bench-124m-1024", "bench-350m-2048", "bench-1.1b-2048"):
        found.append(("first-step", BENCHMARKS[section][0], 15, lambda c, s=section: first_step(c, s)))
    found.append(("first-step", TINY, 20, first_run))
    found += [(TIME_TO_LOSS, size, seconds, lambda c, s=size: time_to_loss(c, s)) for size, (seconds, *_) in TIMES_TO_LOSS.items()]
    return found
