#!/usr/bin/env python3
"""The checks of scripts/gpu_check.sh, which finds the GPU, torch and the program. Standard library only.

tests       the device tests, a process for each suite
training    the same fifty steps, of plain rows and of packed ones, on the CPU in fp32 and on the GPU in fp32, bf16, fp16 and,
            where it has it, fp8; losses are compared step by step, as |difference| / max(1, loss). Tolerances: the first
            step sees equal weights, so only rounding; later ones drift. By captured graphs the GPU must give the bits
            that it gives without, where it gives the same bits twice. In bf16 also without `deterministic`, as runs are.
sanitizer   the device tests of our own kernels under compute-sanitizer
kernels     each operator and update beside the ATen composition it replaces
growth      tokens/s of a 1.1B model at 8192 beside what FLOPs predict from 1024
bench-...   steps beside HF Trainer, a plain PyTorch loop and torch.compile (scripts/bench_vs_pytorch.py), with targets

The report is written after every check. What an earlier report of the same program on the same machine has of other
sections stays in it.
"""

import argparse
import glob
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STEPS = 50
FIRST_LOSS_TOLERANCE = {"fp32": 1e-5, "bf16": 2e-2, "fp16": 5e-3, "fp8": 4e-2}
LOSSES_TOLERANCE = {"fp32": 5e-3, "bf16": 5e-2, "fp16": 2e-2, "fp8": 1e-1}
EVAL_TOLERANCE = 1e-4
# Size, length; the MFU (6N + 12LDT against the data sheet) and the speed against torch.compile that are wanted.
BENCHMARKS = {
    "bench-124m-1024": ("124m", 1024, 0.45, 1.05),
    "bench-350m-2048": ("350m", 2048, 0.50, 1.05),
    "bench-1.1b-2048": ("1.1b", 2048, 0.52, 1.0),
    "bench-1.1b-8192": ("1.1b", 8192, 0.52, 1.0),
}
AGAINST_TRAINER, FIRST_STEP_SECONDS, GROWTH = 1.5, 3.0, 0.95
SECTIONS = ("tests", "training", "sanitizer", "kernels", "growth", *BENCHMARKS)


class Report:
    """Checks, in a file that is complete after each."""

    def __init__(self, path, machine):
        self.path, self.machine, self.checks, self.section = path, machine, [], ""
        try:
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    earlier = json.load(file)
                if all(earlier.get(key) == value for key, value in machine.items()):
                    self.checks = earlier["checks"]
            self.write()  # before an hour of checks
        except (OSError, ValueError, KeyError, AttributeError) as error:
            sys.exit(f"{path} cannot be the report: {error}; move it away or give another name")

    def begin(self, section):
        self.section = section
        self.checks = [check for check in self.checks if check["section"] != section]

    def add(self, name, passed, **numbers):
        """passed: True, False, or None for a check that could not be made."""
        result = {True: "pass", False: "fail", None: "skip"}[passed]
        self.checks.append({"section": self.section, "name": name, "result": result, **numbers})
        details = ", ".join(f"{key} {value}" for key, value in numbers.items() if value is not None and not isinstance(value, (dict, list)))
        print(result.upper(), name + (": " + details if details else ""), flush=True)
        self.write()

    def failed(self):
        return any(check["result"] == "fail" for check in self.checks)

    def write(self):
        document = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "result": "fail" if self.failed() else "pass"}
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump(document | self.machine | {"checks": self.checks}, file, indent=1)
            file.write("\n")
        os.replace(self.path + ".new", self.path)


def run(command, **kwargs):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", **kwargs)


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def first_line(command):
    try:
        return run(command).stdout.strip().split("\n")[0]
    except OSError:
        return ""


def device_tests(report, build):
    program = os.path.join(build, "test_gpu")
    if not os.path.exists(program):
        report.add("device tests", None, reason=f"no {program}")
        return
    listed = run([program, "--gtest_list_tests"])
    suites = [line.split("#")[0].strip() for line in listed.stdout.split("\n") if line and not line.startswith(" ") and line.rstrip().endswith(".")]
    if not suites:
        report.add("device tests", False, message=(listed.stdout + listed.stderr)[-300:])
    for suite in suites:
        started = time.time()
        done = run([program, f"--gtest_filter={suite}*"], cwd=build)
        count = {word: done.stdout.count(f"[{mark}] ") for word, mark in (("ran", "       OK "), ("skipped", "  SKIPPED "))}
        # Where there is a GPU a suite that skips all its tests has not been run.
        passed = done.returncode == 0 and count["ran"] > 0
        report.add("device tests " + suite.rstrip("."), passed, **count, exit_code=done.returncode, seconds=round(time.time() - started, 1))
        if not passed:
            print(done.stdout[-5000:] + done.stderr[-2000:])


