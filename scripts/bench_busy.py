#!/usr/bin/env python3
"""Step time alone and beside busy processes. Standard library only. For two builds see compare_speed.py.

    scripts/bench_busy.py CONFIG --busy 2 --busy 12              alone, beside 2, beside 12 processes that never wait
    scripts/bench_busy.py CONFIG --set sequence.max_length=256   any options of `lmtrain bench --set`

Each turn is one `lmtrain bench`, on random tokens. Figures are medians over turns of the median step, by length; a ratio is to
this program alone. N busy processes on N processors leave half of the machine: 2.0 is the best ratio there. Nothing else should run.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@contextlib.contextmanager
def busy(count):
    """`count` processes that never wait, at normal priority."""
    processes = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def bench(program, arguments):
    """Seconds a step, by length."""
    command = [program, "bench", arguments.config, "--json", "--steps", str(arguments.steps)]
    for setting in arguments.set:
        command += ["--set", setting]
    made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if made.returncode != 0:
        sys.exit(f"error: {program} bench ended with {made.returncode}: {made.stderr.decode()}")
    return {length["length"]: length["seconds"] for length in json.loads(made.stdout)["lengths"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("--lmtrain", default=os.path.join(REPO, "build", "lmtrain"))
    parser.add_argument("--busy", type=int, action="append", default=[], metavar="N", help="beside N busy processes; may be repeated")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10, help="of a length, in a turn")
    arguments = parser.parse_args()

    cases = {"alone": 0, **{f"beside {count}": count for count in arguments.busy}}
    seconds = {name: [] for name in cases}
    for turn in range(arguments.turns):
        for name in list(cases)[:: -1 if turn % 2 else 1]:
            with busy(cases[name]):
                seconds[name].append(bench(arguments.lmtrain, arguments))
    print(f"{os.cpu_count()} processors, {arguments.turns} turns of {arguments.steps} steps")
    for length in seconds["alone"][0]:
        alone = statistics.median(turn[length] for turn in seconds["alone"])
        for name, turns in seconds.items():
            values = sorted(turn[length] for turn in turns)
            median = statistics.median(values)
            print(f"length {length:5d}  {name:14s} {1e3 * median:9.2f} ms a step ({1e3 * values[0]:.2f} to {1e3 * values[-1]:.2f})"
                  f"  ratio {median / alone:.3f}")


if __name__ == "__main__":
    main()
