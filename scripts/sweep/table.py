"""The table of a sweep: what its runs came to, point by point, as numbers and as text."""

import collections
import statistics

from run_files import crossing, paired, standard_error


def rows_of(runs, base, target):
    """A row (dict) for each point, the best mean first; those without a finished run last."""
    points = collections.defaultdict(list)
    for run in runs:
        points[run.point].append(run)
    losses = {point: {run.seed: run.loss() for run in ours if run.loss() is not None} for point, ours in points.items()}
    rows = [row_of(point, ours, losses[point], losses.get(base), target) for point, ours in points.items()]
    return sorted(rows, key=lambda row: (row["eval_loss"] is None, row["eval_loss"], row["point"]))


def row_of(point, runs, losses, base, target):
    done = [run for run in runs if run.state() == "done"]
    statuses = [run.status() for run in done]
    seconds, steps = [run.seconds() for run in done], sum(status["step"] for status in statuses)
    row = {
        "point": point,
        "runs": len(runs),
        "done": len(done),
        "states": {run.seed: run.state() for run in runs},
        "losses": losses,
        "eval_loss": mean(losses.values()),
        "standard_error": standard_error(list(losses.values())),
        "tokens": mean(status["tokens"] for status in statuses),
        "seconds": mean(seconds),
        "step_seconds": sum(seconds) / steps if steps else None,
        "state_bytes": done[-1].state_bytes() if done else None,
    }
    if base is not None:
        difference = paired(losses, base)
        row["difference"] = difference and dict(zip(("mean", "standard_error", "pairs"), difference))
    if target is not None:
        crossings = [crossing(run.evaluations(), target) for run in done]
        reached = [one for one in crossings if one]
        row["target"] = {"reached": len(reached), "tokens": mean(one[0] for one in reached), "seconds": mean(one[1] for one in reached)}
    return row


def mean(values):
    values = list(values)
    return statistics.fmean(values) if values else None


def short(number):
    """1.23M"""
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return f"{number:.0f}"


def shown(number, form):
    return "-" if number is None else form.format(number)


def cells_of(row, base, target):
    others = collections.Counter(state for state in row["states"].values() if state != "done")
    cells = [
        row["point"],
        ", ".join([f"{row['done']} of {row['runs']}"] + [f"{number} {state}" for state, number in sorted(others.items())]),
        shown(row["eval_loss"], "{:.4f}"),
        shown(row["standard_error"], "{:.4f}"),
    ]
    if base is not None:
        difference = row.get("difference") or {"mean": None, "standard_error": None, "pairs": 0}
        own = row["point"] == base
        cells += ["base" if own else shown(difference["mean"], "{:+.4f}"), "" if own else shown(difference["standard_error"], "{:.4f}")]
    if target is not None:
        reached = row["target"]["reached"]
        part = f" ({reached} of {row['done']})" if 0 < reached < row["done"] else ""
        cells += [(short(row["target"]["tokens"]) if reached else "-") + part, shown(row["target"]["seconds"], "{:.1f}")]
    return cells + [
        "-" if row["tokens"] is None else short(row["tokens"]),
        shown(row["seconds"], "{:.1f}"),
        shown(row["step_seconds"] and 1e3 * row["step_seconds"], "{:.1f}"),
        shown(row["state_bytes"] and row["state_bytes"] / 1e6, "{:.1f}"),
    ]


def table_text(rows, base, target):
    heads = ["point", "runs", "held-out loss", "std error"]
    if base is not None:
        heads += ["to base", "std error"]
    if target is not None:
        heads += [f"tokens to {target:g}", f"s to {target:g}"]
    heads += ["tokens", "s trained", "ms a step", "state MB"]
    return aligned([heads] + [cells_of(row, base, target) for row in rows])


def aligned(lines):
    """Lines of cells as text: the first two columns begin together, the others end together."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = []
    for line in lines:
        cells = [cell.ljust(width) if column < 2 else cell.rjust(width) for column, (cell, width) in enumerate(zip(line, widths))]
        text.append("  ".join(cells).rstrip())
    return "\n".join(text)
