"""Checks of scripts/gpu_check.py with several processes: the losses of two are those of one, by NCCL or, on one GPU, past it."""

import os
import socket
import subprocess

from gpu_programs import run
from gpu_training import small_config, steps_of, steps_to_take

COUNT = 2
DIVIDED_STEPS = 8
# What rank 0 warns of where the processes cannot have NCCL.
PAST_NCCL = "exchange tensors through host memory and Gloo"


def free_port():
    """A port of the loopback; None where there is no loopback."""
    try:
        with socket.socket() as listening, socket.socket() as calling:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            calling.settimeout(5)
            calling.connect(listening.getsockname())
            return listening.getsockname()[1]
    except OSError:
        return None


def num_gpus():
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([gpu for gpu in visible.split(",") if gpu])
    return sum(line.startswith("GPU ") for line in run(["nvidia-smi", "-L"]).stdout.split("\n"))


def train_in_processes(context, count, folder, port, more):
    """Exit codes and standard errors of the ranks. The settings are those whose bits do not depend on the number of processes."""
    settings = {"device": context.device, "precision": "bf16" if context.on_gpu else "fp32", "threads": 1,
                "parallel.sum": "exact", "parallel.timeout": "60s"} | more
    command = [context.lmtrain, "train", small_config(context, "bucket"), "--run-dir", folder]
    command += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    ranks = []
    try:
        for rank in range(count):
            variables = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            errors = os.path.join(context.work, f"{os.path.basename(folder)}.{rank}")
            with open(errors, "w", encoding="utf-8") as file:
                ranks.append((subprocess.Popen(command, env=os.environ | variables, stdout=subprocess.DEVNULL, stderr=file), errors))
        codes = [process.wait() for process, _ in ranks]
    finally:
        for process, _ in ranks:
            if process.poll() is None:
                process.kill()
                process.wait()
    said = []
    for _, errors in ranks:
        with open(errors, encoding="utf-8", errors="replace") as file:
            said.append(file.read())
    return codes, said


def compare(context, name, steps, settings):
    """Compares losses of COUNT processes with those of one."""
    port = free_port()
    if port is None:
        context.report.add(name, None, reason="no loopback")
        return
    losses, said = {}, {}
    for count in (1, COUNT):
        folder = os.path.join(context.work, f"{name.replace(' ', '_')}_{count}")
        codes, said[count] = train_in_processes(context, count, folder, port, settings)
        if any(codes):
            context.report.add(name, False, processes=count, exit_codes=codes, reason=said[count][0].strip()[-500:])
            return
        losses[count] = [line["loss"] for line in steps_of(folder)]
    # Two processes on one GPU go past NCCL, and say so; with a GPU for each they must not.
    past_nccl = any(PAST_NCCL in text for text in said[COUNT])
    wanted = context.on_gpu and num_gpus() < COUNT
    differing = sum(a != b for a, b in zip(losses[1], losses[COUNT]))
    complete = all(len(of_one) == steps for of_one in losses.values())
    context.report.add(name, complete and differing == 0 and past_nccl == wanted, steps=len(losses[COUNT]), differing_steps=differing,
                       through_host_memory=past_nccl if context.on_gpu else None)


def compare_processes(context):
    compare(context, f"{COUNT} processes against one", steps_to_take(context), {"compile": "graph"})


def compare_divided(context):
    """With weights and gradient divided. On a GPU a layer has some pages of 2 MiB, which it shares with others. The norm of a
    gradient is added in another order than by one process, so nothing is clipped."""
    settings = {"parallel.shard": "parameters", "model.activation_checkpointing": "true", "clip.type": "none", "compile": "script",
                "train.steps": DIVIDED_STEPS}
    if context.on_gpu:
        settings |= {"model.hidden_size": 768, "model.intermediate_size": 2112}
    compare(context, f"{COUNT} processes with divided weights against one", DIVIDED_STEPS, settings)


def items(_context):
    return [("nccl", "processes", 30, compare_processes), ("nccl", "divided", 35, compare_divided)]
