#!/usr/bin/env python3
"""How the cost of a step grows: time of 8192 tokens against row length, depth and width, beside what FLOPs predict. Standard library only.

    scripts/bench_scaling.py measure length depth width --precision bf16 --to scaling.json     # any of the three; adds to the file
    scripts/bench_scaling.py plot scaling.json --to scaling.svg                               # and prints the figures as Markdown

Measured with `lmtrain bench`, on random tokens: a Llama with 6 layers, hidden size 256 and vocabulary 8192, rows of 256 to 4096;
then 2 to 12 layers, then hidden sizes 128 to 768, at rows of 512. The prediction takes the time of one point (rows of 512, 6
layers, hidden size 256) and the model FLOPs of the others, 6N + 6LDT a token. Run it on an idle machine.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOKENS = 8192
BASE = {"length": 512, "depth": 6, "width": 256}
POINTS = {"length": [256, 512, 1024, 2048, 4096], "depth": [2, 4, 6, 8, 12], "width": [128, 256, 384, 512, 768]}
NAMES = {"length": "row length", "depth": "layers", "width": "hidden size"}
COLOURS = {"fp32": "#3b6fb6", "bf16": "#d1622b", "fp16": "#3c8d53"}
WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 280, 60, 40, 70


def config(depth, width, longest, shortest, precision):
    return {
        "precision": precision,
        "data": {"train": ["none: bench reads no data"]},
        "sequence": {"max_length": longest, "min_length": shortest},
        "model": {
            "hidden_size": width, "intermediate_size": width * 11 // 4, "num_hidden_layers": depth, "vocab_size": 8192,
            "num_attention_heads": width // 64, "num_key_value_heads": width // 64,
        },
        "batch": {"tokens": TOKENS, "micro_tokens": TOKENS},
    }


def bench(arguments, settings):
    """The document that `lmtrain bench --json` prints."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "scaling.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(settings, file)
        command = [arguments.lmtrain, "bench", path, "--json", "--steps", str(arguments.steps)]
        made = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if made.returncode != 0:
        sys.exit(f"error: lmtrain bench ended with {made.returncode}")
    return json.loads(made.stdout)


