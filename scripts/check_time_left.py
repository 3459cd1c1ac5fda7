#!/usr/bin/env python3
"""How right is the time left that a run says?

Trains small runs that differ in the order of lengths, the batching, evaluations and saves, reads the progress
lines as they come, and compares the time left with what it then was. A run passes when its line after a tenth of its time is
right within 15 %. Nothing else should run on the machine meanwhile.

    scripts/check_time_left.py [--seconds 30] [--only NAME]... [--corpus GLOB]
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
LINE = re.compile(r"^step \d+/\d+ .*  (\S+) elapsed  (\S+) left$")

# Settings over the config below, by the name of the run.
RUNS = {
    "grow_p2": ["sequence.schedule.type=grow_p2"],
    "grow_p2_one_cycle": ["sequence.schedule.type=grow_p2", "sequence.schedule.cycles=1"],
    "grow_linear": ["sequence.schedule.type=grow_linear", "sequence.schedule.cycles=1"],
    "linear": ["sequence.schedule.type=linear"],
    "root_pack": ["sequence.schedule.type=root", "sequence.batching=pack"],
    "natural": ["sequence.schedule.type=natural"],
    "pad": ["sequence.schedule.type=constant", "sequence.batching=pad"],
    "concat_linear": ["sequence.schedule.type=linear", "sequence.batching=concat"],
    "many_evaluations": ["eval.every=2%", "eval.tokens=50K"],
    "epochs_many_saves": ["checkpoint.every=1%", "optimizer.type=muon", "optimizer.lr=5e-3", "log.every=1"],
}


def seconds_of(text):
    return sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)([dhms])", text))


def run(arguments, name, settings, work):
    length = [f"train.tokens={int(arguments.seconds * arguments.rate)}"]
    if name.startswith("epochs"):
        length = ["train.tokens=null", f"train.epochs={arguments.epochs}"]
    base = ["precision=auto", "tokenizer.train.vocab_size=4096", "tokenizer.train.sample=4MB", f"data.train={arguments.corpus}",
            f"data.cache_dir={work}/cache", "sequence.max_length=1024", "sequence.min_length=64", "model.hidden_size=128",
            "model.intermediate_size=352", "model.num_hidden_layers=4", "batch.tokens=4096", "log.every=2", "log.tensorboard=false"]
    config = os.path.join(work, "config.json")
    with open(config, "w") as file:
        file.write('{"name": "time_left", "data": {"train": "replaced"}}')
    command = [arguments.lmtrain, "train", config, "--run-dir", os.path.join(work, name)]
    for setting in base + length + settings:
        command += ["--set", setting]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    lines, said = [], []
    for line in process.stderr:
        said.append(line)
        match = LINE.match(line.rstrip("\n"))
        if match:
            lines.append((time.monotonic(), seconds_of(match[1]), seconds_of(match[2])))
    process.wait()
    end = time.monotonic()
    if process.returncode != 0 or not lines:
        sys.exit(f"{name} ended with {process.returncode}:\n{''.join(said[-5:])}")
    total = lines[-1][1] + end - lines[-1][0]
    errors = []
    for part in (0.1, 0.25, 0.5):
        now, elapsed, left = next(line for line in lines if line[1] >= part * total)
        errors.append(left / (end - now) - 1)
    return total, errors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lmtrain", default=os.path.join(ROOT, "build", "lmtrain"))
    parser.add_argument("--corpus", default=os.path.join(os.environ.get("LMTRAIN_CORPUS", ""), "**/*.py"), help="files to train on")
    parser.add_argument("--seconds", type=float, default=30, help="about how long each run shall be")
    parser.add_argument("--rate", type=float, default=40_000, help="tokens a second, for that")
    parser.add_argument("--epochs", default="0.05", help="of the run that counts epochs")
    parser.add_argument("--only", action="append", choices=RUNS, help="this run (may be repeated)")
    parser.add_argument("--work", help="keep cache and runs here")
    arguments = parser.parse_args()
    failed = 0
    print("| run | seconds | error at 10 % | at 25 % | at 50 % |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for name in arguments.only or RUNS:
            total, errors = run(arguments, name, RUNS[name], arguments.work or temporary)
            failed += abs(errors[0]) > 0.15
            print(f"| {name} | {total:.0f} | {' | '.join(f'{100 * error:+.0f} %' for error in errors)} |", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