def architectures_compiled_in(lmtrain):
    """What the program has kernels for; None for nothing."""
    found = re.search(r"GPU architectures compiled in: ([^;)]*)", run([lmtrain, "--version"]).stdout)
    return found.group(1) if found and found.group(1) != "none" else None


def sanitize(report, build):
    """The device tests once more, every access and every synchronisation watched."""
    program = os.path.join(build, "test_gpu")
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.path.exists(program) or not os.path.exists(sanitizer):
        report.add("compute-sanitizer", None, reason="no test_gpu, or no compute-sanitizer")
        return
    # Our own kernels alone: libtorch's are not for us to judge, and are many.
    ours = "GpuOperators.*:GpuFp8.Casts*:GpuFp8.Reads*"
    for tool, tests in (("memcheck", ours + ":Cases/OnGpu.Updates*"), ("racecheck", ours + "-*Attention*"),
                        ("synccheck", ours + "-*Attention*")):
        started = time.time()
        done = run([sanitizer, "--tool", tool, "--error-exitcode", "97", program, "--gtest_filter=" + tests])
        summary = [line for line in done.stdout.split("\n") if "SUMMARY" in line]
        report.add("compute-sanitizer " + tool, done.returncode == 0, summary=summary[-1] if summary else None,
                   seconds=round(time.time() - started, 1))
        if done.returncode != 0:
            print(done.stdout[-5000:])


def time_kernels(report, build):
    """Each operator and update against the ATen composition it replaces."""
    program = os.path.join(build, "bench_gpu_kernels")
    if not os.path.exists(program):
        report.add("kernel times", None, reason="no bench_gpu_kernels")
        return
    done = run([program])
    try:
        kernels = json.loads(done.stdout)
    except ValueError:
        report.add("kernel times", False, exit_code=done.returncode, message=done.stderr.strip()[-300:])
        return
    report.add("kernel times", done.returncode == 0, kernels=kernels)


def write_config(path, work, batching):
    """A small model on the repository's own sample, or on its sources where there is none."""
    sample = os.path.join(REPO, "data", "sample")
    config = {
        "name": "gpu_check", "seed": 1, "deterministic": True,
        "tokenizer": {"train": {"vocab_size": 512}},
        "data": {
            "train": [sample if os.path.isdir(sample) else os.path.join(REPO, "src", "**", "*.h")],
            "cache_dir": os.path.join(work, "cache"),
        },
        "sequence": {"max_length": 128, "min_length": 64, "batching": batching, "schedule": {"type": "constant"}},
        "model": {
            "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 4, "num_attention_heads": 4,
            "num_key_value_heads": 2, "tie_word_embeddings": False,
        },
        "batch": {"tokens": 2048},
        "lr_schedule": {"type": "cosine", "warmup": 10},
        "train": {"steps": STEPS},
        "eval": {"every": 0},
        "checkpoint": {"every": 0},
        "log": {"every": 1, "tensorboard": False},
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)


def growth(report, lmtrain):
    """Model FLOPs a second at the longest length beside those at 1024."""
    config = {
        "name": "growth", "tokenizer": {"train": {"vocab_size": 32000}}, "device": "cuda", "precision": "bf16", "compile": "graph",
        "data": {"train": [{"path": os.path.join(REPO, "README.md")}]},
        "sequence": {"max_length": 8192, "min_length": 1024, "batching": "concat", "schedule": {"type": "linear"}},
        "model": {
            "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32,
            "num_key_value_heads": 4, "vocab_size": 32000, "tie_word_embeddings": False,
        },
        "batch": {"tokens": 131072},
        "train": {"steps": 10},
    }
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "growth.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        done = run([lmtrain, "bench", path, "--json"])
    if done.returncode != 0:
        report.add("growth", False, exit_code=done.returncode, message=done.stderr.strip()[-300:])
        return
    measured = json.loads(done.stdout)
    rates = {length["length"]: length["flops_per_second"] for length in measured["lengths"]}
    kept = rates[8192] / rates[1024]
    report.add("growth", kept >= GROWTH, of_predicted=round(kept, 3), wanted=GROWTH, bench=measured)


