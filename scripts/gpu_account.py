#!/usr/bin/env python3
"""The account of a training step on a GPU: FLOPs, bytes and time of each kernel, estimated from the model's shape.

    python3 scripts/gpu_account.py                         one model by kernels, the others by phases
    python3 scripts/gpu_account.py --size 1.1b             one model by kernels
    python3 scripts/gpu_account.py --size 124m --bench bench.json     beside what `lmtrain bench --json` measured

A kernel takes the longer of the time for its FLOPs and that for its bytes. Nothing here was measured. With --bench the
phases of the length of the account are compared, and those that differ by more than 20 % are marked: there is where to look.
"""

import argparse
import json
import sys

from bench_processes import SIZES

LENGTHS = {"124m": 1024, "350m": 2048, "1.1b": 2048}
BATCH, MICRO = 131072, 32768  # positions of a step and of a micro-batch
DIFFERS = 0.2

# An H100 (SXM): its data sheet, and the part of it that a kernel is assumed to reach.
PEAK, BANDWIDTH = 989e12, 3.35e12
OF_PEAK = {"products": 0.7, "attention": 0.5, "attention backward": 0.4}
OF_BANDWIDTH = 0.85
NUMBER, SUM = 2, 4  # bytes of a bf16 and of a fp32 number
PARTIALS = 1024  # of the last sum of RMSNorm's backward
# Its memory, and the rule by which a run divides it (kUsableOnGpu and kAllowance of src/training/memory_plan.h).
MEMORY, USABLE, ALLOWANCE = 84e9, 0.9, 1.5
LOGITS = 1 << 32  # bytes of logits at once
FULL, MOST = 16384, 65536  # positions at once (src/training/resolve.h)
STATE = 4 + 2 + 4 + 8  # bytes of a weight: master, working weight, gradient, two moments


