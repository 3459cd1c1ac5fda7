#!/usr/bin/env python3
"""Is the recipe the best near itself? Trains a config of one line, then the same with one choice changed, and prints how the losses differ.

    scripts/recipe_grid.py CORPUS --time 5min --work DIR [--seeds 1,2,3] [--peers]      all runs as long, in time
    scripts/recipe_grid.py CORPUS --tokens 1M --work DIR                                all runs as long, in FLOPs

CORPUS is what data.train takes. Around the recipe's own run: parameters x0.5 and x2, batch x0.5 and x2, all rates x0.7 and x1.4, weight decay
x0.3 and x3. A model of another size has the recipe's choices for that size. With --tokens it trains on as many tokens as cost the same. With
--peers, recipes of others, at four rates, on the recipe's model: nanoGPT's (AdamW, betas 0.9 and 0.95 or 0.99, cosine to a
tenth, clipping at 1) and HF Trainer's (AdamW, linear, no decay). --only NAME... trains these alone; --set KEY=VALUE goes to all.

With --time the tokens that each kind of run can train in it are measured first, by `lmtrain plan` in three rounds, some five minutes in all: the
machine must be idle for that (--measure does no more). The runs then train so many tokens, and their losses do not depend on the load. They may
train elsewhere: copy measured.json into --work of a machine with a GPU, and add --set device=cuda --set precision=fp32 --jobs 12. Each run is an
ordinary run folder below --work; one that has ended is not trained again, and one that was stopped goes on. Standard library alone.
"""

import argparse
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys

from run_files import read_json, write_json

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCALES = {"size": (0.5, 2), "batch": (0.5, 2), "rate": (0.7, 1.4), "decay": (0.3, 3)}
PEER_RATES = (5e-4, 1e-3, 2e-3, 4e-3)
ROUNDS = 3
RECIPE = "recipe"  # in measured.json: what --time gives the recipe; the other entries are parts of its tokens
# What a run's own config holds beside its choices.
NOT_CHOICES = ("name", "run_dir", "data", "seed", "train", "threads", "device")


def kind_of(name):
    """What a run is measured as; None where its steps cost what the recipe's cost."""
    what, _, _ = name.rpartition(" ")
    if what in ("rate", "decay"):
        return None
    return name if what in SCALES else what


