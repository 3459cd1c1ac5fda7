#!/usr/bin/env python3
"""Whether two builds of lmtrain compute the same bits. Standard library only.

    scripts/compare_builds.py OLD/lmtrain NEW/lmtrain                 every case, 50 steps each
    scripts/compare_builds.py OLD/lmtrain NEW/lmtrain --only muon     the cases whose names contain this
    scripts/compare_builds.py OLD/lmtrain NEW/lmtrain --processes 2   each run in so many processes, of one thread each

Each case trains a small run with both, every optimizer, precision, batching, schedule of lengths and of the learning rate among them,
and compares: loss, gradient norm and learning rate of each step, held-out losses, weights and optimizer state of each checkpoint, token
shards and tokenizers, and `plan --json`. Times, estimates of bytes and paths are left out. A field of metrics or plan that one build never
writes is named and not compared. Exit status 1 when anything differs.
"""

import argparse
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Settings over the config below, by the name of the case.
CASES = {
    "adamw": ["optimizer.type=adamw"],
    "lion": ["optimizer.type=lion", "optimizer.lr=3e-4"],
    "ademamix": ["optimizer.type=ademamix"],
    "muon": ["optimizer.type=muon", "optimizer.lr=5e-3"],
    "soap": ["optimizer.type=soap", "optimizer.lr=1e-3"],
    "normuon": ["optimizer.type=muon", "optimizer.lr=5e-3", "optimizer.normuon=true", "optimizer.cautious_decay=true"],
    "sgd": ["optimizer.type=sgd", "optimizer.lr=0.3"],
    "rmsprop": ["optimizer.type=rmsprop"],
    "adam": ["optimizer.type=adam"],
    "adopt": ["optimizer.type=adopt"],
    "mars": ["optimizer.type=mars"],
    "bf16": ["precision=bf16"],
    "fp16": ["precision=fp16"],
    "eager": ["compile=eager"],
    "pad": ["sequence.batching=pad"],
    "pack": ["sequence.batching=pack"],
    "concat": ["sequence.batching=concat"],
    "grow_p2": ["sequence.schedule.type=grow_p2"],
    "grow_linear": ["sequence.schedule.type=grow_linear"],
    "constant_lr": ["lr_schedule.type=constant"],
    "natural": ["sequence.schedule.type=natural"],
    "constant": ["sequence.schedule.type=constant"],
    "linear": ["sequence.schedule.type=linear"],
    "root": ["sequence.schedule.type=root"],
    "step": ["sequence.schedule.type=step", "sequence.schedule.lengths=[32,64]", 'sequence.schedule.boundaries=["20%","60%"]'],
    "cosine": ["lr_schedule.type=cosine"],
    "sqrt": ["lr_schedule.type=sqrt"],
    "lr_linear": ["lr_schedule.type=linear"],
    "wsd": ["lr_schedule.type=wsd"],
    "clip_value": ["clip.type=value", "clip.max=0.01"],
    "tokens": ["train.steps=null", "train.tokens=20K"],
    "epochs": ["train.steps=null", "train.epochs=0.3"],
    "checkpointing": ["model.activation_checkpointing=true"],
    "tied_gqa": ["model.tie_word_embeddings=true", "model.num_key_value_heads=1"],
    "restart": ["restart.seeds=2", 'restart.tokens="10%"'],
    "unigram": ["tokenizer.train.type=unigram"],
}


# Of a plan: estimates of what a checkpoint takes on the disk, and of what a run takes in memory.
BYTES = ("checkpoint_bytes", "memory")


# The fields of metrics.jsonl that say how long something took.
TIMES = ("tokens_per_second", "mfu", "elapsed", "slowest_rank", "slowest_seconds", "communication_share")


def small_config(corpus, cache, steps, threads=2):
    """A config for the settings of CASES: a run of seconds."""
    return {
        "name": "compare", "seed": 7, "threads": threads, "precision": "fp32",
        "tokenizer": {"train": {"vocab_size": 512, "sample": "1MB"}},
        "data": {"train": os.path.abspath(corpus), "cache_dir": cache, "eval_fraction": 0.1},
        "sequence": {"max_length": 128, "min_length": 16, "batching": "bucket"},
        "model": {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4},
        "batch": {"tokens": 512}, "optimizer": {"lr": 1e-3}, "train": {"steps": steps},
        "eval": {"every": "25 steps", "tokens": "8K"}, "checkpoint": {"every": "25 steps", "keep": 9, "keep_best": 0},
        "log": {"tensorboard": False}}