class Account:
    """Kernels of a step of one model: phase, name, launches, FLOPs and bytes, all of the step."""

    def __init__(self, model, length, batch=BATCH, micro=MICRO):
        self.rows = []
        self.batch, self.micro, self.length = batch, micro, length
        self.micros = batch // micro
        self.d, self.f = model["hidden_size"], model["intermediate_size"]
        self.layers, self.vocab = model["num_hidden_layers"], model["vocab_size"]
        heads = model["num_attention_heads"]
        self.q = self.d
        self.kv = self.d // heads * model.get("num_key_value_heads", heads)
        self.tied = model.get("tie_word_embeddings", True)
        # The products of a layer with its matrices: inputs and outputs.
        self.matrices = {
            "qkv_proj": (self.d, self.q + 2 * self.kv),
            "o_proj": (self.q, self.d),
            "gate_up_proj": (self.d, 2 * self.f),
            "down_proj": (self.f, self.d),
        }
        self.of_matrices = self.layers * sum(inputs * outputs for inputs, outputs in self.matrices.values())
        self.of_norms = (2 * self.layers + 1) * self.d
        self.of_vocabulary = self.vocab * self.d * (1 if self.tied else 2)
        self.parameters = self.of_matrices + self.of_norms + self.of_vocabulary
        self.keeps_value = self.memory(micro) + self.value(micro) <= USABLE * MEMORY
        self.forward()
        self.backward()
        self.sums()
        self.update()

    def memory(self, micro):
        """Bytes of the run with micro-batches of so many positions, as the program plans them."""
        of_layer = NUMBER * (4 * self.d + 2 * self.q + 2 * self.kv + 2 * self.f)
        activations = micro * (self.layers * of_layer + 2 * NUMBER * self.d)
        logits = min(NUMBER * micro * self.vocab, LOGITS)
        return STATE * self.parameters + NUMBER * (self.of_vocabulary + self.of_norms) + ALLOWANCE * (activations + logits)

    def value(self, micro):
        """Bytes of SwiGLU's value in all layers."""
        return NUMBER * micro * self.layers * self.f

    def add(self, phase, name, launches, flops, size, kind="products"):
        seconds = max(flops / (PEAK * OF_PEAK[kind]), size / (BANDWIDTH * OF_BANDWIDTH))
        self.rows.append({"phase": phase, "kernel": name, "launches": launches, "flops": flops, "bytes": size, "seconds": seconds})

    def product(self, phase, name, launches, inputs, outputs, to_sum=False):
        """`launches` products of `micro` rows; into a fp32 sum, of which the first micro-batch only writes."""
        numbers = self.micro * (inputs + outputs)
        result = inputs * outputs
        size = launches * NUMBER * (numbers + result)
        if to_sum:
            size = launches * (NUMBER * numbers + SUM * result * (2 - 1 / self.micros))
        self.add(phase, name, launches, 2.0 * launches * self.micro * result, size)

    def elementwise(self, phase, name, launches, width, fixed=0):
        """`launches` kernels that read and write `width` numbers a position, and `fixed` bytes."""
        self.add(phase, name, launches, 0, launches * (NUMBER * self.micro * width + fixed))

    def attention(self, phase, name, products, width, kind):
        """Half of `products` products of queries with keys, as the mask of a row leaves them."""
        launches = self.micros * self.layers
        flops = launches * products * self.micro * self.length * self.q
        self.add(phase, name, launches, flops, launches * NUMBER * self.micro * width, kind)

    def forward(self):
        phase, each = "forward", self.micros * self.layers
        self.elementwise(phase, "embedding", self.micros, 2 * self.d)
        self.elementwise(phase, "add_rms_norm", 2 * each + self.micros, 4 * self.d)
        for name, shape in self.matrices.items():
            self.product(phase, name, each, *shape)
        self.elementwise(phase, "qkv_rope", each, 2 * (self.q + self.kv))  # where they are
        self.attention(phase, "attention", 2, 2 * self.q + 2 * self.kv, "attention")
        self.elementwise(phase, "swiglu", each, 3 * self.f)
        # The loss and its gradient replace the logits; the head's gradients are computed with them.
        self.product(phase, "logits", self.micros, self.d, self.vocab)
        self.elementwise(phase, "cross_entropy", self.micros, 2 * self.vocab)
        self.product(phase, "head, gradient of x", self.micros, self.vocab, self.d)
        self.product(phase, "head, gradient of the weight", self.micros, self.d, self.vocab)

    def backward(self):
        phase, each = "backward", self.micros * self.layers
        for name, (inputs, outputs) in self.matrices.items():
            self.product(phase, f"{name}, gradient of x", each, outputs, inputs)
        for name, (inputs, outputs) in self.matrices.items():
            self.product(phase, f"{name}, gradient of the weight", each, inputs, outputs, to_sum=True)
        self.elementwise(phase, "add_rms_norm", 2 * each + self.micros, 4 * self.d, 2 * PARTIALS * SUM * self.d)
        self.elementwise(phase, "qkv_rope", each, 2 * (self.q + 2 * self.kv))
        self.attention(phase, "attention", 5, 4 * self.q + 4 * self.kv, "attention backward")
        self.elementwise(phase, "swiglu", each, (5 if self.keeps_value else 6) * self.f)
        self.elementwise(phase, "embedding", self.micros, self.d, 2 * NUMBER * self.vocab * self.d)

    def sums(self):
        """What products do not add up themselves, and the tied head's with the embedding's."""
        numbers = self.of_norms + self.of_vocabulary
        size = numbers * (self.micros * (NUMBER + 2 * SUM) - SUM)
        if self.tied:
            size += self.micros * 3 * NUMBER * self.of_vocabulary
        self.add("sum gradient", "accumulate", self.micros * (2 * self.layers + 2), 0, size)

    def update(self):
        self.add("clip", "sum_of_squares", 1, 0, SUM * self.parameters)
        # Master, two moments and gradient are read, the first three and the working weights written.
        self.add("update", "adamw", 1, 0, (7 * SUM + NUMBER) * self.parameters)

    def seconds(self, phase=None):
        return sum(row["seconds"] for row in self.rows if phase in (None, row["phase"]))

    def phases(self):
        return list(dict.fromkeys(row["phase"] for row in self.rows))

    def mfu(self):
        flops = 6 * self.parameters + 12 * self.layers * self.q * self.length
        return flops * self.batch / self.seconds() / PEAK


