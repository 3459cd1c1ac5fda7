"""Checks of scripts/gpu_check.py that run the programs beside lmtrain: device tests, kernel times, profiler, sanitizer."""

import collections
import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from bench_processes import visible_gpu

# Sections of the device tests' suites; all others are in "operators".
SECTION_OF_SUITE = {"GpuFp8": "fp8", "GpuNccl": "nccl", "GpuSharded": "nccl", "GpuRandomShapes": "shapes"}
SECONDS_OF_SUITE = {"GpuGraphs": 75, "Cases/OnGpu": 30, "GpuRandomShapes": 40, "GpuNccl": 30, "GpuSharded": 25}
# The tests of a suite run in so many processes beside each other: most of their time is the start of a process and the CPU's oracle. All suites
# took 287 s in one process and 90 s in four on an H100 (the longest test, GpuGraphs.GiveTheBitsOfScript, 61 s).
TEST_PROCESSES = 4
# Our own kernels alone: libtorch's are not for us to judge, and are many. These tests call no product and no attention of a library.
OUR_KERNELS = "GpuOperators.*:*/GpuUpdates.*:GpuFp8.Casts*:GpuFp8.Reads*-*Attention*:*Linear*:*AddProduct*"
# What compute-sanitizer says where a machine does not let it work.
NO_SANITIZER = re.compile(r"Device not supported|not supported on|Failed to initialize|Unable to find injection|InitializationError|error 999", re.IGNORECASE)
NO_FP8 = "no GPU that multiplies in fp8, or no kernels of ours for it"
# Metrics of ncu, and what they are called in the report.
COUNTERS = {
    "gpu__time_duration.sum": "nanoseconds",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram_percent",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "sm_percent",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy_percent",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": "bank_conflicts",
    "launch__registers_per_thread": "registers",
}


def run(command, started=None, **kwargs):
    """Where it is stopped, so is what the command has started: a profiler's program would go on and keep the GPU. started(process id) is called
    at once."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, errors="replace", **kwargs) as process:
        if started:
            started(process.pid)
        try:
            said, errors = process.communicate()
        except BaseException:
            kill_with_descendants(process.pid)
            raise
    return subprocess.CompletedProcess(command, process.returncode, said, errors)


def run_shards(command, count, **kwargs):
    """A program of GoogleTest in `count` processes, each with its part of the tests: the first exit code that is not 0, and all that they said.
    They share the processors: threads of one that wait by spinning would hold up the others."""
    threads = max(1, len(os.sched_getaffinity(0)) // count)
    with tempfile.TemporaryDirectory() as work:
        started = []
        try:
            for shard in range(count):
                variables = os.environ | {"GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(shard), "OMP_NUM_THREADS": str(threads)}
                said, errors = (open(os.path.join(work, f"{shard}.{name}"), "w+", encoding="utf-8", errors="replace") for name in ("out", "err"))
                started.append((subprocess.Popen(command, stdout=said, stderr=errors, env=variables, **kwargs), said, errors))
            codes = [process.wait() for process, _, _ in started]
        except BaseException:
            for process, _, _ in started:
                kill_with_descendants(process.pid)
                process.wait()
            raise
        texts = {1: "", 2: ""}
        for _, *files in started:
            for place, file in enumerate(files, start=1):
                file.seek(0)
                texts[place] += file.read()
                file.close()
    return subprocess.CompletedProcess(command, next((code for code in codes if code != 0), 0), texts[1], texts[2])


def kill_with_descendants(process):
    try:
        with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as file:
            children = file.read().split()
        os.kill(process, signal.SIGKILL)
    except OSError:  # it has ended
        return
    for child in map(int, children):
        kill_with_descendants(child)


def architectures_compiled_in(context):
    """What the program has kernels for; None for nothing."""
    version = context.once("version", lambda: run([context.lmtrain, "--version"]).stdout)
    found = re.search(r"GPU architectures compiled in: ([^;)]*)", version)
    return found.group(1) if found and found.group(1) != "none" else None


def has_fp8(context):
    """Whether the GPU multiplies in fp8, and the program has the kernels that cast to it."""
    listed = run(["nvidia-smi", "-i", visible_gpu(), "--query-gpu=compute_cap", "--format=csv,noheader"]).stdout.strip().split("\n")[0]
    return context.on_gpu and architectures_compiled_in(context) is not None and float(listed or 0) >= 8.9


def suites_of(program):
    listed = run([program, "--gtest_list_tests"])
    lines = [line.split("#")[0].strip() for line in listed.stdout.split("\n") if line and not line.startswith(" ")]
    return [line.rstrip(".") for line in lines if line.endswith(".")], listed


def device_tests(context, suite):
    if suite == "GpuFp8" and context.on_gpu and not has_fp8(context):
        context.report.add(suite, None, reason=NO_FP8)
        return
    shards = min(TEST_PROCESSES, len(os.sched_getaffinity(0))) if context.on_gpu else 1
    done = run_shards([context.program("test_gpu"), f"--gtest_filter={suite}.*"], shards, cwd=context.build)
    # "[       OK ] Suite.Test (3 ms)"; skipped ones are listed once more at the end, without a time.
    ended = re.findall(r"^\[ +(OK|SKIPPED|FAILED) +\] .* \(\d+ ms\)$", done.stdout, re.MULTILINE)
    count = {"ran": len(ended) - ended.count("SKIPPED"), "skipped": ended.count("SKIPPED")}
    # Where there is a GPU a suite that skips all its tests has not been run.
    passed = done.returncode == 0 and (count["ran"] > 0 or None)
    if passed is None and context.on_gpu:
        passed = False
    failed = sorted(set(re.findall(r"^\[ +FAILED +\] ([\w/]+\.[\w/]+)", done.stdout, re.MULTILINE)))
    context.report.add(suite, passed, **count, exit_code=done.returncode, failed=", ".join(failed) or None)
    if passed is False:
        print(done.stdout[-4000:] + done.stderr[-1000:], flush=True)


def no_device_tests(context, listed):
    said = (listed.stdout + listed.stderr).strip()[-300:] if listed else "test_gpu was not built"
    context.report.add("device tests", False if listed else None, reason=said)


def time_kernels(context, name="kernel times", arguments=(), ends_well=True):
    """Each operator and update against the ATen composition it replaces. What need not end well is a skip where it does not."""
    program = context.program("bench_gpu_kernels")
    if not program or not context.on_gpu:
        context.report.add(name, None, reason="no GPU" if program else "bench_gpu_kernels was not built")
        return
    done = run([program, *arguments])
    try:
        kernels = json.loads(done.stdout)
    except ValueError:
        context.report.add(name, False if ends_well else None, exit_code=done.returncode, reason=done.stderr.strip()[-300:])
        return
    for kernel in kernels:
        error = kernel.pop("error", None)
        context.report.add(kernel.pop("name"), None if error else "measured", **kernel, reason=error and error[:300])


def packed_attention(context):
    """FlashAttention of packed rows beside cuDNN's, which no run takes before it has proved itself here."""
    time_kernels(context, "packed_attention", ("packed",), ends_well=False)


