#!/usr/bin/env python3
"""Held-out loss of runs against tokens and against training time, as one SVG. Standard library only.

    scripts/plot_runs.py --to curves.svg NAME=RUN_DIR[,RUN_DIR...] ...

Several folders of one name are seeds of the same thing: their mean is a line, their range a band (at the points that
all of them have). Time is `elapsed` of metrics.jsonl: training alone, without evaluation and saving.
"""

import argparse
import html
import math
import sys

from run_files import evaluations

COLOURS = ["#3b6fb6", "#d1622b", "#3c8d53", "#9b4fa5", "#a8812a", "#4aa3a8", "#b6405c", "#6b6b6b"]
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, GAP = 460, 320, 60, 40, 50, 40


def curve(folders, column):
    """[(x, mean, lowest, highest)] over the seeds of one thing; x is their mean too, for seeds stop at steps of their own."""
    runs = [[point for point in evaluations(folder) if point[0] > 0] for folder in folders]  # without the untrained model
    length = min(len(run) for run in runs)
    result = []
    for i in range(length):
        losses = [run[i][2] for run in runs]
        x = sum(run[i][column] for run in runs) / len(runs)
        result.append((x, sum(losses) / len(losses), min(losses), max(losses)))
    return result


def round_steps(low, high, about):
    """Round numbers that divide [low, high] into about that many parts."""
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def short(value):
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"


def panel(curves, left, title, x_name):
    """One pair of axes with a line and a band a curve."""
    points = [point for _, line in curves for point in line]
    x_high = max(point[0] for point in points)
    # The first evaluations of a run are so high that nothing else could be told apart.
    y_low = min(point[2] for point in points)
    y_high = max(line[min(1, len(line) - 1)][3] for _, line in curves)
    y_high += 0.05 * (y_high - y_low) or 1.0
    y_low -= 0.05 * (y_high - y_low)
    x_of = lambda x: left + WIDTH * x / x_high
    y_of = lambda y: TOP + HEIGHT * (y_high - max(y_low, min(y, y_high))) / (y_high - y_low)
    out = [f'<text x="{left + WIDTH / 2}" y="{TOP - 14}" text-anchor="middle" class="title">{title}</text>']
    for y in round_steps(y_low, y_high, 6):
        out.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y_of(y):.1f}" y2="{y_of(y):.1f}" class="grid"/>')
        out.append(f'<text x="{left - 8}" y="{y_of(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in round_steps(0, x_high, 5):
        out.append(f'<text x="{x_of(x):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{short(x)}</text>')
    out.append(f'<text x="{left + WIDTH / 2}" y="{TOP + HEIGHT + 38}" text-anchor="middle">{x_name}</text>')
    for (_, line), colour in zip(curves, COLOURS):
        band = [(x, low) for x, _, low, _ in line] + [(x, high) for x, _, _, high in reversed(line)]
        coordinates = lambda pairs: " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in pairs)
        out.append(f'<polygon points="{coordinates(band)}" fill="{colour}" opacity="0.18"/>')
        out.append(f'<polyline points="{coordinates([p[:2] for p in line])}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN_DIR[,RUN_DIR...]")
    parser.add_argument("--to", required=True, metavar="FILE.svg")
    arguments = parser.parse_args()
    if len(arguments.runs) > len(COLOURS):
        parser.error(f"at most {len(COLOURS)} names fit into one picture")
    folders = {}
    for run in arguments.runs:
        name, equals, paths = run.partition("=")
        if not equals:
            parser.error(f"{run}: give NAME=RUN_DIR")
        folders[name] = paths.split(",")
    try:
        by_tokens = [(name, curve(paths, 0)) for name, paths in folders.items()]
        by_time = [(name, curve(paths, 1)) for name, paths in folders.items()]
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"error: {error}")
    for name, line in by_tokens:
        if not line:
            sys.exit(f"error: {name}: no evaluation in metrics.jsonl")
    legend_top = TOP + HEIGHT + BOTTOM + 10
    right = LEFT + WIDTH + GAP + LEFT
    body = panel(by_tokens, LEFT, "held-out loss against tokens", "tokens trained")
    body += panel(by_time, right, "held-out loss against time", "seconds of training")
    for i, (name, line) in enumerate(by_tokens):
        y = legend_top + 20 * i
        body.append(f'<line x1="{LEFT}" x2="{LEFT + 24}" y1="{y}" y2="{y}" stroke="{COLOURS[i]}" stroke-width="3"/>')
        label = f"{name}: {line[-1][1]:.3f}" + (f" ({line[-1][2]:.3f}-{line[-1][3]:.3f})" if len(folders[name]) > 1 else "")
        body.append(f'<text x="{LEFT + 32}" y="{y + 4}">{html.escape(label)}</text>')
    width, height = right + WIDTH + 20, legend_top + 20 * len(by_tokens)
    style = (
        "text{font:13px sans-serif;fill:#333}.title{font-weight:bold}.grid{stroke:#ddd}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}}"
    )
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    with open(arguments.to, "w", encoding="utf-8") as file:
        file.write("\n".join([svg, f"<style>{style}</style>", *body, "</svg>"]) + "\n")


if __name__ == "__main__":
    main()
