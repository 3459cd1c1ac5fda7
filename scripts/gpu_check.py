#!/usr/bin/env python3
"""The checks of scripts/gpu_check.sh, which finds the GPU, torch and the program. Standard library only.

    operators   the device tests: every operator against its composition in double, graphs against script, updates
    training    fifty steps of a small model, in plain rows and packed, on the CPU in fp32 and on the GPU in every precision;
                by captured graphs the GPU must give the bits of `script`
    kernels     the time of each operator and update, beside the ATen composition it replaces; FlashAttention beside cuDNN's
                on packed rows
    bench-...   steps of one model in lmtrain, HF Trainer, a plain PyTorch loop and torch.compile: a row a contestant
    soak        200 steps of bucket and of pack over all lengths by graphs: losses, and reserved beside allocated memory
    growth      FLOP/s of a 1.1B model at length 8192 beside those at 1024
    shapes      operators of random shapes against double
    nccl        sums over processes by NCCL: one process in graph mode, and two, on two GPUs or past NCCL on one, also with divided weights
    profile     the profiler's counters of the slowest kernels
    sanitizer   our own kernels under compute-sanitizer
    fp8         tests, training and steps in fp8

A section is a list of items; SECTION/ITEM names one. The report is written after every row. With --seconds an item begins only
where its estimate fits into what is left, and one that outlasts the time is stopped; the last line says what the next call goes on with.
"""

import argparse
import contextlib
import hashlib
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time

import gpu_benchmarks
import gpu_processes
import gpu_programs
import gpu_training
from gpu_report import Report, join, verdicts, line_of

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SECTIONS = ("operators", "training", "kernels", "bench-124m-1024", "bench-1.1b-2048", "soak", "growth", "shapes", "nccl", "profile",
            "sanitizer", "fp8",
            "bench-350m-2048", "bench-1.1b-8192")
SECONDS_TO_END = 5  # of a call, after its last row
REHEARSAL = 0.1  # of an item's estimate is enough where a CPU takes the GPU's place and models are tiny


class Stopped(Exception):
    """The time of this call is over."""


class Budget:
    """The time that is left to this call; None: as long as it takes."""

    def __init__(self, seconds, taken=0.0):
        """`taken`: seconds of the call that are over."""
        self.end = None if seconds is None else time.monotonic() + seconds - taken - SECONDS_TO_END

    def left(self):
        return float("inf") if self.end is None else self.end - time.monotonic()

    @contextlib.contextmanager
    def enforced(self):
        """Raises Stopped in the main thread when the time is over; whoever waits for a child then kills it."""

        def stop(*_):
            raise Stopped

        previous = signal.signal(signal.SIGALRM, stop)
        if self.end is not None:
            signal.setitimer(signal.ITIMER_REAL, max(0.01, self.left()))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)


class Context:
    """What every check is given."""

    def __init__(self, arguments, work):
        self.lmtrain, self.build = os.path.abspath(arguments.lmtrain), os.path.abspath(arguments.build)
        self.on_gpu = arguments.device == "cuda"
        self.device, self.work, self.report = arguments.device, work, None
        self.memo = {}  # what several items need, by name

    def program(self, name):
        """The path of a program beside lmtrain; None where it was not built."""
        path = os.path.join(self.build, name)
        return path if os.path.exists(path) else None

    def once(self, key, make):
        if key not in self.memo:
            self.memo[key] = make()
        return self.memo[key]


