#!/usr/bin/env python3
"""Is the training step of one build as fast as that of others?

Trains the same config with each build, all at once, but lets only one of them run at a time: the others are stopped (SIGSTOP). The turns last a
few steps, so that all meet the same noise of the machine; the first step of a turn is not counted. Prints the median time of a step of each
build, the median over the rounds of its ratio to the first build, and that median's standard error (bootstrap).
Nothing else should run on the machine meanwhile.

    scripts/compare_speed.py CONFIG NAME=PROGRAM NAME=PROGRAM... [--rounds 60] [--steps 4] [--set KEY=VALUE]... [--env NAME:VARIABLE=VALUE]...
"""
import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time


class Run:
    """One build that trains; stopped but for its turns."""

    def __init__(self, name, program, arguments, folder):
        self.name = name
        self.metrics = os.path.join(folder, name, "metrics.jsonl")
        environment = dict(os.environ)
        for item in arguments.env:
            owner, _, setting = item.partition(":")
            if owner == name:
                environment.update([setting.split("=", 1)])
        command = [program, "train", arguments.config, "--run-dir", os.path.join(folder, name)]
        settings = ["train.epochs=null", "train.tokens=1B", "log.every=1", "log.tensorboard=false", "eval.every=1B",
                    f"data.cache_dir={folder}/cache_{name}"]
        for setting in settings + arguments.set:
            command += ["--set", setting]
        self.log = open(os.path.join(folder, f"{name}.log"), "w")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=environment)
        self.file = None
        self.seconds = []
        self.wait_for_steps(3)
        self.stop()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def wait_for_steps(self, count):
        """Returns when so many steps more have been written."""
        while count > 0:
            if self.process.poll() is not None:
                sys.exit(f"{self.name} ended: {open(self.log.name).read()[-400:]}")
            if self.file is None and os.path.exists(self.metrics):
                self.file = open(self.metrics, "rb")
            line = self.file.readline() if self.file else b""
            if b'"step"' in line and b'"lr"' in line:
                count -= 1
            elif not line:
                time.sleep(0.0005)

    def take_turn(self, steps):
        self.process.send_signal(signal.SIGCONT)
        self.wait_for_steps(2)  # the step that was interrupted, and one that finds the caches cold
        begin = time.monotonic()
        self.wait_for_steps(steps)
        self.seconds.append((time.monotonic() - begin) / steps)
        self.stop()


def standard_error(values):
    draw = random.Random(1)
    return statistics.stdev(statistics.median(draw.choices(values, k=len(values))) for _ in range(1000))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("builds", nargs="+", metavar="NAME=PROGRAM")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--steps", type=int, default=4, help="steps that are timed in a turn")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for all builds (may be repeated)")
    parser.add_argument("--env", action="append", default=[], metavar="NAME:VARIABLE=VALUE", help="for one build (may be repeated)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = [Run(*build.split("=", 1), arguments, folder) for build in arguments.builds]
        try:
            for turn in range(arguments.rounds):
                first = turn % len(runs)
                for run in runs[first:] + runs[:first]:
                    run.take_turn(arguments.steps)
        finally:
            for run in runs:
                run.process.kill()
                run.process.wait()
        print("| build | ms a step, median | least | ratio to the first | standard error |\n|---|---|---|---|---|")
        for run in runs:
            ratios = [mine / other for mine, other in zip(run.seconds, runs[0].seconds)]
            milliseconds = [1e3 * seconds for seconds in run.seconds]
            print(f"| {run.name} | {statistics.median(milliseconds):.1f} | {min(milliseconds):.1f} | {statistics.median(ratios):.4f} "
                  f"| {standard_error(ratios) if len(ratios) > 1 else 0:.4f} |")


if __name__ == "__main__":
    main()