def benchmark(report, section, lmtrain):
    """The same model in lmtrain and PyTorch; lmtrain's time is the best of its contestants in bf16."""
    size, length, wanted_mfu, wanted_against_compile = BENCHMARKS[section]
    missing = run([sys.executable, "-c", "import torch, transformers, accelerate"])
    if missing.returncode != 0:
        report.add(section, None, reason=f"{sys.executable}: {missing.stderr.strip().split(chr(10))[-1]}")
        return
    ours = ["lmtrain", "lmtrain-graph"]
    contestants = ours + (["lmtrain-fp8"] if has_fp8(lmtrain) else []) + ["trainer", "loop", "compile"]
    with tempfile.TemporaryDirectory() as work:
        result = os.path.join(work, "bench.json")
        command = [
            sys.executable, os.path.join(REPO, "scripts", "bench_vs_pytorch.py"), "--device", "cuda", "--size", size, "--length",
            str(length), "--steps", "12", "--rounds", "3", "--contestants", ",".join(contestants), "--lmtrain", lmtrain, "--work", work,
            "--json", result,
        ]
        done = run(command)
        if done.returncode != 0:
            report.add(section, False, exit_code=done.returncode, message=(done.stdout + done.stderr).strip()[-1500:])
            return
        print(done.stdout, flush=True)
        with open(result, encoding="utf-8") as file:
            measured = json.load(file)
    entries = measured["contestants"]
    seconds = {name: entry["step_seconds"]["median"] for name, entry in entries.items()}
    best = min(ours, key=seconds.get)
    mfu = entries[best].get("mfu", {}).get("median")
    against = {name: seconds[name] / seconds[best] for name in ("trainer", "loop", "compile")}
    first_step = entries[best]["first_step_seconds"]["median"]
    report.add(f"{section} measured", True, best=best, against_loop=round(against["loop"], 3), bench=measured)
    report.add(f"{section} MFU", None if mfu is None else mfu >= wanted_mfu, mfu=mfu, wanted=wanted_mfu)
    report.add(f"{section} against torch.compile", against["compile"] >= wanted_against_compile,
               ratio=round(against["compile"], 3), wanted=wanted_against_compile)
    report.add(f"{section} against HF Trainer", against["trainer"] >= AGAINST_TRAINER, ratio=round(against["trainer"], 3), wanted=AGAINST_TRAINER)
    report.add(f"{section} first step", first_step <= FIRST_STEP_SECONDS, seconds=round(first_step, 2), wanted=FIRST_STEP_SECONDS)


