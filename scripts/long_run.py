#!/usr/bin/env python3
"""Trains a tiny model for many steps and says what grows: memory, open files, the time of a step, files.

  scripts/long_run.py [--program build/lmtrain] [--steps 200000] [--past 10000000] [--folder FOLDER]

Then it gives a run a past of many steps (--past; 0: none): metrics.jsonl and events.jsonl as such a run has them. It says how long resume,
train --continue and report take with them, and how long resume takes with the end of the metrics alone.

Exit status 1 where memory grows by more than 1 MB after the first tenth of the steps, a file stays open, or a resume takes 2 s longer for its
past. FOLDER keeps what is made; else it is removed. Two cores take minutes, and the past 2 GB of disk.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOST_GROWTH = 1_000_000  # bytes
MOST_SECONDS = 2  # that a past may cost


def write_config(folder, name, steps, changes):
    config = {
        "name": name, "run_dir": str(folder / name), "threads": 1, "precision": "fp32",
        "tokenizer": {"model": str(ROOT / "tests/reference/tokenizer/tokenizer.model")},
        "data": {"train": [str(ROOT / "data/sample")], "eval_fraction": 0.1, "cache_dir": str(folder / "cache")},
        "sequence": {"max_length": 16, "min_length": 16},
        "model": {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                  "num_key_value_heads": 1},
        "batch": {"tokens": 16}, "train": {"steps": steps}, "eval": {"every": "5%", "tokens": 64},
        "checkpoint": {"every": "2%"},
    }
    for key, value in changes.items():
        config[key] = {**config.get(key, {}), **value}
    path = folder / f"{name}.json"
    path.write_text(json.dumps(config))
    return path


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def anonymous_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise ValueError("no RssAnon")


def last_step(metrics):
    """The step of the newest whole line; 0 where there is none."""
    if not metrics.exists():
        return 0
    with metrics.open("rb") as file:
        file.seek(max(0, metrics.stat().st_size - 4096))
        lines = file.read().split(b"\n")[1:-1]
    return json.loads(lines[-1])["step"] if lines else 0


def watch(process, metrics):
    """Samples (step, anonymous memory, open files), twice a second."""
    samples = []
    while process.poll() is None:
        time.sleep(0.5)
        try:
            files = len(os.listdir(f"/proc/{process.pid}/fd"))
            samples.append((last_step(metrics), anonymous_bytes(process.pid), files))
        except (OSError, ValueError):  # it has ended meanwhile
            break
    return samples


def tree_bytes(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def long_run(program, folder, steps):
    config = write_config(folder, "long", steps, {})
    run = folder / "long"
    started = time.time()
    process = subprocess.Popen([program, "train", config], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    samples = watch(process, run / "metrics.jsonl")
    if process.wait() != 0:
        sys.exit(f"{program} train ended with {process.returncode}")
    elapsed = {}
    with (run / "metrics.jsonl").open() as lines:
        for line in map(json.loads, lines):
            if "elapsed" in line:
                elapsed[line["step"]] = line["elapsed"]

    tenth = steps // 10
    early = [sample for sample in samples if tenth <= sample[0] <= 2 * tenth]
    late = [sample for sample in samples if sample[0] >= steps - tenth]
    if not early or not late:
        sys.exit("too few steps to compare the beginning with the end")
    # The lowest of each: a save holds a copy of the state for a moment.
    memory = [min(sample[1] for sample in part) for part in (early, late)]
    files = [min(sample[2] for sample in part) for part in (early, late)]
    step_time = [1e6 * (elapsed[last] - elapsed[last - tenth]) / tenth for last in (2 * tenth, steps)]
    print(f"{steps} steps in {time.time() - started:.0f} s, {len(samples)} samples")
    print(f"{'':24}{'steps 10 to 20 %':>18}{'last 10 %':>14}")
    print(f"{'memory (RssAnon), MB':24}{memory[0] / 1e6:>18.2f}{memory[1] / 1e6:>14.2f}")
    print(f"{'open files':24}{files[0]:>18}{files[1]:>14}")
    print(f"{'time of a step, us':24}{step_time[0]:>18.1f}{step_time[1]:>14.1f}")
    for name in ("metrics.jsonl", "events.jsonl", "train.log", "tensorboard", "checkpoints", "config_history"):
        path = run / name
        size = tree_bytes(path) if path.is_dir() else path.stat().st_size if path.exists() else 0
        print(f"{name:24}{size:>18} bytes{size / steps:>10.2f} a step")
    states = sorted((run / "checkpoints").glob("step_*/state.json"))
    print("state.json, bytes:", ", ".join(f"{path.parent.name} {path.stat().st_size}" for path in states))
    problems = []
    if memory[1] - memory[0] > MOST_GROWTH:
        problems.append(f"memory grew by {(memory[1] - memory[0]) / 1e6:.2f} MB")
    if files[1] > files[0]:
        problems.append(f"{files[1] - files[0]} files more are open")
    return problems


CRC = []
for n in range(256):
    value = n
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    CRC.append(value)


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = CRC[(value ^ byte) & 255] ^ value >> 8
    return value ^ 0xFFFFFFFF


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def give_past(run, steps):
    """Makes the newest checkpoint, after step k, one after step `steps`, with metrics and events of all of them."""
    old = sorted((run / "checkpoints").glob("step_*"))[-1]
    state = json.loads((old / "state.json").read_text())
    added = steps - state["step"]
    state |= {"step": steps, "batch": state["batch"] + added, "tokens": 15 * steps, "eval_step": steps}
    text = (json.dumps(state, indent=2) + "\n").encode()
    (old / "state.json").write_bytes(text)
    manifest = json.loads((old / "manifest.json").read_text())
    manifest["step"] = steps
    manifest["files"]["state.json"] |= {"size": len(text), "crc32c": f"{crc32c(text):08x}"}
    del manifest["checksum"]
    manifest["checksum"] = f"{crc32c(canonical(manifest)):08x}"
    (old / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    old.rename(old.parent / f"step_{steps:08d}")
    for other in (run / "checkpoints").glob("step_*"):
        if other.name != f"step_{steps:08d}":
            shutil.rmtree(other)
    with (run / "metrics.jsonl").open("w", buffering=1 << 24) as file:
        for step in range(1, steps + 1):
            file.write(f'{{"step":{step},"tokens":{15 * step},"loss":5.{step % 1000:03d}1947,"grad_norm":0.51{step % 997},"lr":0.0009765625,'
                       f'"seq_len":16,"tokens_per_second":31234.5,"mfu":null,"elapsed":{step / 2000}}}\n')
            if step % 50_000 == 0:
                file.write(f'{{"step":{step},"tokens":{15 * step},"eval_loss":5.1,"eval_perplexity":164.0,"eval_bits_per_byte":2.1}}\n')
    event = json.loads((run / "events.jsonl").read_text().splitlines()[-1])
    with (run / "events.jsonl").open("a") as file:
        for step in range(0, steps, 1000):
            file.write(json.dumps(event | {"event": "save", "step": step, "batch": step, "reason": ""}) + "\n")


def timed(command):
    """Seconds and peak memory in MB."""
    started = time.time()
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.time() - started
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{' '.join(map(str, command))}: {errors}")
    if "is damaged" in errors or "not whole" in errors:
        sys.exit(f"the metrics are not taken for whole: {errors}")
    return seconds, usage.ru_maxrss / 1024


def long_past(program, folder, steps):
    config = write_config(folder, "past", steps + 20, {"eval": {"every": 0}, "checkpoint": {"every": 0}})
    run, kept = folder / "past", folder / "kept"
    process = subprocess.Popen([program, "train", config], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and last_step(run / "metrics.jsonl") < 10:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    if process.wait() != 128 + signal.SIGTERM:
        sys.exit(f"{program} train ended with {process.returncode}")
    give_past(run, steps)
    size = (run / "metrics.jsonl").stat().st_size
    print(f"metrics.jsonl of {steps} steps: {size / 1e9:.2f} GB; events.jsonl {(run / 'events.jsonl').stat().st_size / 1e6:.1f} MB")
    run.rename(kept)

    def fresh(metrics_bytes=None):
        """The run as it was, with the last bytes of its metrics alone where they are given."""
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(kept, run)
        if metrics_bytes is not None:
            with (kept / "metrics.jsonl").open("rb") as file:
                file.seek(-metrics_bytes, os.SEEK_END)
                (run / "metrics.jsonl").write_bytes(file.read().split(b"\n", 1)[1])
        os.sync()  # else the run's own sync waits for what was copied

    seconds = {}
    for name, metrics, command in (
            ("resume, past of 20 MB", 20_000_000, [program, "resume", run]),
            ("resume", None, [program, "resume", run]),
            ("train --continue", None, [program, "train", config, "--continue"]),
            ("report", None, [program, "report", run, "--to", folder / "report.html"])):
        taken = []
        for _ in range(1 if name == "report" else 2):  # the machine may be busy
            if name != "report":
                fresh(metrics)
            taken.append(timed(command))
        seconds[name], memory = min(taken)
        print(f"{name:24}{seconds[name]:>8.1f} s, at most {memory:.0f} MB with mapped files")
    cost = seconds["resume"] - seconds["resume, past of 20 MB"]
    return [f"a resume takes {cost:.1f} s longer for its past"] if cost > MOST_SECONDS else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/lmtrain", type=pathlib.Path)
    parser.add_argument("--steps", default=200_000, type=int)
    parser.add_argument("--past", default=10_000_000, type=int)
    parser.add_argument("--folder", type=pathlib.Path)
    arguments = parser.parse_args()
    folder = arguments.folder or pathlib.Path(tempfile.mkdtemp(prefix="lmtrain_long_run_"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        problems = long_run(arguments.program.resolve(), folder, arguments.steps) if arguments.steps else []
        if arguments.past:
            problems += long_past(arguments.program.resolve(), folder, arguments.past)
    finally:
        if not arguments.folder:
            shutil.rmtree(folder, ignore_errors=True)
    for problem in problems:
        print("problem:", problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
