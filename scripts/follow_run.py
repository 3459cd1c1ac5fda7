"""A run folder followed while it is written: for scripts that pass a run on to a tracker of experiments. Standard library only.

A Follower reads metrics.jsonl, events.jsonl and status.json of a run, in progress or finished, and never writes into the folder. A
resume cuts metrics.jsonl back to its checkpoint, and so does a rollback of the guard. The steps after it come again: those with the
same loss are not reported again, those with another loss are, marked `again`.
"""

import argparse
import array
import dataclasses
import json
import math
import os
import signal
import sys
import time

from run_files import read_object

READ_AT_ONCE = 1 << 20
FINISHED = ("done", "diverged")  # nothing goes on with such a run by itself
USAGE = 2


@dataclasses.dataclass(frozen=True)
class Record:
    """A line of the run folder."""

    kind: str            # "update", "evaluation" or "event"
    line: dict
    again: bool = False  # the step was reported before, with another loss


class LineFile:
    """The whole lines of a file that others append to, cut back or replace."""

    def __init__(self, path):
        self.path = path
        self.offset, self.last = 0, b""  # where the lines that were read end, and the last of them

    def read(self):
        """New lines, as bytes, some at a time; from the first line on when the file is no longer the one that was read."""
        try:
            file = open(self.path, "rb")
        except FileNotFoundError:
            return []
        with file:
            file.seek(max(0, self.offset - len(self.last)))
            if file.read(len(self.last)) != self.last:
                self.offset, self.last = 0, b""
            file.seek(self.offset)
            data = file.read(READ_AT_ONCE)
            if b"\n" not in data:
                data += file.readline()  # one line that is longer
        lines = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)
        if lines:
            self.offset, self.last = self.offset + sum(map(len, lines)), lines[-1]
        return lines

    def objects(self):
        """The JSON objects of all new lines; a line that a crash left damaged is passed over."""
        while lines := self.read():
            for line in lines:
                try:
                    value = json.loads(line)
                except ValueError:
                    continue
                if isinstance(value, dict):
                    yield value


class Follower:
    def __init__(self, folder):
        self.folder = folder
        self.metrics = LineFile(os.path.join(folder, "metrics.jsonl"))
        self.events = LineFile(os.path.join(folder, "events.jsonl"))
        self.losses = array.array("d")  # of update n at n - 1, as reported; NaN: not finite
        self.evaluations = {}           # step -> held-out loss, likewise

    def config(self):
        return read_object(os.path.join(self.folder, "config.json"))

    def status(self):
        return read_object(os.path.join(self.folder, "status.json"))

    def identity(self):
        """Which run this is, also after the folder was moved."""
        return (self.config().get("identity") or {}).get("run") or os.path.abspath(self.folder)

    def name(self):
        """Name of the folder; of a sweep's run (POINT/seed_N) with the point."""
        path, last = os.path.split(os.path.abspath(self.folder))
        return f"{os.path.basename(path)}/{last}" if last == "run" or last.startswith("seed_") else last

    def records(self):
        """Records that are new since the last call, updates and evaluations in the order of the file, then events."""
        for line in self.metrics.objects():
            record = self.metric(line)
            if record:
                yield record
        for event in self.events.objects():
            yield Record("event", event)

    def metric(self, line):
        """The record of a line of metrics.jsonl; None where it says nothing new."""
        step = line.get("step")
        if not isinstance(step, int):
            return None
        if "seq_len" in line:
            loss = as_float(line.get("loss"))
            again = 0 < step <= len(self.losses)
            if again and same(self.losses[step - 1], loss):
                return None
            self.took_update(step, loss)
            return Record("update", line, again)
        if "eval_loss" in line:
            loss = as_float(line["eval_loss"])
            again = step in self.evaluations
            if again and same(self.evaluations[step], loss):
                return None
            self.took_evaluation(step, loss)
            return Record("evaluation", line, again)
        return None

    def took_update(self, step, loss):
        """The tracker has the loss of this update."""
        self.losses.extend([math.nan] * (step - len(self.losses)))
        self.losses[step - 1] = loss

    def took_evaluation(self, step, loss):
        self.evaluations[step] = loss


def as_float(value):
    return float(value) if isinstance(value, (int, float)) else math.nan


def same(first, second):
    return first == second or (math.isnan(first) and math.isnan(second))


def numbers_of(record):
    """{name: number} of an update or evaluation, under the names that TensorBoard has; what is not finite is left out."""
    numbers = {}
    for key, value in record.line.items():
        if key == "step" or not isinstance(value, (int, float)):
            continue
        if record.kind == "update":
            numbers[f"train/{key}"] = value
        elif key != "tokens":
            numbers["eval/" + key.replace("eval_", "", 1)] = value
    return numbers


def flat(value, prefix=""):
    """{"optimizer.lr": 0.001, ...} of a config."""
    if not isinstance(value, dict):
        return {prefix: value}
    leaves = {}
    for key, inner in value.items():
        leaves |= flat(inner, f"{prefix}.{key}" if prefix else key)
    return leaves


def follow(follower, send, once, seconds):
    """Calls send(records) until the run is done or has diverged, or once. Returns its last state.

    A run that was stopped or killed may go on, so it is waited for. SIGTERM is a KeyboardInterrupt, as Ctrl-C is.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    while True:
        state = follower.status().get("state")  # read first: what is written after a final state is nothing
        send(follower.records())
        if once or state in FINISHED:
            return state
        time.sleep(seconds)


def parser(description):
    """The command line that the trackers share."""
    result = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("run_dir", metavar="RUN_DIR", help="a run folder; one that is not there yet is waited for")
    result.add_argument("--once", action="store_true", help="pass on what is there, and end")
    result.add_argument("--name", help="of the run in the tracker (default: that of its folder)")
    result.add_argument("--project", default="lmtrain", help="project or experiment (default lmtrain)")
    result.add_argument("--seconds", type=float, default=5.0, help="between two looks at the folder (default 5)")
    return result


def missing(package, script):
    """Ends the script: its package is not there."""
    print(f"{script} needs the Python package {package.split('[')[0]}, which this Python ({sys.executable}) does not have. "
          f"Put it into an environment of your own:\n"
          f"  python3 -m venv ~/trackers && ~/trackers/bin/pip install {package}\n"
          f"  ~/trackers/bin/python {script} ...", file=sys.stderr)
    sys.exit(USAGE)


def run_there(options):
    """The follower of the run, once its config.json is there."""
    follower = Follower(options.run_dir)
    if not follower.config() and options.once:
        print(f"{options.run_dir} holds no run: it has no config.json", file=sys.stderr)
        sys.exit(USAGE)
    if not follower.config():
        print(f"waiting for a run in {options.run_dir}", file=sys.stderr)
    while not follower.config():
        time.sleep(options.seconds)
    return follower
