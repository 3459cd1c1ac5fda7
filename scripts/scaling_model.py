#!/usr/bin/env python3
"""How well data parallel training of lmtrain would scale, from numbers that can be changed: a model, not a measurement.
Standard library only. docs/distributed.md explains the formulas.

    scripts/scaling_model.py                                          from 8 to 4,096 GPUs, each with as many tokens a step
    scripts/scaling_model.py --batch-tokens 4M                        the same batch, divided among ever more GPUs
    scripts/scaling_model.py --parameters 124M --machine-link 10      another model, and Ethernet of 10 Gbit/s
    scripts/scaling_model.py --gpus 1,2 --gpus-per-machine 1 --compute-seconds 0.05 --machine-link 0.2 --parameters 1.2M
                                                                      two machines whose step without sending was measured

The defaults describe H100s, 8 a machine, in round numbers; none of them was measured with lmtrain.
"""

import argparse
import math
import sys
from dataclasses import dataclass

UNITS = {"": 1, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


@dataclass
class Numbers:
    """What the model is told. Links in bytes a second, as one direction carries them."""

    parameters: float
    bytes_per_gradient: float
    tokens_per_gpu: float
    batch_tokens: float  # of the whole step; 0: tokens_per_gpu from each
    flops_per_second: float  # of a GPU that trains
    compute_seconds: float  # of a step on one GPU with tokens_per_gpu tokens; 0: from the FLOPs
    gpus_per_machine: int
    gpu_link: float  # between the GPUs of a machine, for each
    machine_link: float  # between machines, for all GPUs of one together
    latency: float  # seconds of a message
    rounds: str  # "ring" or "halving"
    overlap: float  # of the backward, the part that can hide sending
    jitter: float  # standard deviation of a GPU's step time, as a part of it


@dataclass
class Step:
    """One step, in seconds and bytes."""

    tokens: float
    compute: float  # on the GPU that is slowest
    sending: float  # of the gradient
    exposed: float  # the part of sending that nothing hides
    sent: float  # bytes that a GPU sends
    efficiency: float  # of a GPU, against one that trains alone with as many tokens

    @property
    def seconds(self):
        return self.compute + self.exposed


def sending_seconds(numbers, gpus):
    """An all-reduce: each GPU reduces 1/gpus of the gradient and gathers the rest. Inside a machine every byte goes over the links of
    its GPUs; between machines each machine's share goes over the machine's link."""
    size = numbers.parameters * numbers.bytes_per_gradient
    local = min(gpus, numbers.gpus_per_machine)
    machines = math.ceil(gpus / numbers.gpus_per_machine)
    inside = 2 * (local - 1) / local * size / numbers.gpu_link
    between = 2 * (machines - 1) / machines * size / numbers.machine_link
    rounds = 2 * (gpus - 1) if numbers.rounds == "ring" else 2 * math.ceil(math.log2(gpus))
    return inside + between + rounds * numbers.latency


def step_of(numbers, gpus):
    tokens = numbers.batch_tokens / gpus if numbers.batch_tokens else numbers.tokens_per_gpu
    alone = 6 * numbers.parameters * tokens / numbers.flops_per_second
    if numbers.compute_seconds:
        alone = numbers.compute_seconds * tokens / numbers.tokens_per_gpu
    # The largest of many normal numbers lies about sqrt(2 ln n) standard deviations above their mean.
    compute = alone * (1 + numbers.jitter * math.sqrt(2 * math.log(gpus)))
    sending = sending_seconds(numbers, gpus) if gpus > 1 else 0.0
    backward = compute * 2 / 3  # two products of matrices a weight, and the forward one
    exposed = sending - min(sending, numbers.overlap * backward)
    sent = 2 * (gpus - 1) / gpus * numbers.parameters * numbers.bytes_per_gradient
    return Step(tokens, compute, sending, exposed, sent, alone / (compute + exposed))


def number_of(text):
    """ "1.1B" is 1.1e9."""
    unit = text[-1:] if text[-1:] in UNITS and text[-1:] else ""
    try:
        return float(text.removesuffix(unit)) * UNITS[unit]
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no number; write 1e9, 124M or 1.1B") from None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--gpus", default="8,16,32,64,128,256,512,1024,2048,4096", help="default: %(default)s")
    add("--parameters", type=number_of, default=1.1e9, help="default: 1.1B")
    add("--bytes-per-gradient", type=float, default=4, help="4: fp32, as lmtrain sends it (default)")
    add("--tokens-per-gpu", type=number_of, default=16384, help="a step; default: %(default)s")
    add("--batch-tokens", type=number_of, default=0, help="of the whole step, in place of --tokens-per-gpu")
    add("--peak", type=number_of, default=989e12, help="FLOP/s of a GPU in bf16; default: 989T")
    add("--mfu", type=float, default=0.4, help="the part of the peak that training reaches alone; assumed: %(default)s")
    add("--compute-seconds", type=float, default=0, help="of a step on one GPU with --tokens-per-gpu, in place of --peak and --mfu")
    add("--gpus-per-machine", type=int, default=8)
    add("--gpu-link", type=float, default=2880, help="Gbit/s of each GPU inside a machine; default: %(default)s, 80 %% of NVLink's 450 GB/s")
    add("--machine-link", type=float, default=2560, help="Gbit/s of a machine; default: %(default)s, 80 %% of eight times 400 Gbit/s")
    add("--latency", type=float, default=10, help="microseconds of a message; assumed: %(default)s")
    add("--rounds", choices=["ring", "halving"], default="halving", help="ring: parallel.sum fast; halving: exact (default)")
    add("--overlap", type=float, default=0, help="part of the backward that can hide sending; 0: lmtrain as it is (default)")
    add("--jitter", type=float, default=0.01, help="standard deviation of step times, as a part of them; assumed: %(default)s")
    arguments = parser.parse_args()
    numbers = Numbers(
        arguments.parameters, arguments.bytes_per_gradient, arguments.tokens_per_gpu, arguments.batch_tokens,
        arguments.peak * arguments.mfu, arguments.compute_seconds, arguments.gpus_per_machine, arguments.gpu_link * 1e9 / 8,
        arguments.machine_link * 1e9 / 8, arguments.latency * 1e-6, arguments.rounds, arguments.overlap, arguments.jitter)
    wrong = [name for name, value in vars(numbers).items() if name not in ("rounds", "batch_tokens", "compute_seconds", "latency", "overlap",
                                                                          "jitter") and value <= 0]
    if wrong:
        sys.exit(f"error: {', '.join(wrong)} must be above 0")
    print("Estimated, not measured.")
    print(f"{'GPUs':>6}{'tokens/GPU':>12}{'compute ms':>12}{'sending ms':>12}{'exposed ms':>12}{'step ms':>10}{'tokens/s':>12}"
          f"{'efficiency':>12}{'GB sent/GPU':>13}")
    for gpus in map(int, arguments.gpus.split(",")):
        step = step_of(numbers, gpus)
        print(f"{gpus:6}{step.tokens:12,.0f}{1000 * step.compute:12.1f}{1000 * step.sending:12.1f}{1000 * step.exposed:12.1f}"
              f"{1000 * step.seconds:10.1f}{gpus * step.tokens / step.seconds:12,.0f}{100 * step.efficiency:10.1f} %{step.sent / 1e9:13.3f}")


if __name__ == "__main__":
    main()