def measure(arguments):
    document = {"compute": None, "points": []}
    if os.path.exists(arguments.to):
        with open(arguments.to, encoding="utf-8") as file:
            document = json.load(file)
    for part in arguments.parts:
        runs = []  # of settings and the value of the axis; none: its own length
        if part == "length":
            runs.append((config(BASE["depth"], BASE["width"], POINTS[part][-1], POINTS[part][0], arguments.precision), None))
        for value in POINTS[part] if part != "length" else []:
            shape = dict(BASE, **{part: value})
            runs.append((config(shape["depth"], shape["width"], BASE["length"], BASE["length"], arguments.precision), value))
        points = []
        for settings, value in runs:
            result = bench(arguments, settings)
            document["compute"] = result["compute"]
            for row in result["lengths"]:
                points.append({"part": part, "precision": result["precision"], "value": value or row["length"],
                               "parameters": result["parameters"], "matmul_rate": result["matmul_flops_per_second"], **row})
        measured = {(part, point["precision"]) for point in points}
        document["points"] = [p for p in document["points"] if (p["part"], p["precision"]) not in measured] + points
        with open(arguments.to, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.write("\n")


def with_prediction(points, part):
    """[(value, seconds, predicted seconds, point)] of one line."""
    base = next(point for point in points if point["value"] == BASE[part])
    rate = base["seconds"] / base["flops_per_token"]
    return [(point["value"], point["seconds"], rate * point["flops_per_token"], point) for point in points]


def lines_of(document):
    """{part: {precision: line}}"""
    lines = {}
    for part in POINTS:
        for precision in COLOURS:
            points = [p for p in document["points"] if p["part"] == part and p["precision"] == precision]
            if points:
                points.sort(key=lambda point: point["value"])
                lines.setdefault(part, {})[precision] = with_prediction(points, part)
    return lines


def panel(part, lines, left):
    """Axes with logarithmic scales: measured times as lines with dots, predicted ones dashed."""
    rows = [row for line in lines.values() for row in line]
    low = math.log(min(min(row[1], row[2]) for row in rows) / 1.2)
    high = math.log(max(max(row[1], row[2]) for row in rows) * 1.2)
    first, last = math.log(rows[0][0]), math.log(max(row[0] for row in rows))
    x_of = lambda value: left + WIDTH * (0.04 + 0.92 * (math.log(value) - first) / (last - first))
    y_of = lambda seconds: TOP + HEIGHT * (high - math.log(seconds)) / (high - low)
    out = [f'<text x="{left + WIDTH / 2}" y="{TOP - 14}" text-anchor="middle" class="title">time against {NAMES[part]}</text>']
    tick = 10.0 ** math.floor(low / math.log(10))
    while math.log(tick) <= high:
        for factor in (1, 2, 5):
            seconds = factor * tick
            if low <= math.log(seconds) <= high:
                out.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y_of(seconds):.1f}" y2="{y_of(seconds):.1f}" class="grid"/>')
                out.append(f'<text x="{left - 8}" y="{y_of(seconds) + 4:.1f}" text-anchor="end">{1e3 * seconds:g}</text>')
        tick *= 10
    for value in POINTS[part]:
        out.append(f'<text x="{x_of(value):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{value}</text>')
    out.append(f'<text x="{left + WIDTH / 2}" y="{TOP + HEIGHT + 38}" text-anchor="middle">{NAMES[part]}</text>')
    for precision, line in lines.items():
        colour = COLOURS[precision]
        path = lambda column: " ".join(f"{x_of(row[0]):.1f},{y_of(row[column]):.1f}" for row in line)
        out.append(f'<polyline points="{path(2)}" fill="none" stroke="{colour}" stroke-dasharray="4 4" opacity="0.7"/>')
        out.append(f'<polyline points="{path(1)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for value, seconds, _, _ in line:
            out.append(f'<circle cx="{x_of(value):.1f}" cy="{y_of(seconds):.1f}" r="3" fill="{colour}"/>')
    return out


def plot(arguments):
    try:
        with open(arguments.data, encoding="utf-8") as file:
            lines = lines_of(json.load(file))
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"error: {arguments.data}: {error}")
    if not lines:
        sys.exit(f"error: {arguments.data}: nothing measured")
    body, left = [], LEFT
    for part, of_part in lines.items():
        body += panel(part, of_part, left)
        left += WIDTH + GAP
    y = TOP + HEIGHT + 64
    precisions = [precision for precision in COLOURS if any(precision in of_part for of_part in lines.values())]
    for i, precision in enumerate(precisions):
        x = LEFT + 110 * i
        body.append(f'<line x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}" stroke="{COLOURS[precision]}" stroke-width="3"/>')
        body.append(f'<text x="{x + 32}" y="{y + 4}">{precision}</text>')
    body.append(f'<text x="{LEFT + 110 * len(precisions)}" y="{y + 4}">milliseconds of {TOKENS} tokens; dashed: in proportion to FLOPs</text>')
    style = (
        "text{font:13px sans-serif;fill:#333}.title{font-weight:bold}.grid{stroke:#ddd}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}}"
    )
    width, height = left, y + 20
    with open(arguments.to, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
                   f"<style>{style}</style>\n" + "\n".join(body) + "\n</svg>\n")
    print("| | precision | ms of 8192 tokens | tokens/s | of the prediction by FLOPs | of the best matmul | peak MB |\n|---|---|---|---|---|---|---|")
    for part, of_part in lines.items():
        for precision, line in of_part.items():
            for value, seconds, predicted, point in line:
                print(f"| {NAMES[part]} {value} | {precision} | {1e3 * seconds:.0f} ({1e3 * point['seconds_min']:.0f}-{1e3 * point['seconds_max']:.0f}) | "
                      f"{point['tokens_per_second']:.0f} | {predicted / seconds:.2f} | {100 * point['of_matmul_rate']:.0f} % | {point['peak_memory'] / 1e6:.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("parts", nargs="+", choices=list(POINTS))
    measuring.add_argument("--precision", default="auto")
    measuring.add_argument("--steps", type=int, default=5)
    measuring.add_argument("--to", required=True, metavar="FILE.json")
    measuring.add_argument("--lmtrain", default=os.path.join(REPO, "build", "lmtrain"))
    plotting = commands.add_parser("plot")
    plotting.add_argument("data", metavar="FILE.json")
    plotting.add_argument("--to", required=True, metavar="FILE.svg")
    arguments = parser.parse_args()
    measure(arguments) if arguments.command == "measure" else plot(arguments)


if __name__ == "__main__":
    main()