def has_fp8(lmtrain):
    """Whether the GPU multiplies in fp8, and the program has the kernels that cast to it."""
    capability = first_line(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"])
    return architectures_compiled_in(lmtrain) is not None and float(capability or 0) >= 8.9


def train(report, lmtrain, config, work, device, precision, batching, compile_mode="script", again="", settings=()):
    """Losses of all steps, or None when it failed."""
    how = "" if compile_mode == "script" else " " + compile_mode
    name = f"{device}_{precision}_{batching}" + how.replace(" ", "_") + again.replace(" ", "_")
    folder = os.path.join(work, name)
    command = [lmtrain, "train", config, "--run-dir", folder, "--set", f"device={device}", "--set", f"precision={precision}",
               "--set", f"compile={compile_mode}", *(word for setting in settings for word in ("--set", setting))]
    started = time.time()
    done = run(command)
    seconds = round(time.time() - started, 1)
    lines = []
    if done.returncode == 0:
        with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
            lines = [line for line in map(json.loads, file) if "loss" in line]
    losses = [line["loss"] for line in lines]
    complete = len(losses) == STEPS and all(loss is not None for loss in losses)
    numbers = {"exit_code": done.returncode, "steps": len(losses), "seconds": seconds}
    # What a graph was not captured for, or why there are none.
    fallbacks = [line for line in done.stderr.split("\n") if line.startswith("warning: compile ")]
    if fallbacks:
        numbers["fallbacks"] = fallbacks
    if complete:
        numbers |= {"first_loss": losses[0], "last_loss": losses[-1], "tokens_per_second": lines[-1].get("tokens_per_second")}
    passed = complete and losses[-1] < losses[0] and not fallbacks
    report.add(f"train {device} {precision} {batching}{how}{again}", passed, **numbers)
    if not complete:
        print(done.stderr[-3000:])
    return losses if complete else None


def relative(a, b):
    return abs(a - b) / max(1.0, abs(b))


def compare_losses(report, name, precision, losses, reference):
    if losses is None or reference is None:
        report.add(name, None, reason="a training failed")
        return
    first = relative(losses[0], reference[0])
    largest = max(relative(a, b) for a, b in zip(losses, reference))
    # Fifty steps without one different bit would mean that the CPU did both.
    passed = first <= FIRST_LOSS_TOLERANCE[precision] and 0 < largest <= LOSSES_TOLERANCE[precision]
    report.add(
        name, passed, first_difference=first, first_tolerance=FIRST_LOSS_TOLERANCE[precision],
        largest_difference=largest, tolerance=LOSSES_TOLERANCE[precision],
    )


def compare_graphs(report, lmtrain, config, work, precision, batching, script):
    """The same steps by captured graphs: not one bit may differ."""
    name = f"losses cuda {precision} {batching} by graphs against script"
    graph = train(report, lmtrain, config, work, "cuda", precision, batching, "graph")
    if graph is None or script is None:
        report.add(name, None, reason="a training failed")
        return
    differing = sum(a != b for a, b in zip(graph, script))
    if differing > 0 and train(report, lmtrain, config, work, "cuda", precision, batching, again=" again") != script:
        # ATen's attention adds in any order where it is faster; test_gpu forbids it and compares all weights.
        report.add(name, None, reason="script does not give the same bits twice", differing_steps=differing)
        return
    report.add(name, differing == 0, differing_steps=differing)


def compare_evaluations(report, lmtrain, work):
    """The GPU's checkpoint, evaluated on both devices."""
    name = "evaluation cuda against cpu"
    checkpoints = sorted(glob.glob(os.path.join(work, "cuda_fp32_bucket", "checkpoints", "step_*")))
    if not checkpoints:
        report.add(name, None, reason="no checkpoint")
        return
    losses = {}
    for device in ("cpu", "cuda"):
        data = os.path.join(REPO, "tests", "reference", "eval", "documents")
        done = run([lmtrain, "eval", checkpoints[-1], "--data", data, "--device", device, "--precision", "fp32", "--json"])
        if done.returncode != 0:
            report.add(name, False, device=device, exit_code=done.returncode, message=done.stderr.strip()[-300:])
            return
        losses[device] = json.loads(done.stdout)["loss"]
    difference = relative(losses["cuda"], losses["cpu"])
    report.add(name, difference <= EVAL_TOLERANCE, **losses, difference=difference, tolerance=EVAL_TOLERANCE)


def train_everything(report, lmtrain):
    architectures = architectures_compiled_in(lmtrain)
    captures = architectures is not None
    report.add("kernels of our own", True if captures else None, architectures=architectures)
    with tempfile.TemporaryDirectory() as work:
        config = os.path.join(work, "gpu_check.json")
        for batching in ("bucket", "pack"):
            write_config(config, work, batching)
            reference = train(report, lmtrain, config, work, "cpu", "fp32", batching)
            for precision in ("fp32", "bf16", "fp16") + (("fp8",) if has_fp8(lmtrain) else ()):
                losses = train(report, lmtrain, config, work, "cuda", precision, batching)
                compare_losses(report, f"losses cuda {precision} {batching} against cpu fp32", precision, losses, reference)
                if captures:
                    compare_graphs(report, lmtrain, config, work, precision, batching, losses)
            # As runs are by default, with whatever attention is the fastest.
            for compile_mode in ("script", "graph") if captures else ("script",):
                losses = train(report, lmtrain, config, work, "cuda", "bf16", batching, compile_mode, " not deterministic", ["deterministic=false"])
                name = f"losses cuda bf16 {batching} {compile_mode} not deterministic against cpu fp32"
                compare_losses(report, name, "bf16", losses, reference)
        compare_evaluations(report, lmtrain, work)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--lmtrain", "--build", "--torch-version", "--report"):
        parser.add_argument(option, required=True)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="default: all")
    arguments = parser.parse_args()
    arguments.build, arguments.lmtrain = os.path.abspath(arguments.build), os.path.abspath(arguments.lmtrain)
    sections = arguments.sections or SECTIONS
    for section in sections:
        if section not in SECTIONS:
            parser.error(f"no section {section}; there are {', '.join(SECTIONS)}")

    query = "name,compute_cap,memory.total,driver_version"
    report = Report(arguments.report, {
        "gpus": run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]).stdout.strip().split("\n"),
        "gpu_fields": query,
        "machine": {"system": platform.platform(), "processors": os.cpu_count()},
        "torch": arguments.torch_version,
        "lmtrain": run([arguments.lmtrain, "--version"]).stdout.strip().split("\n"),
        "commit": first_line(["git", "-C", REPO, "rev-parse", "HEAD"]),
        "program": sha256(arguments.lmtrain),
    })
    actions = {
        "tests": lambda: device_tests(report, arguments.build),
        "training": lambda: train_everything(report, arguments.lmtrain),
        "sanitizer": lambda: sanitize(report, arguments.build),
        "kernels": lambda: time_kernels(report, arguments.build),
        "growth": lambda: growth(report, arguments.lmtrain),
    }
    for section in sections:
        report.begin(section)
        actions.get(section, lambda: benchmark(report, section, arguments.lmtrain))()
    print(f"{'FAIL' if report.failed() else 'PASS'}; report: {arguments.report}")
    raise SystemExit(report.failed())


if __name__ == "__main__":
    main()
