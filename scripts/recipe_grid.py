#!/usr/bin/env python3
"""Is the recipe the best near itself? Trains a config of one line, then the same with one choice changed, and prints how the losses differ.

    scripts/recipe_grid.py CORPUS --time 5min --work DIR [--seeds 1,2,3] [--peers]      all runs as long, in time
    scripts/recipe_grid.py CORPUS --tokens 1M --work DIR                                all runs as long, in FLOPs

CORPUS is what data.train takes. Around the recipe's own run: parameters x0.5 and x2, batch x0.5 and x2, all rates x0.7 and x1.4, weight decay
x0.3 and x3. A model of another size has the recipe's choices for that size. With --tokens it trains on as many tokens as cost the same. With
--peers, recipes of others, at their best of three rates, on the recipe's model: nanoGPT's (AdamW, betas 0.9 and 0.95 or 0.99, cosine to a
tenth, clipping at 1) and HF Trainer's (AdamW, linear, no decay). --only NAME... trains these alone; --set KEY=VALUE goes to all.

With --time run it on an idle machine: what a run learns depends on how far it comes. With --tokens losses do not depend on the load. Each run is an
ordinary run folder below --work; one that has ended is not trained again, and one that was stopped goes on. Standard library alone.
"""

import argparse
import json
import os
import subprocess
import sys

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCALES = {"size": (0.5, 2), "batch": (0.5, 2), "rate": (0.7, 1.4), "decay": (0.3, 3)}
PEER_RATES = (5e-4, 1e-3, 2e-3)
# What a run's own config holds beside its choices.
NOT_CHOICES = ("name", "run_dir", "data", "seed", "train", "threads", "device")


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Grid:
    def __init__(self, options):
        self.options = options
        os.makedirs(options.work, exist_ok=True)

    def length(self, scale=1.0):
        """The settings of the length of a run that costs as much as one of --tokens, for a model `scale` times as large."""
        if self.options.time:
            return {"time": self.options.time}
        return {"tokens": round(self.options.tokens / scale)}

    def train(self, name, seed, changes, scale=1.0):
        """Trains a run, unless it is there; (status, its own config)."""
        folder = os.path.join(self.options.work, name, f"seed_{seed}")
        config = {"data": {"train": self.options.corpus, "cache_dir": os.path.join(self.options.work, "cache")}, "seed": seed}
        config |= {"train": self.length(scale), "checkpoint": {"every": 0}, "eval": {"every": 0}, "log": {"tensorboard": False}} | changes
        path = folder + ".json"
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        if not os.path.exists(folder):  # a run keeps the config that it began with
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file, indent=1)
        status = os.path.join(folder, "status.json")
        if not os.path.exists(status) or read_json(status)["state"] != "done":
            command = [self.options.lmtrain, "train", path, "--run-dir", folder, "--continue"]
            command += [word for change in self.options.set for word in ("--set", change)]
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode not in (0, 4):
                sys.exit(f"{name}, seed {seed}: exit code {done.returncode}: {done.stderr.strip()[-800:]}")
        return read_json(status), read_json(os.path.join(folder, "config.json"))

    def explicit(self, seed, base, change):
        """The recipe's own choices as given settings, changed by `change`."""
        config = {key: value for key, value in json.loads(json.dumps(base)).items() if key not in NOT_CHOICES}
        change(config)
        return config

    def points(self, seed, base, parameters):
        """(name, settings, size in parts of the base's) of every run beside the base."""

        def scaled(what, by):
            def change(config):
                if what == "batch":
                    config["batch"]["tokens"] = max(config["sequence"]["max_length"], round(config["batch"]["tokens"] * by))
                    config["batch"].pop("micro_tokens", None)
                elif what == "decay":
                    config["optimizer"]["weight_decay"] *= by
                else:
                    config["optimizer"]["lr"] *= by
                    for group in config["optimizer"]["groups"]:
                        if "lr" in group:
                            group["lr"] *= by

            return change

        for what, scales in SCALES.items():
            for by in scales:
                name = f"{what} x{by:g}"
                if what == "size":
                    yield name, {"model": {"size": str(round(parameters * by))}}, by
                else:
                    yield name, self.explicit(seed, base, scaled(what, by)), 1.0
        if not self.options.peers:
            return
        for rate in PEER_RATES:
            for name, optimizer, schedule, batch in (
                ("nanoGPT", {"betas": [0.9, 0.99], "weight_decay": 0.1}, {"type": "cosine", "warmup": "5%", "min_ratio": 0.1}, 16384),
                ("HF Trainer", {"betas": [0.9, 0.999], "weight_decay": 0}, {"type": "linear", "warmup": 0, "min_ratio": 0}, 8192),
            ):

                def change(config, optimizer=optimizer, schedule=schedule, batch=batch, rate=rate):
                    config["optimizer"] = {"type": "adamw", "lr": rate, **optimizer}
                    config["lr_schedule"] = schedule
                    config["batch"] = {"tokens": batch}
                    config["sequence"] = {"max_length": 1024, "batching": "concat"}
                    config["model"]["initializer"] = "normal"

                yield f"{name} {rate:g}", self.explicit(seed, base, change), 1.0

    def run(self):
        rows = {}
        for seed in self.options.seeds:
            status, base = self.train("recipe", seed, {})
            parameters = self.parameters(seed)
            rows.setdefault("recipe", []).append((status.get("eval_loss"), status["tokens"], base))
            for name, changes, scale in self.points(seed, base, parameters):
                if self.options.only and name not in self.options.only:
                    continue
                status, config = self.train(name.replace(" ", "_"), seed, changes, scale)
                rows.setdefault(name, []).append((status.get("eval_loss"), status["tokens"], config))
                self.show(rows)
        self.show(rows, last=True)

    def parameters(self, seed):
        done = subprocess.run([self.options.lmtrain, "plan", os.path.join(self.options.work, "recipe", f"seed_{seed}", "config.json"), "--json"],
                              capture_output=True, text=True, check=False)  # fmt: skip
        if done.returncode != 0:
            sys.exit(f"lmtrain plan: {done.stderr.strip()[-500:]}")
        return json.loads(done.stdout)["parameters"]

    def show(self, rows, last=False):
        if not last:
            name, runs = next(reversed(rows.items()))
            print(f"{name}: {runs[-1][0]}", file=sys.stderr, flush=True)
            return
        base = [loss for loss, _, _ in rows["recipe"]]
        print("| | held-out loss | of the recipe's, % | tokens |\n|---|---|---|---|")
        for name, runs in rows.items():
            losses = [loss for loss, _, _ in runs]
            if None in losses:
                print(f"| {name} | diverged | | |")
                continue
            part = 100 * (sum(a / b for a, b in zip(losses, base)) / len(losses) - 1)
            tokens = sum(tokens for _, tokens, _ in runs) / len(runs)
            print(f"| {name} | {', '.join(f'{loss:.4f}' for loss in losses)} | {part:+.2f} | {tokens / 1e6:.2f}M |")


def tokens_of(text):
    scale = {"K": 1e3, "M": 1e6, "B": 1e9}.get(text[-1:].upper(), 1)
    return round(float(text[:-1] if scale != 1 else text) * scale)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--time")
    length.add_argument("--tokens", type=tokens_of)
    parser.add_argument("--work", required=True)
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[1])
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--lmtrain", default=os.path.join(REPO, "build", "lmtrain"))
    options = parser.parse_args()
    options.work = os.path.abspath(options.work)
    if os.path.exists(options.corpus):
        options.corpus = os.path.abspath(options.corpus)
    Grid(options).run()


if __name__ == "__main__":
    main()