def first_line(command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        return done.stdout.strip().split("\n")[0]
    except OSError:
        return ""


def commit():
    """Of the clone, or of the clone that the archive was packed from."""
    try:
        with open(os.path.join(REPO, "packed"), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return first_line(["git", "-C", REPO, "describe", "--always", "--dirty", "--abbrev=40"])


def describe_machine(arguments):
    query = "name,compute_cap,memory.total,driver_version"
    listed = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], stdout=subprocess.PIPE, text=True, check=False)
    version = subprocess.run([arguments.lmtrain, "--version"], stdout=subprocess.PIPE, text=True, check=False)
    with open(arguments.lmtrain, "rb") as file:
        program = hashlib.sha256(file.read()).hexdigest()
    return {
        "gpus": listed.stdout.strip().split("\n"), "gpu_fields": query, "device": arguments.device,
        "machine": {"system": platform.platform(), "processors": os.cpu_count()}, "torch": arguments.torch_version,
        "lmtrain": version.stdout.strip().split("\n"), "commit": commit(), "program": program,
        "begun_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def all_items(context):
    """(section, name, seconds it takes at most on an H100, function) in the order of SECTIONS."""
    items = gpu_programs.items(context) + gpu_training.items(context) + gpu_processes.items(context) + gpu_benchmarks.items(context)
    return sorted(items, key=lambda item: SECTIONS.index(item[0]))


def chosen(items, names, parser):
    """Those that `names` name, in the order of `names`; all where it is empty."""
    for name in names:
        if name not in SECTIONS and not any(name == f"{section}/{item}" for section, item, *_ in items):
            parser.error(f"no section or item {name}; --list shows what there is")
    if not names:
        return items
    return [item for name in names for item in items if name in (item[0], f"{item[0]}/{item[1]}")]


def run_items(context, items, budget):
    report = context.report
    scale = 1 if context.on_gpu else REHEARSAL
    for section, name, seconds, function in items:
        report.section = section
        label = f"{section}/{name}"
        if budget.left() < seconds * scale:
            report.not_begun.append(label)
            continue
        report.begun.append(label)
        report.write()
        print(f"-- {label}", flush=True)
        started = time.monotonic()
        try:
            with budget.enforced():
                function(context)
            report.ended.append(label)
        except Stopped:
            report.add(name, "stopped", reason="the time of this call was over", after_seconds=round(time.monotonic() - started, 1), item=label)
        except Exception as error:  # one check that cannot be made is a row, not the end
            report.ended.append(label)
            report.add(name, False, reason=f"{type(error).__name__}: {error}"[:1500], item=label)
        report.write()
        print(f"-- {time.monotonic() - started:.1f} s", flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    build = os.path.join(REPO, "build")
    for option, default in (("--lmtrain", os.path.join(build, "lmtrain")), ("--build", build), ("--torch-version", "")):
        parser.add_argument(option, default=default, help=argparse.SUPPRESS)
    parser.add_argument("--report", help="the report, a file of this call alone; default: gpu_check-DATE.json")
    parser.add_argument("--seconds", type=float, help="end before so many seconds are over, unpacking and building among them; default: as long as it takes")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: a rehearsal with tiny models; scripts/gpu_rehearsal.sh has the stand-ins that it needs without a GPU")
    parser.add_argument("--list", action="store_true", help="print every item, with the seconds it takes at most on an H100")
    parser.add_argument("--join", nargs="+", metavar="REPORT", help="check nothing: make one report of several, and print it")
    parser.add_argument("sections", nargs="*", metavar="SECTION[/ITEM]", help="default: all")
    return parser, parser.parse_args()


def main():
    parser, arguments = parse_arguments()
    path = arguments.report or time.strftime("gpu_check-%Y%m%dT%H%M%S.json", time.gmtime())
    if arguments.join:
        raise SystemExit(join(arguments.join, path))
    with tempfile.TemporaryDirectory(prefix="gpu_check.") as work:
        context = Context(arguments, work)
        items = chosen(all_items(context), arguments.sections, parser)
        if arguments.list:
            for section, name, seconds, _ in items:
                print(f"{section}/{name}  {seconds}")
            return
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the folder of work goes, and the report is whole
        began = float(os.environ.get("LMTRAIN_CHECK_BEGAN", time.time()))
        budget = Budget(arguments.seconds, max(0.0, time.time() - began))
        report = context.report = Report(path, describe_machine(arguments))
        run_items(context, items, budget)
        report.write()
        for row in verdicts(report.rows):
            print(line_of(row))
        left = [item for item in report.begun + report.not_begun if item not in report.ended]
        if left:
            print("not begun or stopped, for want of time; the next call goes on with:\n  " + " ".join(left))
        print(f"{'FAIL' if report.failed() else 'PASS'}; report: {path}", flush=True)
        raise SystemExit(report.failed())


if __name__ == "__main__":
    main()
