#!/usr/bin/env python3
"""Draws the step time of two machines against the rate of their link, measured and as the model says. Standard library only.

    scripts/check_two_machines.py --only slow --json slow.json
    scripts/plot_two_machines.py slow.json --to docs/images/two_machines.svg     # and prints the figures as Markdown
"""

import argparse
import json
import math

WIDTH, HEIGHT, LEFT, TOP, GAP = 330, 260, 60, 40, 90  # of a panel, in pixels
COLOURS = {"off": "#b6463b", "on": "#3b6fb6"}
NAMES = {"off": "sum after the backward", "on": "sum during the backward"}
STYLE = ("text{font:13px sans-serif;fill:#333}.title{font-weight:bold}.grid{stroke:#ddd}"
         "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}}")


def text(x, y, words, anchor="middle", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{words}</text>'


def panel(shard, points, left, top_ms):
    rates = [point["rate"] for point in points]
    span = math.log(max(rates) / min(rates)) or 1
    at_x = lambda rate: left + 12 + (WIDTH - 24) * math.log(rate / min(rates)) / span
    at_y = lambda seconds: TOP + HEIGHT - HEIGHT * 1000 * seconds / top_ms
    parts = [text(left + WIDTH / 2, 26, f"parallel.shard {shard}", more=' class="title"')]
    for mark in range(0, int(top_ms) + 1, max(1, int(top_ms / 5 / 50)) * 50):
        y = at_y(mark / 1000)
        parts.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(text(left - 8, y + 4, mark, "end"))
    for rate in rates:
        parts.append(text(at_x(rate), TOP + HEIGHT + 20, f"{rate:g}"))
    parts.append(text(left + WIDTH / 2, TOP + HEIGHT + 42, "Mbit/s each way"))
    for key, colour in COLOURS.items():
        line = lambda name: " ".join(f"{at_x(point['rate']):.1f},{at_y(point[name]):.1f}" for point in points)
        parts.append(f'<polyline points="{line("model_" + key)}" fill="none" stroke="{colour}" stroke-dasharray="4 4" opacity="0.7"/>')
        parts.append(f'<polyline points="{line(key)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{at_x(point["rate"]):.1f}" cy="{at_y(point[key]):.1f}" r="3" fill="{colour}"/>' for point in points]
    return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", metavar="FILE.json")
    parser.add_argument("--to", required=True, metavar="FILE.svg")
    parser.add_argument("--delay", type=float, default=0, help="of the points that are drawn, in ms; default: 0")
    arguments = parser.parse_args()
    with open(arguments.points) as file:
        points = sorted((point for point in json.load(file) if point.get("delay", 0) == arguments.delay), key=lambda point: point["rate"])
    shards = sorted({point["shard"] for point in points})
    top_ms = 1.05 * 1000 * max(point[key] for point in points for key in ("off", "on", "model_off", "model_on"))
    body = []
    for number, shard in enumerate(shards):
        body += panel(shard, [point for point in points if point["shard"] == shard], LEFT + number * (WIDTH + GAP), top_ms)
    width, height = LEFT + len(shards) * (WIDTH + GAP), TOP + HEIGHT + 84
    for number, (key, name) in enumerate(NAMES.items()):
        x, y = LEFT + number * 230, height - 18
        body.append(f'<line x1="{x}" x2="{x + 24}" y1="{y - 4}" y2="{y - 4}" stroke="{COLOURS[key]}" stroke-width="2"/>')
        body.append(text(x + 30, y, name, "start"))
    body.append(text(LEFT + 470, height - 18, "step in ms; dashed: the model", "start"))
    with open(arguments.to, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
                   f"<style>{STYLE}</style>\n" + "\n".join(body) + "\n</svg>\n")
    print("| `parallel.shard` | Mbit/s | after | during | model: after | during |\n|---|---|---|---|---|---|")
    for point in sorted(points, key=lambda point: (point["shard"], point["rate"])):
        times = " | ".join(f"{1000 * point[key]:.0f}" for key in ("off", "on", "model_off", "model_on"))
        print(f"| `{point['shard']}` | {point['rate']:g} | {times} |")


if __name__ == "__main__":
    main()