class Grid:
    def __init__(self, options):
        self.options = options
        os.makedirs(options.work, exist_ok=True)
        self.measured_file = os.path.join(options.work, "measured.json")
        self.measured = read_json(self.measured_file) if os.path.exists(self.measured_file) else {}

    def write(self, name, seed, length, changes):
        """Writes the config of a run that is `length` long; (its path, the run's folder)."""
        folder = os.path.join(self.options.work, name.replace(" ", "_"), f"seed_{seed}")
        config = {"data": {"train": self.options.corpus, "cache_dir": os.path.join(self.options.work, "cache")}, "seed": seed}
        config |= {"train": length, "checkpoint": {"every": 0}, "eval": {"every": 0}, "log": {"tensorboard": False}} | changes
        path = folder + ".json"
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        if not os.path.exists(folder):  # a run keeps the config that it began with
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file, indent=1)
        return path, folder

    def plan(self, path):
        return json.loads(self.run_lmtrain(["plan", path, "--json"]))

    def run_lmtrain(self, words, ends_well=(0,)):
        """What the command prints; a message and the end where its exit code is another."""
        done = subprocess.run([self.options.lmtrain, *words], capture_output=True, text=True, check=False)
        if done.returncode not in ends_well:
            sys.exit(f"lmtrain {' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()[-800:]}")
        return done.stdout

    def recipe_settings(self):
        """(length, settings) of the recipe's run. What --time gives it is measured once, so that it may be trained on another machine."""
        if self.options.tokens:
            return {"tokens": self.options.tokens}, {}
        if RECIPE not in self.measured:
            rounds = []
            for _ in range(ROUNDS):
                path, _ = self.write("recipe measured", 0, {"time": self.options.time}, {})
                rounds.append(self.plan(path))
                print(f"recipe: {rounds[-1]['tokens']} tokens in {self.options.time}", file=sys.stderr, flush=True)
            plan = sorted(rounds, key=lambda plan: plan["tokens"])[ROUNDS // 2]
            self.measured[RECIPE] = {"tokens": plan["tokens"], "parameters": plan["parameters"]}
            self.keep_measured()
        measured = self.measured[RECIPE]
        return {"tokens": measured["tokens"]}, {"model": {"size": str(measured["parameters"])}}

    def keep_measured(self):
        write_json(self.measured_file, self.measured)

    def measure(self, points):
        """Measures how many tokens a run of each kind trains in --time, in parts of the recipe's run: medians of alternating rounds."""
        kinds = {kind_of(name): changes for name, changes, _ in points if kind_of(name)}
        missing = {kind: changes for kind, changes in kinds.items() if kind not in self.measured}
        if not missing:
            return
        missing[RECIPE] = self.recipe_settings()[1]
        rounds = {kind: [] for kind in missing}
        for _ in range(ROUNDS):
            for kind, changes in missing.items():
                path, _ = self.write(kind + " measured", 1, {"time": self.options.time}, changes)
                rounds[kind].append(self.plan(path)["tokens"])
                print(f"{kind}: {rounds[kind][-1]} tokens in {self.options.time}", file=sys.stderr, flush=True)
        own = statistics.median(rounds.pop(RECIPE))
        self.measured |= {kind: statistics.median(tokens) / own for kind, tokens in rounds.items()}
        self.keep_measured()

    def length(self, name, scale, base_tokens):
        """The settings of the length of a run as costly as the recipe's; its model is `scale` times as large."""
        if self.options.tokens:
            return {"tokens": round(self.options.tokens / scale)}
        kind = kind_of(name)
        return {"tokens": round(base_tokens * (self.measured[kind] if kind else 1))}

    def train(self, name, seed, changes, length):
        """Trains a run, unless it is there; (status, its own config)."""
        path, folder = self.write(name, seed, length, changes)
        status = os.path.join(folder, "status.json")
        if not os.path.exists(status) or read_json(status)["state"] != "done":
            changed = [word for change in self.options.set for word in ("--set", change)]
            self.run_lmtrain(["train", path, "--run-dir", folder, "--continue", *changed], ends_well=(0, 4))
        return read_json(status), read_json(os.path.join(folder, "config.json"))

    def explicit(self, base, change):
        """The recipe's own choices as given settings, changed by `change`."""
        config = {key: value for key, value in json.loads(json.dumps(base)).items() if key not in NOT_CHOICES}
        change(config)
        return config

    def points(self, base, parameters):
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
                    yield name, self.explicit(base, scaled(what, by)), 1.0
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

                yield f"{name} {rate:g}", self.explicit(base, change), 1.0

    def run(self):
        length, settings = self.recipe_settings()
        if self.options.measure:
            self.measure(self.points_beside(*self.plan_of_recipe(length, settings)))
            return
        if self.options.time:  # before any run is beside it
            seed = self.options.seeds[0]
            base = self.train(RECIPE, seed, settings, length)[1]
            self.measure(self.points_beside(base, self.parameters_of(seed)))
        pool = concurrent.futures.ThreadPoolExecutor(self.options.jobs)
        try:
            rows = self.train_all(pool, length, settings)
        finally:
            pool.shutdown(cancel_futures=True)  # after a failure no further run begins
        self.show(rows)

    def train_all(self, pool, length, settings):
        """{name: {seed: its loss and tokens}} in the order of the table."""
        started = {seed: pool.submit(self.train, RECIPE, seed, settings, length) for seed in self.options.seeds}
        runs = []  # (name, seed, its future) in the order of the table
        for seed, recipe in started.items():
            base = recipe.result()[1]
            runs.append((RECIPE, seed, recipe))
            points = self.points_beside(base, self.parameters_of(seed))
            for name, changes, scale in points:
                runs.append((name, seed, pool.submit(self.train, name, seed, changes, self.length(name, scale, base["train"]["tokens"]))))
        rows = {}
        for name, seed, future in runs:
            status, _ = future.result()
            rows.setdefault(name, {})[seed] = {"loss": status.get("eval_loss"), "tokens": status["tokens"]}
            print(f"{name}, seed {seed}: {status.get('eval_loss')}", file=sys.stderr, flush=True)
            if self.options.json:
                write_json(self.options.json, rows)
        return rows

    def parameters_of(self, seed):
        """Of the recipe's run, which has begun."""
        return self.plan(os.path.join(self.options.work, RECIPE, f"seed_{seed}", "config.json"))["parameters"]

    def plan_of_recipe(self, length, settings):
        """(the recipe's own config, its parameters): of a run that ends after its first step."""
        path, folder = self.write("recipe measured", 0, length, settings)
        config = os.path.join(folder, "config.json")
        if not os.path.exists(config):
            self.run_lmtrain(["train", path, "--run-dir", folder, "--set", "train.max_time=1s"], ends_well=(0, 75))
        return read_json(config), self.plan(config)["parameters"]

    def points_beside(self, base, parameters):
        return [point for point in self.points(base, parameters) if not self.options.only or point[0] in self.options.only]

    def show(self, rows):
        base = {seed: run["loss"] for seed, run in rows[RECIPE].items()}
        print("| | held-out loss | of the recipe's, % | tokens |\n|---|---|---|---|")
        for name, runs in rows.items():
            losses = {seed: run["loss"] for seed, run in runs.items()}
            if None in losses.values():
                print(f"| {name} | diverged | | |")
                continue
            part = ""  # the recipe itself diverged
            if None not in base.values():
                part = f"{100 * (statistics.mean(loss / base[seed] for seed, loss in losses.items()) - 1):+.2f}"
            tokens = statistics.mean(run["tokens"] for run in runs.values())
            print(f"| {name} | {', '.join(f'{loss:.4f}' for loss in losses.values())} | {part} | {tokens / 1e6:.2f}M |")


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
    parser.add_argument("--jobs", type=int, default=1, help="runs beside each other")
    parser.add_argument("--json", help="a file for the losses, as far as they are known")
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--lmtrain", default=os.path.join(REPO, "build", "lmtrain"))
    options = parser.parse_args()
    options.work = os.path.abspath(options.work)
    if os.path.exists(options.corpus):
        options.corpus = os.path.abspath(options.corpus)
    Grid(options).run()


if __name__ == "__main__":
    main()