def profile(context):
    """The counters of each kernel of ours, the slowest first."""
    program, profiler = context.program("bench_gpu_kernels"), shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    if not program or not os.path.exists(profiler) or not context.on_gpu:
        context.report.add("counters", None, reason="no GPU, no ncu or no bench_gpu_kernels")
        return
    done = run([profiler, "--clock-control", "none", "--csv", "--kernel-name-base", "demangled", "--kernel-name", "regex:lmtrain::cuda",
                "--filter-mode", "per-launch-config", "--launch-skip", "2", "--launch-count", "1", "--metrics", ",".join(COUNTERS), program])
    rows = counters_of(done.stdout)
    if not rows:
        context.report.add("counters", None, reason="ncu gave none: " + (done.stderr.strip() or done.stdout.strip())[-300:])
    for name, counters in rows[:12]:
        context.report.add(name, "measured", **counters)


def counters_of(text):
    """[(kernel, {counter: number})] of ncu's CSV, the slowest first."""
    lines = text.split("\n")
    head = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if head is None:
        return []
    kernels = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[head:]))):
        counter = COUNTERS.get(row.get("Metric Name"))
        if counter is None:
            continue
        try:
            kernels.setdefault((row["Kernel Name"], row["Grid Size"]), {})[counter] = float(row["Metric Value"].replace(",", ""))
        except ValueError:
            pass  # "n/a"
    # Kernels of several files have one name; their parameters tell them apart.
    short = collections.Counter((without_parameters(name), grid) for name, grid in kernels)
    named = []
    for (name, grid), counters in kernels.items():
        brief = without_parameters(name)
        named.append((f"{brief if short[brief, grid] == 1 else readable(name)} {grid}", counters))
    return sorted(named, key=lambda kernel: -kernel[1].get("nanoseconds", 0))


def readable(name):
    """A kernel's name without the namespaces that all have; template arguments as 8 instead of (int)8."""
    return re.sub(r"\(anonymous namespace\)::|<unnamed>::|lmtrain::cuda::|\((int|unsigned int|long|bool)\)(?=[0-9])", "", name)


def without_parameters(name):
    return readable(name).split("(")[0]


def sanitize(context, tool):
    """The tests of our own kernels once more, every access and every synchronisation watched."""
    program, sanitizer = context.program("test_gpu"), shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not program or not os.path.exists(sanitizer):
        context.report.add(tool, None, reason="no test_gpu, or no compute-sanitizer")
        return
    done = run([sanitizer, "--tool", tool, "--error-exitcode", "97", program, "--gtest_filter=" + OUR_KERNELS])
    summary = [line.strip("= ") for line in done.stdout.split("\n") if "SUMMARY" in line]
    refusal = NO_SANITIZER.search(done.stdout + done.stderr)
    if refusal or not summary:
        context.report.add(tool, None, reason=f"compute-sanitizer cannot run here: {refusal.group(0) if refusal else 'it gave no summary'}")
        return
    # Without a GPU the tests skip themselves, and nothing was watched.
    watched = done.stdout.count("[       OK ] ")
    passed = done.returncode == 0 if done.returncode or watched else None
    context.report.add(tool, passed, summary=summary[-1], tests=watched)
    if passed is False:
        print(done.stdout[-4000:], flush=True)


def items(context):
    program = context.program("test_gpu")
    suites, listed = suites_of(program) if program else ([], None)
    found = [
        (SECTION_OF_SUITE.get(suite, "operators"), suite, SECONDS_OF_SUITE.get(suite, 10), lambda c, suite=suite: device_tests(c, suite))
        for suite in suites
    ]
    if not suites:
        print("test_gpu does not start, so the suites of the device tests are not listed", file=sys.stderr)
        found.append(("operators", "device tests", 1, lambda c: no_device_tests(c, listed)))
    found.append(("kernels", "times", 20, time_kernels))
    found.append(("kernels", "packed", 15, packed_attention))
    found.append(("profile", "counters", 150, profile))
    found += [("sanitizer", tool, 180, lambda c, tool=tool: sanitize(c, tool)) for tool in ("memcheck", "racecheck", "synccheck")]
    return found
