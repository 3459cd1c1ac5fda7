#!/usr/bin/env python3
"""Whether several processes, started by a real launcher, compute the bits of one, and go on to the same end when they are killed.
Standard library only; the launcher must be there (torchrun comes with PyTorch, mpirun with Open MPI).

    scripts/check_processes.py                                 every case with 1, 2 and 4 processes of torchrun
    scripts/check_processes.py --only muon --counts 1,2        the cases whose names contain this
    scripts/check_processes.py --launcher "mpirun -n {count}"  another launcher
    scripts/check_processes.py --kills 100 --count 4           SIGKILL of a random rank at random moments, so many times in all

A case trains a small run with parallel.sum exact under each number of processes, and compares with the run of one process without a
launcher: loss, gradient norm and learning rate of each step, held-out losses, weights and optimizer state of each checkpoint. The case
`fast` compares losses alone, and prints how far they are apart; the case `other_parts` must differ, since its gradient is summed in other parts.

With --kills, runs go on under `torchrun --max-restarts` with `train --continue`, unattended, until all kills were made; a rank is killed
some time between its start and --window seconds later. Each run must end with exit status 0 and the bits of one that nobody disturbed.
Exit status 1 when anything differs.
"""

import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time

from compare_builds import CASES, REPO, results, small_config

MORE_CASES = {
    "clipped": ["clip.max=0.2"],
    "rollback": ["guard.on_spike=rollback", "guard.spike_sigma=2.5", "guard.window=8"],
    "pack_muon_bf16": ["sequence.batching=pack", "optimizer.type=muon", "precision=bf16", "sequence.schedule.type=linear"],
    "pad_lion_natural": ["sequence.batching=pad", "optimizer.type=lion", "optimizer.lr=3e-4", "sequence.schedule.type=natural"],
    "concat_soap": ["sequence.batching=concat", "optimizer.type=soap", "optimizer.lr=1e-3"],
}
FAST_TOLERANCE = 1e-6
LOST = 300  # seconds in which a run must end or start its processes again


def environment():
    return os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def options_of(settings):
    return [option for setting in settings for option in ("--set", setting)]


class Bench:
    """A folder with a config and a cache that all runs share."""

    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.config = os.path.join(folder, "config.json")
        with open(self.config, "w") as file:
            json.dump(small_config(arguments.corpus, os.path.join(folder, "cache"), arguments.steps, threads=1), file)

    def command(self, run, settings):
        return [self.arguments.lmtrain, "train", self.config, "--run-dir", os.path.join(self.folder, run)] + options_of(settings)

    def results(self, run):
        return results(os.path.join(self.folder, run))

    def train(self, run, settings, count=None):
        """Trains, under the launcher where a count is given. Returns the results, or what the program said where it failed."""
        launcher = shlex.split(self.arguments.launcher.format(count=count)) if count else []
        made = subprocess.run(launcher + self.command(run, settings), env=environment(), capture_output=True, text=True, timeout=LOST,
                              check=False)
        return self.results(run) if made.returncode == 0 else {"error": f"exit {made.returncode}: {made.stderr[-2000:]}"}


def differences(found, expected):
    """The names of the files that differ; what a failed run said."""
    if "error" in found or "error" in expected:
        return [result["error"] for result in (found, expected) if "error" in result]
    return sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))


def largest_loss_difference(found, expected):
    """Over the updates of both; none where these are not the same steps."""
    lines = [[line for line in run["metrics.jsonl"] if "grad_norm" in line] for run in (found, expected)]
    if [line["step"] for line in lines[0]] != [line["step"] for line in lines[1]]:
        return None
    return max(abs(a["loss"] - b["loss"]) for a, b in zip(*lines))


def check_bits(bench, counts, only):
    exact = ["parallel.sum=exact", "parallel.parts=4"]
    cases = {name: settings + exact for name, settings in (CASES | MORE_CASES).items()} | {"fast": [], "other_parts": exact}
    wrong = 0
    chosen = {name: settings for name, settings in cases.items() if not only or any(part in name for part in only)}
    if not chosen:
        sys.exit(f"no case has {' or '.join(only)} in its name; there are: {' '.join(cases)}")
    for name, settings in chosen.items():
        said = []
        one = bench.train(f"{name}-one", settings)
        for count in counts:
            more = ["parallel.parts=8"] if name == "other_parts" else []
            found = bench.train(f"{name}-{count}", settings + more, count)
            files = differences(found, one)
            if name == "other_parts":
                good, words = bool(files) and "error" not in found, "differs" if files else "DOES NOT DIFFER"
            elif name == "fast" and "error" not in found and "error" not in one:
                apart = largest_loss_difference(found, one)
                good, words = apart is not None and apart <= FAST_TOLERANCE, f"losses {apart} apart"
            else:
                good, words = not files, f"DIFFERS: {'; '.join(files)}" if files else "equal"
            wrong += not good
            said.append(f"{count}: {words}")
        print(f"{name}: {', '.join(said)}", flush=True)
    return wrong


