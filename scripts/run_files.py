"""Files of run folders, curves in them, and statistics over seeds, for the scripts beside it. Standard library only.

Losses are in nats a target; seconds are `elapsed` of metrics.jsonl: training alone, without evaluations and saves.
"""

import json
import math
import os
import statistics


def read_object(path):
    """The object of a JSON file; {} where there is none, or none that can be read."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_json(path, value):
    """A kill leaves the old file, or the new one."""
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
    os.replace(path + ".tmp", path)


def json_lines(path):
    """The objects of a file of JSON lines. A line counts only with its newline: a kill may leave a torn one."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                row = json.loads(line) if line.endswith("\n") else None
            except ValueError:
                continue  # resume takes a damaged line out
            if isinstance(row, dict):
                yield row


def evaluations(folder):
    """[(tokens, seconds, held-out loss)] of a run, the untrained model at 0 tokens included; losses that are not finite left out."""
    points, seconds = [], 0.0
    for row in json_lines(os.path.join(folder, "metrics.jsonl")):
        seconds = row.get("elapsed", seconds)
        if row.get("eval_loss") is not None:
            points.append((row["tokens"], seconds, row["eval_loss"]))
    return points


def crossing(curve, loss):
    """(tokens, seconds) at which the curve first reaches the loss, between two evaluations by straight lines; None: it does not."""
    for i, (tokens, seconds, now) in enumerate(curve):
        if now > loss:
            continue
        if i == 0:
            return tokens, seconds
        before = curve[i - 1]
        part = (before[2] - loss) / (before[2] - now)
        return tuple(before[k] + part * (curve[i][k] - before[k]) for k in (0, 1))
    return None


def standard_error(values):
    """Standard error of the mean; None for fewer than two values, or values that are not finite."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return None
    return statistics.stdev(values) / math.sqrt(len(values))


def paired(losses, base):
    """(mean difference to the base, its standard error, pairs) over the seeds of both {seed: loss}; None without a pair."""
    differences = [losses[seed] - base[seed] for seed in losses if seed in base]
    if not differences:
        return None
    return statistics.fmean(differences), standard_error(differences), len(differences)
