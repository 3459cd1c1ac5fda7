"""Where the runs of a sweep compute: one of several GPUs each, or a share of the processors.

A GPU is given by CUDA_VISIBLE_DEVICES, and a share of the processors by OMP_NUM_THREADS, not by settings. So the config of a run
does not say which GPU it had: the run may go on with another, and seeds of one point differ in nothing else.
"""

import dataclasses
import os
import re
import subprocess

from sweep.messages import SweepError, counted


@dataclasses.dataclass(frozen=True)
class Slot:
    """A place for one run at a time."""

    name: str         # for people; empty: the whole machine
    environment: dict


def num_processors():
    """Processors that this process may use: OMP_NUM_THREADS, else the affinity mask within the CPU quota of the control groups."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit() and int(threads) > 0:
        return int(threads)
    return max(1, min([len(os.sched_getaffinity(0)), *quotas("/proc/self/cgroup", "/sys/fs/cgroup")]))


def quotas(membership, mount):
    """Processors that each control group (version 2) around this process allows, rounded down."""
    allowed = []
    try:
        with open(membership, encoding="utf-8") as file:
            groups = [line.strip()[3:] for line in file if line.startswith("0::")]
    except OSError:
        return allowed
    for group in groups:
        while True:
            try:
                with open(os.path.join(mount, group.strip("/"), "cpu.max"), encoding="utf-8") as file:
                    quota, period = file.read().split()
                if quota != "max":
                    allowed.append(int(quota) // int(period))
            except (OSError, ValueError):
                pass
            if group in ("", "/"):
                break
            group = os.path.dirname(group)
    return allowed


def visible_gpus():
    """What CUDA_VISIBLE_DEVICES would hold for each GPU there is; empty without a GPU."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return [name for name in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if name not in ("", "-1")]
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [str(i) for i in range(len(re.findall(r"^GPU \d+:", listed, re.MULTILINE)))]


def slots(parallel, listed, wanted, gpus, processors):
    """The places for runs.

    parallel: how many at once; None: one, or as many as `listed` has. listed: the devices of --devices; None: to be found out.
    wanted: the `device` settings of the points. gpus: as visible_gpus() has them; empty also where lmtrain cannot use them.
    """
    if parallel is None:
        parallel = len(listed) if listed else 1
    if parallel == 1 and not listed:
        return [Slot("", {})]
    if not listed:
        numbered = [device for device in wanted if device.startswith("cuda:")]
        if len(set(wanted)) > 1:
            raise SweepError(f"--parallel {parallel}: the points have different devices ({', '.join(sorted(set(wanted)))}); "
                             "give --devices")
        if numbered:
            raise SweepError(f"--parallel {parallel}: device is {numbered[0]}, which all runs would share; set device to cuda, "
                             "or give --devices")
        if "cuda" in wanted and not gpus:
            raise SweepError("device is cuda, and there is no GPU that lmtrain can use")
        listed = [f"cuda:{i}" for i in range(len(gpus))] if gpus and "cpu" not in wanted else ["cpu"]
    devices = [listed[i % len(listed)] for i in range(parallel)]
    threads = max(1, processors // parallel)
    environment = {"OMP_NUM_THREADS": str(threads)}
    places = []
    for device in devices:
        if device == "cpu":
            places.append(Slot(counted(threads, "thread"), environment | ({"CUDA_VISIBLE_DEVICES": ""} if gpus else {})))
            continue
        index = int(device[len("cuda:") :])
        if index >= len(gpus):
            raise SweepError(f"--devices {device}: there are {len(gpus)} GPUs that lmtrain can use")
        places.append(Slot(device, environment | {"CUDA_VISIBLE_DEVICES": gpus[index]}))
    return places


def read_devices(text):
    """The list of --devices."""
    listed = text.split(",")
    for device in listed:
        if not re.fullmatch(r"cpu|cuda:\d+", device):
            raise SweepError(f"--devices {text}: '{device}' is no device; give cuda:0,cuda:1 or cpu")
    return listed
