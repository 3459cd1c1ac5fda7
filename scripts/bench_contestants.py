#!/usr/bin/env python3
"""The contestants of scripts/bench_vs_pytorch.py that are Python, each in a process of its own: what to prepare, and how they train.

    bench_contestants.py NAME SPEC.json RESULT.json

writes {"times": seconds of each step, "losses": of each step, "memory": peak of the GPU in bytes, or null on a CPU}.
"""

import glob
import json
import os
import re
import struct
import sys
import time
import zlib
from collections import Counter

NUM_SPECIAL = 3  # <unk> <s> </s>
NUM_BYTES = 256
SPACE = "\u2581"  # sentencepiece's


def write_tokenizer(path, words):
    """A sentencepiece model of bytes and these words, so that no sentencepiece is needed to make one."""

    def field(number, payload):
        length = len(payload)
        varint = bytearray()
        while length >= 0x80:
            varint.append(length & 0x7F | 0x80)
            length >>= 7
        return bytes([number << 3 | 2]) + bytes(varint) + bytes([length]) + payload

    normal, unknown, control, byte = 1, 2, 3, 6
    pieces = [("<unk>", 0.0, unknown), ("<s>", 0.0, control), ("</s>", 0.0, control)]
    pieces += [(f"<0x{value:02X}>", 0.0, byte) for value in range(NUM_BYTES)]
    pieces += [(word, -float(rank), normal) for rank, word in enumerate(words)]
    with open(path, "wb") as file:
        for text, score, kind in pieces:
            file.write(field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + bytes([3 << 3, kind])))
        bpe, byte_fallback = bytes([3 << 3, 2]), b"\x98\x02\x01"  # trainer_spec: model_type, byte_fallback
        file.write(field(2, bpe + byte_fallback))
        file.write(field(3, field(1, b"identity") + bytes([3 << 3, 0, 4 << 3, 0])))  # no space added or removed


def read_corpus(path, size):
    """About `size` characters of a file, or of the Python sources of the installed packages."""
    if path:
        files = [path]
    else:
        import torch

        packages = os.path.dirname(os.path.dirname(torch.__file__))
        files = sorted(glob.glob(os.path.join(packages, "torch", "**", "*.py"), recursive=True))
        files += sorted(glob.glob(os.path.join(packages, "transformers", "**", "*.py"), recursive=True))
    text = []
    for name in files:
        with open(name, "rb") as file:
            text.append(file.read().decode("utf-8", errors="replace"))
        size -= len(text[-1])
        if size < 0:
            break
    return "".join(text)


def prepare(spec):
    """A stream of words as token ids, a tokenizer with as many pieces, and the weights that all start from."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    work, vocab = spec["work"], spec["model"]["vocab_size"]
    needed = spec["steps"] * spec["rows"] * spec["length"] + 1
    # Runs of letters and digits, of spaces, and single signs; about three characters each.
    text = read_corpus(spec["corpus"], max(8_000_000, 5 * needed)).replace(SPACE, " ")
    words = re.findall(r"\w+|\s+|[^\w\s]", text)
    if len(words) < needed:
        sys.exit(f"the corpus has {len(words)} tokens, {needed} are needed: give a longer --corpus")
    own = vocab - NUM_SPECIAL - NUM_BYTES
    frequent = [word for word, _ in sorted(Counter(words).items(), key=lambda item: (-item[1], item[0]))[:own]]
    pieces = frequent + [f"<unused{i}>" for i in range(own - len(frequent))]
    write_tokenizer(os.path.join(work, "tokenizer.model"), [piece.replace(" ", SPACE) for piece in pieces])
    ids = {word: NUM_SPECIAL + NUM_BYTES + rank for rank, word in enumerate(frequent)}
    stream = [ids.get(word) or NUM_SPECIAL + zlib.crc32(word.encode()) % NUM_BYTES for word in words[:needed]]
    tokens = torch.tensor(stream, dtype=torch.int64)
    torch.save(tokens, os.path.join(work, "tokens.pt"))
    tokens.to(torch.int32).numpy().astype("<u4").tofile(os.path.join(work, "tokens.bin"))

    config = LlamaConfig(
        **({"num_key_value_heads": spec["model"]["num_attention_heads"], "tie_word_embeddings": True} | spec["model"]),
        max_position_embeddings=spec["length"], rms_norm_eps=1e-5, use_cache=False,
    )
    torch.manual_seed(1)
    model = LlamaForCausalLM(config)
    model.save_pretrained(os.path.join(work, "start"))
    return {"parameters": sum(p.numel() for p in model.parameters()), "torch": torch.__version__}


def micro_batches(tokens, spec, step):
    """Inputs and targets [micro_rows, length]: consecutive rows of one stream, each sharing one token with the next."""
    rows, length, micro_rows = spec["rows"], spec["length"], spec["micro_rows"]
    begin = step * rows * length
    window = tokens[begin : begin + rows * length + 1]
    inputs, targets = window[:-1].view(rows, length), window[1:].view(rows, length)
    for row in range(0, rows, micro_rows):
        yield inputs[row : row + micro_rows].to(spec["device"]), targets[row : row + micro_rows].to(spec["device"])


def rate_factor(spec, step):
    """The learning rate of a step (the first is 0), as a part of the peak: lmtrain's linear warm-up, docs/schedules.md."""
    return min(1.0, spec["warmup_start"] + (1 - spec["warmup_start"]) * step / spec["warmup_steps"])


