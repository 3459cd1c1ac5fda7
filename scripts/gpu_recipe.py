"""Checks of scripts/gpu_check.py that train many small runs beside each other: the recipe against its neighbours, and forecasts against their runs.

What they tell are losses, which depend neither on the load nor on the machine: a GPU trains in minutes what two processors train in a day. The text
is the Python of the installed torch, and each folder of LMTRAIN_TEXTS (paths, ":" between them).
"""

import concurrent.futures
import contextlib
import json
import os
import shutil
import subprocess
import sys

from gpu_benchmarks import corpus
from gpu_programs import kill_with_descendants, run
from gpu_training import write_config

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GRID_TOKENS, REHEARSED_TOKENS = "4.5M", "20K"  # of the recipe's run: five minutes of two processors
GRID_SEEDS = "1,2,3"
FORECASTS = (8_000_000, 16_000_000, 32_000_000)  # tokens of the runs that are foretold
VOCABULARY = 1024  # of the forecasts: a tenth of such runs then pays for rungs of 800 steps
PROCESSORS_OF_A_RUN = 1.3


def given_texts():
    """{name: folder} of LMTRAIN_TEXTS."""
    return {os.path.basename(path.rstrip("/")): path for path in os.environ.get("LMTRAIN_TEXTS", "").split(":") if path}


def text_of(context, name):
    """What data.train takes."""
    return given_texts().get(name) or os.path.join(corpus(context), "**", "*.py")


def jobs():
    return max(1, int(len(os.sched_getaffinity(0)) / PROCESSORS_OF_A_RUN))


@contextlib.contextmanager
def one_context(context):
    """Variables with which the kernels of several processes run beside each other (NVIDIA's MPS), where that is to be had; else they take turns."""
    control = shutil.which("nvidia-cuda-mps-control") if context.on_gpu else None
    folder = os.path.join(context.work, "mps")
    variables = os.environ | {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    os.makedirs(folder, exist_ok=True)
    if not control or subprocess.run([control, "-d"], env=variables, capture_output=True, check=False).returncode != 0:
        yield os.environ
        return
    try:
        trial = write_config(os.path.join(context.work, "mps.json"), base_config(context, os.path.join(REPO, "data", "sample")) | {
            "tokenizer": {"train": {"vocab_size": 512}}, "train": {"tokens": 10000}, "model": {"size": "0.3M"}})
        done = run([context.lmtrain, "train", trial, "--run-dir", os.path.join(context.work, "mps_run")], env=variables)
        yield variables if done.returncode == 0 else os.environ
    finally:
        subprocess.run([control], input="quit\n", text=True, env=variables, capture_output=True, check=False)


def base_config(context, text):
    return {"data": {"train": text, "cache_dir": os.path.join(context.work, "cache")}, "device": context.device, "precision": "fp32",
            "threads": 1, "log": {"tensorboard": False}, "checkpoint": {"every": 0, "keep_best": 0}}


def grid(context, name):
    """Held-out losses of the recipe and of its neighbours, as scripts/recipe_grid.py has them; a row a choice, also where the time ends early."""
    result = os.path.join(context.work, f"grid_{name}.json")
    command = [sys.executable, os.path.join(REPO, "scripts", "recipe_grid.py"), text_of(context, name), "--work", os.path.join(context.work, f"grid_{name}"),
               "--json", result, "--lmtrain", context.lmtrain, "--set", f"device={context.device}", "--set", "precision=fp32", "--set", "threads=1"]
    if context.on_gpu:
        command += ["--tokens", GRID_TOKENS, "--seeds", GRID_SEEDS, "--peers", "--jobs", str(jobs())]
    else:
        command += ["--tokens", REHEARSED_TOKENS, "--only", "rate x1.4", "--jobs", "2", "--set", "tokenizer.train.vocab_size=512"]
    try:
        with one_context(context) as variables:
            done = run(command, env=variables)
        if done.returncode != 0:
            context.report.add(name, False, exit_code=done.returncode, reason=done.stderr.strip()[-500:])
    finally:
        add_rows(context, name, result)


def add_rows(context, name, path):
    try:
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)
    except FileNotFoundError:
        return
    for choice, runs in rows.items():
        losses = {seed: one["loss"] for seed, one in runs.items()}
        pairs = [loss / rows["recipe"][seed]["loss"] for seed, loss in losses.items() if loss and rows.get("recipe", {}).get(seed, {}).get("loss")]
        against = 100 * (sum(pairs) / len(pairs) - 1) if pairs and choice != "recipe" else None
        context.report.add(f"{name}, {choice}", "measured", of_the_recipes_percent=against, seeds=len(losses), losses=losses, runs=runs)


def forecast(context, name):
    """Ladders of a tenth of the cost, and the runs that they foretell: how far off, and whether inside of the interval of 80 %."""
    if not context.on_gpu:
        context.report.add(f"{name}, forecasts", None, reason="a ladder takes a CPU too long")
        return
    with one_context(context) as variables, concurrent.futures.ThreadPoolExecutor(len(FORECASTS)) as pool:
        started = []  # of the processes, which are ended with this item
        told = [pool.submit(foretell, context, name, tokens, variables, started) for tokens in FORECASTS]
        try:
            for one in concurrent.futures.as_completed(told):
                context.report.add(**one.result())
        except BaseException:
            context.memo["recipe is over"] = True
            for process in started:
                kill_with_descendants(process.pid)
            raise


def foretell(context, name, tokens, variables, started):
    """The row of a forecast and its run."""
    label = f"{name}, {tokens // 1_000_000}M"
    folder = os.path.join(context.work, f"forecast_{name}_{tokens}")
    config = base_config(context, text_of(context, name)) | {"tokenizer": {"train": {"vocab_size": VOCABULARY}}, "train": {"tokens": tokens}}
    path = write_config(folder + ".json", config)
    ladder = ["forecast", path, "--to", folder, "--json"]
    target = ["train", path, "--run-dir", folder + "_run", "--set", f"forecast={folder}"]
    for words in (ladder, target):
        if context.memo.get("recipe is over"):
            raise InterruptedError("the time of the item is over")
        with open(folder + ".log", "a", encoding="utf-8") as log:
            started.append(subprocess.Popen([context.lmtrain, *words], stdout=subprocess.DEVNULL, stderr=log, env=variables))
        code = started[-1].wait()
        if code != 0:
            with open(folder + ".log", encoding="utf-8", errors="replace") as log:
                return {"name": label, "result": False, "exit_code": code, "reason": log.read().strip()[-500:]}
    with open(os.path.join(folder, "forecast.json"), encoding="utf-8") as file:
        told = json.load(file)["answers"][0]
    with open(os.path.join(folder + "_run", "status.json"), encoding="utf-8") as file:
        loss = json.load(file)["eval_loss"]
    expected = told["loss"]
    return {"name": label, "result": "measured", "expected": expected["expected"], "loss": loss, "off_percent": 100 * (loss / expected["expected"] - 1),
            "inside": expected["low"] <= loss <= expected["high"], "low": expected["low"], "high": expected["high"], "answer": told}


def items(context):
    found = []
    for name in ("python", *given_texts()):
        found.append(("recipe", f"grid-{name}", 240, lambda c, n=name: grid(c, n)))
        found.append(("recipe", f"forecast-{name}", 240, lambda c, n=name: forecast(c, n)))
    return found