def table(size, by_kernel=True):
    account = Account(SIZES[size], LENGTHS[size])
    lines = [
        f"**{size.upper()}** ({account.parameters / 1e6:.0f}M weights), rows of {account.length}, {BATCH} positions a step, {MICRO} at once. "
        f"SwiGLU's value is {'kept' if account.keeps_value else 'computed again'}. Estimated: {1e3 * account.seconds():.0f} ms a step, {100 * account.mfu():.0f} % MFU.",
        "",
        "| phase | kernel | launches | TFLOP | GB | ms |",
        "|---|---|---|---|---|---|",
    ]
    for phase in account.phases():
        rows = [row for row in account.rows if row["phase"] == phase]
        for row in rows if by_kernel else []:
            flops = f"{row['flops'] / 1e12:.2f}" if row["flops"] else ""
            lines.append(f"| {phase} | {row['kernel']} | {row['launches']} | {flops} | {row['bytes'] / 1e9:.2f} | {1e3 * row['seconds']:.2f} |")
        if len(rows) > 1 or not by_kernel:
            lines.append(f"| **{phase}** | | | {sum(r['flops'] for r in rows) / 1e12:.1f} | {sum(r['bytes'] for r in rows) / 1e9:.1f} | {1e3 * account.seconds(phase):.1f} |")
    return "\n".join(lines) + "\n"


def chosen_micro(size):
    """The micro-batch that the program takes (gpu_micro_tokens of src/training/resolve.cpp)."""
    length = LENGTHS[size]
    candidates = [rows * length for rows in range(MOST // length, 0, -1) if BATCH // length % rows == 0]
    model = Account(SIZES[size], length)

    def most(with_value):
        fitting = [micro for micro in candidates if model.memory(micro) + with_value * model.value(micro) <= USABLE * MEMORY]
        return fitting[0] if fitting else length

    return most(True) if most(True) >= FULL else most(False)


def table_of_micros():
    lines = [
        f"**Micro-batches of `auto`** on {MEMORY / 1e9:.0f} GB, the same models. Estimated.",
        "",
        "| model | positions at once | GB planned | SwiGLU's value | ms a step | MFU |",
        "|---|---|---|---|---|---|",
    ]
    for size, length in LENGTHS.items():
        micro = chosen_micro(size)
        account = Account(SIZES[size], length, micro=micro)
        planned = account.memory(micro) + account.keeps_value * account.value(micro)
        kept = "kept" if account.keeps_value else "computed again"
        lines.append(f"| {size.upper()} | {micro} | {planned / 1e9:.1f} | {kept} | {1e3 * account.seconds():.0f} | {100 * account.mfu():.0f} % |")
    return "\n".join(lines) + "\n"


def tables():
    """The first model by kernels, the others by phases."""
    return "\n".join([*(table(size, by_kernel=size == next(iter(LENGTHS))) for size in LENGTHS), table_of_micros()])


def compare(size, bench):
    """Lines of a table of phases, estimated and measured; those that differ too much are marked."""
    lines = ["| phase | estimated ms | measured ms | measured / estimated | |", "|---|---|---|---|---|"]
    found = [entry for entry in bench["lengths"] if entry["length"] == LENGTHS[size]]
    if not found:
        sys.exit(f"the benchmark has no length {LENGTHS[size]}, which the account of {size} is of")
    account = Account(SIZES[size], LENGTHS[size], bench["batch_tokens"], found[0]["micro_rows"] * LENGTHS[size])
    if account.parameters != bench["parameters"]:
        sys.exit(f"the benchmark is of {bench['parameters']} weights, {size} has {account.parameters}")
    for phase in account.phases():
        estimated, measured = account.seconds(phase), found[0]["phases"][phase]
        mark = "look here" if abs(measured / estimated - 1) > DIFFERS else ""
        lines.append(f"| {phase} | {1e3 * estimated:.2f} | {1e3 * measured:.2f} | {measured / estimated:.2f} | {mark} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=LENGTHS, help="one model")
    parser.add_argument("--bench", metavar="FILE", help="what `lmtrain bench --json` printed for it")
    arguments = parser.parse_args()
    if arguments.bench:
        if not arguments.size:
            parser.error("--bench needs --size")
        with open(arguments.bench, encoding="utf-8") as file:
            print(compare(arguments.size, json.load(file)))
    else:
        print(table(arguments.size) if arguments.size else tables(), end="")


if __name__ == "__main__":
    main()
