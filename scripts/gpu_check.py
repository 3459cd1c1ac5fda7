#!/usr/bin/env python3
"""The checks of scripts/gpu_check.sh, which finds the GPU, torch and the program. Standard library only.

    operators   the device tests: every operator against its composition in double, graphs against script, updates
    training    fifty steps of a small model, in plain rows and packed, on the CPU in fp32 and on the GPU in every precision;
                by captured graphs the GPU must give the bits of `script`
    kernels     the time of each operator and update, beside the ATen composition it replaces; FlashAttention beside cuDNN's
                on packed rows
    bench-...   steps of one model in lmtrain, HF Trainer, a plain PyTorch loop and torch.compile: a row a contestant
    first-step  from the start of the program to the end of its first step, at three sizes, and a whole first run of a small model
    time-to-loss   after how many seconds lmtrain's recipe has the loss that HF Trainer at its best rate ends with
    soak        200 steps of bucket and of pack over all lengths by graphs: losses, and reserved beside allocated memory
    growth      FLOP/s of a 1.1B model at length 8192 beside those at 1024
    shapes      operators of random shapes against double
    nccl        sums over processes by NCCL: one process in graph mode, and two, on two GPUs or past NCCL on one, also with divided weights
    profile     the profiler's counters of the slowest kernels
    sanitizer   our own kernels under compute-sanitizer
    fp8         tests, training and steps in fp8
    recipe      many small runs beside each other: the recipe against its neighbours, forecasts against their runs

    correctness the items that say right or wrong, beside each other, each on its share of the processors
    speed       the items that measure, alone on the GPU, the most telling first

A section is a list of items; SECTION/ITEM names one. The report is written after every row. With --seconds an item begins only
where its estimate fits into what is left. One that outlasts the time, or on a GPU half as much again as its estimate, is stopped. At the end one
screen says what came out, and what the next call goes on with.
"""

import argparse
import contextlib
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import gpu_benchmarks
import gpu_processes
import gpu_programs
import gpu_recipe
import gpu_training
from gpu_report import Report, join, screen

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SECTIONS = ("operators", "training", "kernels", "bench-124m-1024", "bench-1.1b-2048", "first-step", "time-to-loss", "soak", "growth", "shapes",
            "nccl", "profile", "sanitizer", "fp8", "bench-350m-2048", "bench-1.1b-8192", "recipe")
# The two calls of a borrowed quarter of an hour. Those of `correctness` run beside each other; of `speed` in this order.
GROUPS = {
    "correctness": ("soak", "operators", "nccl", "training", "fp8/GpuFp8", "fp8/train-bucket", "fp8/train-pack", "shapes"),
    "speed": ("bench-124m-1024/lmtrain", "bench-124m-1024/compile", "bench-1.1b-2048/lmtrain", "bench-1.1b-2048/compile", "first-step", "kernels",
              "time-to-loss/30m", "fp8/bench-1.1b-2048", "bench-350m-2048/lmtrain", "bench-350m-2048/compile", "bench-124m-1024/trainer",
              "time-to-loss/124m", "bench-124m-1024/lmtrain-graph", "bench-1.1b-2048/lmtrain-graph", "growth"),
}
MOST_BESIDE = 8  # processes of `correctness`: each has a context and its tensors in the GPU's 80 GB
OVER_ITS_ESTIMATE = 1.5  # times an item's seconds, after which it is stopped
SECONDS_OF_A_CALL = 350  # of a group, where --seconds says nothing: at most six minutes with the start of the machine
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
    def enforced(self, most=None):
        """Raises Stopped in the main thread when the time is over, or `most` seconds are; whoever waits for a child then kills it."""

        def stop(*_):
            raise Stopped

        previous = signal.signal(signal.SIGALRM, stop)
        seconds = min(self.left(), float("inf") if most is None else most)
        if seconds != float("inf"):
            signal.setitimer(signal.ITIMER_REAL, max(0.01, seconds))
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
        self.ahead = None  # what prepares the items to come, gpu_benchmarks.Ahead

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
    items += gpu_recipe.items(context)
    return sorted(items, key=lambda item: SECTIONS.index(item[0]))


def chosen(items, names, parser):
    """Those that `names` name, in the order of `names`, each once; all where it is empty."""
    labels = {f"{section}/{item}" for section, item, *_ in items}
    for name in names:
        if name not in SECTIONS and name not in GROUPS and name not in labels:
            parser.error(f"no section or item {name}; --list shows what there is")
    if not names:
        return items
    wanted = [part for name in names for part in GROUPS.get(name, (name,))]
    found = [item for name in wanted for item in items if name in (item[0], label_of(item))]
    return list({label_of(item): item for item in found}.values())


def label_of(item):
    return f"{item[0]}/{item[1]}"


def run_items(context, items, budget):
    """One after the other."""
    scale = 1 if context.on_gpu else REHEARSAL
    for item in items:
        if budget.left() < item[2] * scale:
            context.report.not_begun.append(label_of(item))
            continue
        if context.ahead:
            context.ahead.is_over()
        run_item(context, item, budget)