def now(spec):
    """Seconds, when all that was given to the device is done."""
    if spec["device"] == "cuda":
        import torch

        torch.cuda.synchronize()
    return time.perf_counter()


def result_of(spec, ends, losses):
    import torch

    memory = torch.cuda.max_memory_allocated() if spec["device"] == "cuda" else None
    return {"times": [b - a for a, b in zip(ends, ends[1:])], "losses": losses, "memory": memory}


def plain_llama(config, weights):
    """LlamaForCausalLM in plain PyTorch as one would write it for speed: F.rms_norm, SDPA, one matmul for q, k and v."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    hidden, heads, kv_heads = config["hidden_size"], config["num_attention_heads"], config["num_key_value_heads"]
    head_dim, eps = hidden // heads, config["rms_norm_eps"]

    class Block(nn.Module):
        def __init__(self, prefix):
            super().__init__()
            get = lambda name: nn.Parameter(weights[prefix + name + ".weight"].clone())
            self.norm_1, self.norm_2 = get("input_layernorm"), get("post_attention_layernorm")
            self.qkv = nn.Parameter(torch.cat([weights[f"{prefix}self_attn.{k}_proj.weight"] for k in "qkv"]))
            self.out = get("self_attn.o_proj")
            self.gate_up = nn.Parameter(torch.cat([weights[f"{prefix}mlp.{k}_proj.weight"] for k in ("gate", "up")]))
            self.down = get("mlp.down_proj")

        def forward(self, x_BTD, cos, sin):
            def rotate(x):
                first, second = x.chunk(2, -1)
                return x * cos + torch.cat([-second, first], -1) * sin

            batch, length, _ = x_BTD.shape
            qkv = F.linear(F.rms_norm(x_BTD, (hidden,), self.norm_1, eps), self.qkv)
            q, k, v = qkv.view(batch, length, -1, head_dim).transpose(1, 2).split([heads, kv_heads, kv_heads], 1)
            h = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=heads != kv_heads)
            x_BTD = x_BTD + F.linear(h.transpose(1, 2).reshape(batch, length, hidden), self.out)
            gate, up = F.linear(F.rms_norm(x_BTD, (hidden,), self.norm_2, eps), self.gate_up).chunk(2, -1)
            return x_BTD + F.linear(F.silu(gate) * up, self.down)

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Parameter(weights["model.embed_tokens.weight"].clone())
            self.head = self.embed if config["tie_word_embeddings"] else nn.Parameter(weights["lm_head.weight"].clone())
            self.norm = nn.Parameter(weights["model.norm.weight"].clone())
            self.blocks = nn.ModuleList(Block(f"model.layers.{i}.") for i in range(config["num_hidden_layers"]))
            theta = config["rope_parameters"]["rope_theta"] if "rope_parameters" in config else config["rope_theta"]
            frequency = 1.0 / theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
            angle = torch.arange(config["max_position_embeddings"]).float()[:, None] * frequency
            angle = torch.cat([angle, angle], -1)
            self.register_buffer("cos", angle.cos(), persistent=False)
            self.register_buffer("sin", angle.sin(), persistent=False)

        def forward(self, ids_BT, targets_BT):
            length = ids_BT.shape[1]
            x = F.embedding(ids_BT, self.embed)
            cos, sin = self.cos[:length].to(x.dtype), self.sin[:length].to(x.dtype)
            for block in self.blocks:
                x = block(x, cos, sin)
            logits = F.linear(F.rms_norm(x, (hidden,), self.norm, eps), self.head)
            wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
            return F.cross_entropy(wide.flatten(0, 1), targets_BT.flatten())

    return Llama()


def loop(spec, compiled=False, dtype=None, transformers_model=False):
    import torch
    from safetensors.torch import load_file

    start, rule = os.path.join(spec["work"], "start"), spec["optimizer"]
    with open(os.path.join(start, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    if transformers_model:
        from transformers import LlamaForCausalLM

        model = LlamaForCausalLM.from_pretrained(start, attn_implementation="sdpa", dtype=torch.float32).train()
        forward = lambda ids, targets: model(input_ids=ids, labels=targets, shift_labels=targets, use_cache=False).loss
    else:
        model = plain_llama(config, load_file(os.path.join(start, "model.safetensors")))
        forward = model
    model.to(spec["device"])
    if dtype:
        model.to(getattr(torch, dtype))
    if compiled:
        forward = torch.compile(forward)
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": rule["weight_decay"]}, {"params": vectors, "weight_decay": 0.0}],
        lr=rule["lr"], betas=tuple(rule["betas"]), eps=rule["eps"], fused=True,
    )
    tokens = torch.load(os.path.join(spec["work"], "tokens.pt"))
    autocast = spec["precision"] == "bf16" and dtype is None
    ends, losses = [now(spec)], []
    for step in range(spec["steps"]):
        loss_of_step = 0.0
        for ids, targets in micro_batches(tokens, spec, step):
            with torch.autocast(spec["device"], torch.bfloat16, enabled=autocast):
                loss = forward(ids, targets)
            loss = loss * (spec["micro_rows"] / spec["rows"])
            loss.backward()
            loss_of_step += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), spec["clip"])
        for group in optimizer.param_groups:
            group["lr"] = rule["lr"] * rate_factor(spec, step)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss_of_step.item())
        ends.append(now(spec))
    return result_of(spec, ends, losses)


def trainer(spec):
    import torch
    from transformers import LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

    model = LlamaForCausalLM.from_pretrained(os.path.join(spec["work"], "start"), dtype=torch.float32)
    tokens = torch.load(os.path.join(spec["work"], "tokens.pt"))
    length, rule = spec["length"], spec["optimizer"]
    num_micro_batches = spec["rows"] // spec["micro_rows"]

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return spec["steps"] * spec["rows"]

        def __getitem__(self, row):
            window = tokens[row * length : (row + 1) * length + 1]
            # shift_labels: targets as they are, else the model would drop the last of each row
            return {"input_ids": window[:-1], "labels": window[1:], "shift_labels": window[1:]}

    ends, losses = [], []

    class Clock(TrainerCallback):
        def on_train_begin(self, *_, **__):
            ends.append(now(spec))

        def on_step_end(self, *_, **__):
            ends.append(now(spec))

    class LossTrainer(Trainer):
        def training_step(self, *args, **kwargs):
            loss = super().training_step(*args, **kwargs)
            losses.append(loss.detach())
            return loss

        def create_scheduler(self, num_training_steps, optimizer=None):
            # Trainer's own warm-up begins at 0, and the first step would change nothing.
            optimizer = self.optimizer if optimizer is None else optimizer
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_factor(spec, step))
            return self.lr_scheduler

    arguments = TrainingArguments(
        output_dir=os.path.join(spec["work"], "trainer"), use_cpu=spec["device"] == "cpu", bf16=spec["precision"] == "bf16",
        per_device_train_batch_size=spec["micro_rows"], gradient_accumulation_steps=num_micro_batches,
        max_steps=spec["steps"], learning_rate=rule["lr"], weight_decay=rule["weight_decay"],
        adam_beta1=rule["betas"][0], adam_beta2=rule["betas"][1], adam_epsilon=rule["eps"], max_grad_norm=spec["clip"],
        save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True, remove_unused_columns=False,
        train_sampling_strategy="sequential",  # the same order as the others
    )
    LossTrainer(model=model, args=arguments, train_dataset=Rows(), callbacks=[Clock()]).train()
    parts = [loss.item() for loss in losses]  # of a micro-batch, already divided by their number
    return result_of(spec, ends, [sum(parts[i : i + num_micro_batches]) for i in range(0, len(parts), num_micro_batches)])


CONTESTANTS = {
    "prepare": prepare,
    "trainer": trainer,
    "loop": loop,
    "compile": lambda spec: loop(spec, compiled=True),
    "hf-loop": lambda spec: loop(spec, transformers_model=True),
    "double": lambda spec: loop(spec, dtype="float64"),
    "pure-bf16": lambda spec: loop(spec, dtype="bfloat16"),
    "pure-bf16-compile": lambda spec: loop(spec, dtype="bfloat16", compiled=True),
}


def main():
    name, spec_path, result_path = sys.argv[1:]
    with open(spec_path, encoding="utf-8") as file:
        spec = json.load(file)
    result = CONTESTANTS[name](spec)
    with open(result_path, "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