def results(folder):
    """By file: the lines of metrics.jsonl without their times, and hashes of weights, optimizer state, shards and tokenizers."""
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            key = os.path.relpath(path, folder)
            if name == "metrics.jsonl":
                with open(path) as file:
                    lines = [json.loads(line) for line in file]
                found[key] = [{k: v for k, v in line.items() if k not in TIMES} for line in lines]
            elif name.endswith((".safetensors", ".tokens", ".model")) or "/shards/" in key and name.endswith(".bin"):
                with open(path, "rb") as file:
                    found[key] = hashlib.sha256(file.read()).hexdigest()
    return found


def fields(value, name=""):
    """The names of all fields in JSON: {"a.b", "a.c"}."""
    if isinstance(value, list):
        return set().union(*(fields(item, name) for item in value))
    if isinstance(value, dict):
        return set().union(*({f"{name}{key}"} | fields(item, f"{name}{key}.") for key, item in value.items()))
    return set()


def without(value, left_out, name=""):
    """JSON without the fields of these names."""
    if isinstance(value, list):
        return [without(item, left_out, name) for item in value]
    if isinstance(value, dict):
        return {key: without(item, left_out, f"{name}{key}.") for key, item in value.items() if f"{name}{key}" not in left_out}
    return value


def compare(old, new):
    """The things that differ, and the fields that only one of two results has."""
    wrong, lonely = [], set()
    for key in sorted(old.keys() | new.keys()):
        before, now = old.get(key), new.get(key)
        only = fields(before) ^ fields(now)
        lonely |= only
        if without(before, only) != without(now, only):
            wrong.append(key)
    return wrong, lonely


def train(command, count, folder):
    """Runs the command in `count` processes. Returns the worst exit code, and what the processes wrote to standard error."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} if count > 1 else {}
    ranks = []
    for rank in range(count):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)} if count > 1 else {}
        with open(os.path.join(folder, f"errors.{rank}"), "w") as errors:
            ranks.append(subprocess.Popen(command, env=os.environ | shared | own, stdout=subprocess.DEVNULL, stderr=errors))
    codes = [process.wait() for process in ranks]
    said = []
    for rank in range(count):
        with open(os.path.join(folder, f"errors.{rank}"), errors="replace") as errors:
            said += errors.read().splitlines()
    return max(codes, key=abs), said


def run(arguments, program, settings, folder):
    """Trains in `folder`; returns what is compared, or the error that it ended with."""
    config = os.path.join(folder, "config.json")
    threads = 2 if arguments.processes == 1 else 1
    with open(config, "w") as file:
        json.dump(small_config(arguments.corpus, os.path.join(folder, "cache"), arguments.steps, threads), file)
    options = [option for setting in settings for option in ("--set", setting)]
    run_dir = os.path.join(folder, "run")

    code, said = train([program, "train", config, "--run-dir", run_dir, *options], arguments.processes, folder)
    if code != 0:
        return {"error": f"exit {code}: {said[-1].replace(folder, 'FOLDER') if said else ''}"}
    made = subprocess.run([program, "plan", config, "--json", *options], capture_output=True, text=True, check=True)
    plan = json.loads(made.stdout.replace(folder, "FOLDER"))
    return results(folder) | {"plan": {key: value for key, value in plan.items() if key not in BYTES}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--corpus", default=os.path.join(REPO, "docs", "**", "*.md"), help="text to train on")
    arguments = parser.parse_args()
    cases = {name: settings for name, settings in CASES.items() if not arguments.only or any(part in name for part in arguments.only)}
    if not cases:
        parser.error(f"no case has {' or '.join(arguments.only)} in its name; there are: {' '.join(CASES)}")
    differing, failing, lonely = 0, 0, set()
    for name, settings in cases.items():
        found = []
        for program in (arguments.old, arguments.new):
            with tempfile.TemporaryDirectory() as folder:
                found.append(run(arguments, program, settings, folder))
        old, new = found
        wrong, only = compare(old, new)
        lonely |= only
        differing += bool(wrong)
        failing += not wrong and "error" in old
        said = f"BOTH FAIL: {old['error']}" if "error" in old else f"equal ({len(old)} things)"
        print(f"{name}: " + (f"DIFFERS in {', '.join(wrong)}" if wrong else said), flush=True)
    if lonely:
        print("fields of one build alone: " + ", ".join(sorted(lonely)))
    print(f"{len(cases)} cases, {differing} differ, {failing} fail in both")
    sys.exit(1 if differing or failing else 0)


if __name__ == "__main__":
    main()