def run_item(context, item, budget):
    report = context.report
    section, name, seconds, function = item
    report.section = section
    label = label_of(item)
    report.begun.append(label)
    report.write()
    print(f"-- {label}", flush=True)
    started = time.monotonic()
    most = OVER_ITS_ESTIMATE * seconds if context.on_gpu and seconds else None
    try:
        with budget.enforced(most):
            function(context)
        report.ended.append(label)
    except Stopped:
        after = time.monotonic() - started
        reason = "the time of this call was over" if most is None or after < most else f"it took {OVER_ITS_ESTIMATE} times its {seconds} s"
        report.add(name, "stopped", reason=reason, after_seconds=round(after, 1), item=label)
    except Exception as error:  # one check that cannot be made is a row, not the end
        report.ended.append(label)
        report.add(name, False, reason=f"{type(error).__name__}: {error}"[:1500], item=label)
    report.write()
    print(f"-- {time.monotonic() - started:.1f} s", flush=True)


class Part:
    """An item in a process of its own, on its own processors: it has a folder, and there a report and what it prints."""

    def __init__(self, context, item, budget, cores):
        self.item, self.cores, self.read_at, self.ended = item, cores, None, []
        self.folder = os.path.join(context.work, label_of(item).replace("/", "_"))
        os.makedirs(self.folder)
        sys.stdout.flush()
        self.process = os.fork()
        if self.process == 0:
            self.run(context, budget)

    def run(self, context, budget):
        """In the new process; does not return."""
        status = 1
        try:
            output = os.open(os.path.join(self.folder, "output"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.sched_setaffinity(0, self.cores)
            context.work, context.memo = self.folder, dict(context.memo)
            context.report = Report(self.report_path(), {})
            run_item(context, self.item, budget)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)

    def report_path(self):
        return os.path.join(self.folder, "report.json")

    def rows(self):
        """Those of its report since they were last asked for; None: the report is as it was."""
        try:
            changed = os.stat(self.report_path()).st_mtime_ns
            if changed == self.read_at:
                return None
            with open(self.report_path(), encoding="utf-8") as file:
                document = json.load(file)
        except (OSError, ValueError):
            return None
        self.read_at = changed
        self.ended = document["calls"][0]["ended"]
        return document["rows"]

    def output(self):
        try:
            with open(os.path.join(self.folder, "output"), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""


def run_beside(context, items, budget, count):
    """Up to `count` items beside each other, those that take longest first. The report has the rows of all, also of those under way."""
    cores = sorted(os.sched_getaffinity(0))
    share = max(1, len(cores) // count)
    free = [cores[i * share % len(cores) :][:share] for i in range(count)]
    scale = 1 if context.on_gpu else REHEARSAL
    waiting = sorted(items, key=lambda item: -item[2])
    running, rows = {}, {}
    report = context.report
    try:
        while waiting or running:
            while waiting and free:
                item = waiting.pop(0)
                if budget.left() < item[2] * scale:
                    report.not_begun.append(label_of(item))
                    continue
                report.begun.append(label_of(item))
                part = Part(context, item, budget, free.pop())
                running[part.process] = part
            gone, status = os.waitpid(-1, os.WNOHANG) if running else (0, 0)
            for process, part in list(running.items()):
                of_part = part.rows()
                if of_part is not None:
                    rows[label_of(part.item)] = of_part
                if process == gone:
                    end_part(report, running.pop(process), rows, status)
                    free.append(part.cores)
            report.take([row for of_part in rows.values() for row in of_part])
            if gone:
                report.write()  # with what has ended
            else:
                time.sleep(0.1)
    finally:
        for process in running:
            gpu_programs.kill_with_descendants(process)


def end_part(report, part, rows, status):
    label = label_of(part.item)
    print(part.output(), end="", flush=True)
    report.ended += part.ended
    if status != 0:
        rows.setdefault(label, []).append({"section": part.item[0], "name": part.item[1], "result": "fail", "item": label,
                                           "reason": f"its process ended with {os.waitstatus_to_exitcode(status)}"})


def beside(arguments):
    """How many items run beside each other."""
    if arguments.beside:
        return arguments.beside
    if set(arguments.sections) != {"correctness"}:
        return 1
    return min(MOST_BESIDE, max(2, len(os.sched_getaffinity(0)) // 2))


def parse_arguments():
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    build = os.path.join(REPO, "build")
    for option, default in (("--lmtrain", os.path.join(build, "lmtrain")), ("--build", build), ("--torch-version", "")):
        parser.add_argument(option, default=default, help=argparse.SUPPRESS)
    parser.add_argument("--report", help="the report, a file of this call alone; default: gpu_check-DATE.json")
    parser.add_argument("--seconds", type=float, help=f"end before so many seconds are over, unpacking and building among them; default: as long as it takes, {SECONDS_OF_A_CALL} for correctness or speed alone")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: a rehearsal with tiny models; scripts/gpu_rehearsal.sh has the stand-ins that it needs without a GPU")
    parser.add_argument("--beside", type=int, metavar="N", help="so many items beside each other; default: 1, and for `correctness` alone 2 to 8, as the processors allow")
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
        if arguments.seconds is None and arguments.sections and set(arguments.sections) <= set(GROUPS):
            arguments.seconds = SECONDS_OF_A_CALL * len(arguments.sections)
        budget = Budget(arguments.seconds, max(0.0, time.time() - began))
        report = context.report = Report(path, describe_machine(arguments))
        count = beside(arguments)
        try:
            if count > 1:
                run_beside(context, items, budget, count)
            else:
                gpu_benchmarks.prepare_ahead(context, items)
                run_items(context, items, budget)
        finally:
            if context.ahead:
                context.ahead.end()
        report.write()
        left = [item for item in report.begun + report.not_begun if item not in report.ended]
        print(screen(report.machine, report.rows, left, path, time.time() - began), flush=True)
        raise SystemExit(report.failed())


if __name__ == "__main__":
    main()
