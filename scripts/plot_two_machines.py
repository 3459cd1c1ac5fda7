#!/usr/bin/env python3
"""Draws the step time of two machines against the rate of their link, measured and as the model says: a panel for each parallel.shard
and delay. Standard library only.

    scripts/check_two_machines.py --only slow --json slow.json
    scripts/plot_two_machines.py slow.json --to docs/images/two_machines.svg     # and prints the figures as Markdown
"""

import argparse
import json
import math

WIDTH, HEIGHT, LEFT, TOP, GAP = 330, 200, 60, 40, 90  # of a panel, in pixels
COLOUR = "#3b6fb6"
STYLE = ("text{font:13px sans-serif;fill:#333}.title{font-weight:bold}.grid{stroke:#ddd}"
         "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}}")


def text(x, y, words, anchor="middle", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{words}</text>'


def panel(title, points, left, top, top_ms):
    rates = [point["rate"] for point in points]
    span = math.log(max(rates) / min(rates)) or 1
    at_x = lambda rate: left + 12 + (WIDTH - 24) * math.log(rate / min(rates)) / span
    at_y = lambda seconds: top + HEIGHT - HEIGHT * 1000 * seconds / top_ms
    parts = [text(left + WIDTH / 2, top - 14, title, more=' class="title"')]
    for mark in range(0, int(top_ms) + 1, max(1, int(top_ms / 5 / 50)) * 50):
        y = at_y(mark / 1000)
        parts.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(text(left - 8, y + 4, mark, "end"))
    for rate in rates:
        parts.append(text(at_x(rate), top + HEIGHT + 20, f"{rate:g}"))
    parts.append(text(left + WIDTH / 2, top + HEIGHT + 42, "Mbit/s each way"))
    line = lambda name: " ".join(f"{at_x(point['rate']):.1f},{at_y(point[name]):.1f}" for point in points)
    parts.append(f'<polyline points="{line("model")}" fill="none" stroke="{COLOUR}" stroke-dasharray="4 4" opacity="0.7"/>')
    parts.append(f'<polyline points="{line("step")}" fill="none" stroke="{COLOUR}" stroke-width="2"/>')
    parts += [f'<circle cx="{at_x(point["rate"]):.1f}" cy="{at_y(point["step"]):.1f}" r="3" fill="{COLOUR}"/>' for point in points]
    return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", metavar="FILE.json")
    parser.add_argument("--to", required=True, metavar="FILE.svg")
    arguments = parser.parse_args()
    with open(arguments.points) as file:
        points = sorted(json.load(file), key=lambda point: (point["shard"], point["delay"], point["rate"]))
    shards, delays = (sorted({point[key] for point in points}) for key in ("shard", "delay"))
    top_ms = 1.05 * 1000 * max(point[key] for point in points for key in ("step", "model"))
    body = []
    for column, shard in enumerate(shards):
        for row, delay in enumerate(delays):
            body += panel(f"parallel.shard {shard}, {delay:g} ms each way",
                          [point for point in points if (point["shard"], point["delay"]) == (shard, delay)],
                          LEFT + column * (WIDTH + GAP), TOP + row * (HEIGHT + GAP), top_ms)
    width, height = LEFT + len(shards) * (WIDTH + GAP), TOP + len(delays) * (HEIGHT + GAP) + 30
    body.append(text(LEFT, height - 18, "step in ms; dashed: the model", "start"))
    with open(arguments.to, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
                   f"<style>{STYLE}</style>\n" + "\n".join(body) + "\n</svg>\n")
    print("| `parallel.shard` | delay, ms | Mbit/s | step, ms | model |\n|---|---|---|---|---|")
    for point in points:
        times = " | ".join(f"{1000 * point[key]:.0f}" for key in ("step", "model"))
        print(f"| `{point['shard']}` | {point['delay']:g} | {point['rate']:g} | {times} |")


if __name__ == "__main__":
    main()