def processes_of(launcher, program):
    """The descendants of the launcher that run the program, by /proc."""
    parents, found = {}, []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as file:
                parents[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
            if os.readlink(f"/proc/{entry}/exe") == program:
                found.append(int(entry))
        except OSError:
            continue  # it has ended

    def descends(process):
        while process in parents:
            process = parents[process]
            if process == launcher:
                return True
        return False

    return sorted(process for process in found if descends(process))


class Killer:
    """Kills one rank of every set of processes that a launcher starts, some time after their start."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.random = random.Random(arguments.seed)
        self.program = os.path.realpath(arguments.lmtrain)
        self.kills = 0

    def disturb(self, launch):
        """Until the launch ends, or all kills are made. Whether it was not lost."""
        known, seen = set(), time.monotonic()
        while launch.poll() is None and time.monotonic() - seen < LOST:
            ranks = processes_of(launch.pid, self.program)
            if self.kills >= self.arguments.kills or not set(ranks) - known:
                time.sleep(0.02)
                continue
            known |= set(ranks)
            seen = time.monotonic()
            time.sleep(self.random.uniform(0, self.arguments.window))
            ranks = processes_of(launch.pid, self.program)
            known |= set(ranks)
            if ranks:
                os.kill(self.random.choice(ranks), signal.SIGKILL)
                self.kills += 1
        return launch.poll() is not None


def check_kills(bench, arguments):
    settings = ["parallel.sum=exact", "parallel.parts=4", "checkpoint.every=5 steps"] + arguments.set
    expected = bench.train("undisturbed", settings)
    if "error" in expected:
        sys.exit(f"the undisturbed run failed: {expected['error']}")
    killer, runs, wrong, began = Killer(arguments), 0, 0, time.monotonic()
    launcher = shlex.split(arguments.launcher.format(count=arguments.count)) + ["--max-restarts", "100000"]
    while killer.kills < arguments.kills:
        runs += 1
        before = killer.kills
        log = os.path.join(bench.folder, f"run-{runs}.log")
        with open(log, "w") as output:
            launch = subprocess.Popen(launcher + bench.command(f"run-{runs}", settings) + ["--continue"], env=environment(), stdout=output,
                                      stderr=output)
            ended = killer.disturb(launch)
            if not ended:
                launch.terminate()
                launch.wait()
        files = differences(bench.results(f"run-{runs}"), expected) if launch.returncode == 0 else [f"exit {launch.returncode}, see {log}"]
        if not ended:
            files = [f"nothing happened for {LOST} s, see {log}"]
        wrong += bool(files)
        print(f"run {runs}: {killer.kills - before} kills, " + (f"DIFFERS: {'; '.join(files)}" if files else "equal"), flush=True)
        if files and killer.kills == before:
            sys.exit(f"the launcher ends before a process of the run can be killed; see {log} (keep it with --folder)")
    seconds = time.monotonic() - began
    print(f"{killer.kills} kills of {arguments.count} processes in {runs} runs, {seconds / killer.kills:.1f} s each; {wrong} runs differ")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launcher", default="torchrun --standalone --nproc-per-node {count} --no-python", help="default: %(default)s")
    parser.add_argument("--lmtrain", default=os.path.join(REPO, "build", "lmtrain"))
    parser.add_argument("--counts", default="1,2,4", help="numbers of processes, powers of two up to 4")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--steps", type=int, help="default: 50, and 1500 with --kills")
    parser.add_argument("--corpus", default=os.path.join(REPO, "docs", "**", "*.md"), help="text to train on")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--count", type=int, default=2, help="of processes, with --kills")
    parser.add_argument("--window", type=float, default=5, help="seconds")
    parser.add_argument("--seed", type=int, default=1, help="of the random moments and ranks")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting, with --kills")
    parser.add_argument("--folder", help="where the runs lie and stay; default: a temporary folder")
    arguments = parser.parse_args()
    arguments.steps = arguments.steps or (1500 if arguments.kills else 50)
    with tempfile.TemporaryDirectory() as temporary:
        if arguments.folder:
            os.makedirs(arguments.folder, exist_ok=True)
        bench = Bench(arguments, os.path.abspath(arguments.folder or temporary))
        if arguments.kills:
            wrong = check_kills(bench, arguments)
        else:
            wrong = check_bits(bench, [int(count) for count in arguments.counts.split(",")], arguments.only)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
