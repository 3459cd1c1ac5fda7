#!/usr/bin/env python3
"""Writes the golden data of tests/reference (what each file is: README.md).

Run by hand, never by the build or the tests:
    python3 -m venv VENV && VENV/bin/pip install -r tests/reference/requirements.txt
    VENV/bin/python tests/reference/generate.py            # all parts
    VENV/bin/python tests/reference/generate.py llama lr   # some parts

Pinned: Python 3.11, torch 2.11.0, transformers 5.23.0, sentencepiece 0.2.3, safetensors 0.8.0 (requirements.txt).
Deterministic: one thread, seeds fixed; the same processor family writes the same bytes, another one the same
values up to the noise floor that every golden.json records (float32 against a float64 oracle written here).
"""

import json
import math
import os
import shutil
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["OMP_NUM_THREADS"] = "1"

import sentencepiece
import torch
import torch.nn.functional as F
import transformers
from optimizers import make_optimizers
from safetensors.torch import save_file
from transformers import (
    LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

HERE = os.path.dirname(os.path.abspath(__file__))
IGNORE = -100
CLASSES = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "mistral": (MistralConfig, MistralForCausalLM),
}
VERSIONS = {
    "torch": torch.__version__.split("+")[0],
    "transformers": transformers.__version__,
    "sentencepiece": sentencepiece.__version__,
}


def write_json(path, value):
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        json.dump(value, file, indent=1, ensure_ascii=False)
        file.write("\n")


def fresh_folder(*parts):
    path = os.path.join(HERE, *parts)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


# ------------------------------------------------------------------------------------------------------------------
# A float64 Llama (and Qwen3, Qwen2, Mistral) of our own: the oracle that says how far float32 rounding alone moves transformers' numbers.


def oracle_yarn(rope, frequency, head_dim):
    """YaRN (Peng et al. 2023, 2309.00071): frequencies, and the factor of cosines and sines."""

    def scale_of(weight):
        return 0.1 * weight * math.log(rope["factor"]) + 1

    def pair_that_turns(times):
        old_context = rope["original_max_position_embeddings"]
        return head_dim * math.log(old_context / (times * 2 * math.pi)) / (2 * math.log(rope["rope_theta"]))

    first, last = pair_that_turns(rope.get("beta_fast", 32)), pair_that_turns(rope.get("beta_slow", 1))
    if rope.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, head_dim - 1)
    pair = torch.arange(head_dim // 2, dtype=torch.float64)
    slow = ((pair - first) / (last - first or 1e-3)).clamp(0, 1)  # transformers takes an end before the first pair so
    factor = rope.get("attention_factor")
    if factor is None:
        both = rope.get("mscale") and rope.get("mscale_all_dim")
        factor = scale_of(rope["mscale"]) / scale_of(rope["mscale_all_dim"]) if both else scale_of(1)
    return frequency * (1 - slow) + frequency / rope["factor"] * slow, factor


def oracle_rotation(config, head_dim):
    """The angle of each pair at position 1, and the factor of cosines and sines."""
    rope = config.rope_parameters
    exponent = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    frequency = rope["rope_theta"] ** -exponent
    if rope["rope_type"] == "default":
        return frequency, 1
    if rope["rope_type"] == "linear":
        return frequency / rope["factor"], 1
    if rope["rope_type"] == "yarn":
        return oracle_yarn(rope, frequency, head_dim)
    assert rope["rope_type"] == "llama3"
    wavelength = 2 * math.pi / frequency
    old_context = rope["original_max_position_embeddings"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    smooth = ((old_context / wavelength - low) / (high - low)).clamp(0, 1)
    return (1 - smooth) * frequency / rope["factor"] + smooth * frequency, 1


def oracle_logits(config, weights, ids_BT):
    """Logits [B, T, V] in float64 from float64 weights under their HF names."""
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    head_dim = getattr(config, "head_dim", config.hidden_size // heads)
    batch, length = ids_BT.shape

    def norm(x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config.rms_norm_eps) * weights[name]

    frequency, factor = oracle_rotation(config, head_dim)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    cos, sin = torch.cat([angle, angle], -1).cos() * factor, torch.cat([angle, angle], -1).sin() * factor

    def rotate(x):
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat([-second, first], -1) * sin

    causal = torch.ones(length, length, dtype=torch.bool).tril()
    x = weights["model.embed_tokens.weight"][ids_BT]
    for layer in range(config.num_hidden_layers):
        p = f"model.layers.{layer}."
        h = norm(x, p + "input_layernorm.weight")

        def project(key, count):
            y = h @ weights[f"{p}self_attn.{key}_proj.weight"].T
            if config.model_type == "qwen2":
                y = y + weights[f"{p}self_attn.{key}_proj.bias"]
            return y.view(batch, length, count, head_dim).transpose(1, 2)

        q, k, v = project("q", heads), project("k", kv_heads), project("v", kv_heads)
        if config.model_type == "qwen3":
            q, k = norm(q, p + "self_attn.q_norm.weight"), norm(k, p + "self_attn.k_norm.weight")
        q, k = rotate(q), rotate(k)
        k = k.repeat_interleave(heads // kv_heads, 1)
        v = v.repeat_interleave(heads // kv_heads, 1)
        score = (q @ k.transpose(-1, -2) / math.sqrt(head_dim)).masked_fill(~causal, -math.inf)
        h = (score.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, heads * head_dim)
        x = x + h @ weights[p + "self_attn.o_proj.weight"].T
        h = norm(x, p + "post_attention_layernorm.weight")
        h = F.silu(h @ weights[p + "mlp.gate_proj.weight"].T) * (h @ weights[p + "mlp.up_proj.weight"].T)
        x = x + h @ weights[p + "mlp.down_proj.weight"].T
    head = "model.embed_tokens.weight" if config.tie_word_embeddings else "lm_head.weight"
    return norm(x, "model.norm.weight") @ weights[head].T


def mean_loss(logits_BTV, targets_BT):
    return F.cross_entropy(logits_BTV.flatten(0, 1), targets_BT.flatten(), ignore_index=IGNORE, reduction="mean")


def largest_difference(a, b):
    """The acceptance measure: largest difference over max(1, largest value)."""
    return ((a.double() - b.double()).abs().max() / max(1.0, b.double().abs().max().item())).item()


# ------------------------------------------------------------------------------------------------------------------
# llama/


def llama_config(**changes):
    base = dict(
        vocab_size=67, hidden_size=16, intermediate_size=36, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=64, rms_norm_eps=1e-5, initializer_range=0.15,
        tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, use_cache=False,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )
    base.update(changes)
    return CLASSES[base.pop("model_type", "llama")][0](**base)


# name: (config changes, rows, length)
LLAMA_CASES = {
    "mha_tied": (dict(tie_word_embeddings=True), 3, 12),
    "mha_untied": (dict(), 3, 12),
    "gqa_untied": (dict(num_key_value_heads=2), 4, 9),
    "mqa_tied": (dict(num_key_value_heads=1, tie_word_embeddings=True), 3, 12),
    # wavelengths 6.3 (kept), 29.7 (blended), 140 and 664 (divided): all three bands of llama3 scaling
    "rope_llama3": (
        dict(
            hidden_size=16, num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True,
            max_position_embeddings=128,
            rope_parameters={
                "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
            },
        ),
        2, 80,
    ),
    "odd_vocab": (dict(vocab_size=131), 3, 7),
    "head_dim": (dict(head_dim=6, num_key_value_heads=2, tie_word_embeddings=True), 3, 12),
    "rms_eps": (dict(rms_norm_eps=1e-6, num_key_value_heads=2, tie_word_embeddings=True), 1, 16),
    "qwen3_tied": (
        dict(model_type="qwen3", head_dim=6, num_key_value_heads=2, tie_word_embeddings=True, rms_norm_eps=1e-6), 3, 12
    ),
    "qwen3_untied": (dict(model_type="qwen3", head_dim=4), 3, 9),
    "qwen2_tied": (
        dict(model_type="qwen2", num_key_value_heads=2, tie_word_embeddings=True, rms_norm_eps=1e-6), 3, 12
    ),
    "qwen2_untied": (dict(model_type="qwen2"), 3, 9),
    "mistral": (dict(model_type="mistral", head_dim=6, num_key_value_heads=2, sliding_window=64), 3, 9),
    "rope_linear": (
        dict(
            num_key_value_heads=2, tie_word_embeddings=True,
            rope_parameters={"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0},
        ),
        2, 24,
    ),
    # pairs 0 (kept), 1 (blended), 2 and 3 (divided)
    "rope_yarn": (
        dict(
            num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True,
            rope_parameters={
                "rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 32,
            },
        ),
        2, 48,
    ),
    "rope_yarn_qwen2": (
        dict(
            model_type="qwen2", num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True,
            rope_parameters={
                "rope_type": "yarn", "rope_theta": 500.0, "factor": 8.0, "original_max_position_embeddings": 32,
                "beta_fast": 8.0, "beta_slow": 0.5, "mscale": 1.5, "mscale_all_dim": 0.5, "truncate": False,
            },
        ),
        2, 32,
    ),
}

ADAMW = {"betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
PEAK_LR, WARMUP_STEPS, WARMUP_START, MIN_RATIO, STEPS = 1e-2, 3, 0.1, 0.1, 10
CLIP_MAX_NORM = 0.5


def schedule_lr(t):
    """The contract's formula: linear warm-up from WARMUP_START, then cosine to MIN_RATIO."""
    if t < WARMUP_STEPS:
        return PEAK_LR * (WARMUP_START + (1 - WARMUP_START) * t / WARMUP_STEPS)
    p = (t - WARMUP_STEPS) / (STEPS - WARMUP_STEPS)
    floor = MIN_RATIO * PEAK_LR
    return floor + (PEAK_LR - floor) * (1 + math.cos(math.pi * p)) / 2


def ragged_batch(generator, rows, length, vocab):
    """Inputs [B, T] and targets [B, T]; row r is shorter by some tokens, padded at the right (input 0, target -100)."""
    tokens = torch.randint(3, vocab, (rows, length + 1), generator=generator)
    tokens[:, 0] = 1
    inputs, targets = tokens[:, :-1].clone(), tokens[:, 1:].clone()
    for row in range(1, rows):
        used = int(torch.randint(max(1, length // 3), length, (1,), generator=generator))
        targets[row, used - 1] = 2
        inputs[row, used:] = 0
        targets[row, used:] = IGNORE
    return inputs.contiguous(), targets.contiguous()


def adamw_run(model_step, parameters, batches, learning_rates):
    """Ten steps; gives losses before each update and gradient norms before clipping."""
    decayed = [p for p in parameters if p.dim() >= 2]
    plain = [p for p in parameters if p.dim() < 2]
    groups = [
        {"params": decayed, "weight_decay": ADAMW["weight_decay"]},
        {"params": plain, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1.0, betas=tuple(ADAMW["betas"]), eps=ADAMW["eps"], foreach=False)
    losses, norms = [], []
    for (inputs, targets), lr in zip(batches, learning_rates):
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad(set_to_none=True)
        loss = mean_loss(model_step(inputs), targets)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, CLIP_MAX_NORM, foreach=False).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def config_for_transformers_4(config):
    """The same config in the form that transformers 4 wrote: rope_theta and rope_scaling at the top level."""
    old = config.to_diff_dict() | {"architectures": config.architectures, "torch_dtype": "float32"}
    rope = dict(old.pop("rope_parameters"))
    old.pop("dtype", None)
    old["transformers_version"] = "4.57.6"
    old["rope_theta"] = rope.pop("rope_theta")
    old["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    return dict(sorted(old.items()))


def make_llama():
    for index, (name, (changes, rows, length)) in enumerate(LLAMA_CASES.items()):
        folder = fresh_folder("llama", name)
        config = llama_config(**changes)
        torch.manual_seed(1000 + index)
        model = CLASSES[config.model_type][1]._from_config(config, attn_implementation="sdpa", dtype=torch.float32)
        model.eval()
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                if parameter.dim() == 1:  # norm weights start at one, which would hide a forgotten multiplication
                    parameter.add_((0.5 if key.endswith(".bias") else 0.1) * torch.randn(parameter.shape))
        model.save_pretrained(folder)
        os.remove(os.path.join(folder, "generation_config.json"))
        write_json(os.path.join(folder, "config_v4.json"), config_for_transformers_4(model.config))

        generator = torch.Generator().manual_seed(2000 + index)
        batches = [ragged_batch(generator, rows, length, config.vocab_size) for _ in range(STEPS)]
        inputs, targets = batches[0]
        logits = model(input_ids=inputs).logits
        loss = mean_loss(logits, targets)
        loss.backward()
        named = dict(model.named_parameters())
        golden = {"input_ids": inputs, "labels": targets, "logits": logits.detach().contiguous()}
        golden |= {"grad." + key: value.grad.clone() for key, value in named.items()}
        golden["adamw.input_ids"] = torch.stack([batch[0] for batch in batches])
        golden["adamw.labels"] = torch.stack([batch[1] for batch in batches])
        save_file(golden, os.path.join(folder, "golden.safetensors"))

        weights = {key: value.detach().double().requires_grad_() for key, value in named.items()}
        exact_logits = oracle_logits(config, weights, inputs)
        exact_loss = mean_loss(exact_logits, targets)
        exact_loss.backward()
        gradient_noise = {k: largest_difference(v.grad, weights[k].grad) for k, v in named.items()}
        largest_gradient = max(v.grad.abs().max().item() for v in named.values())
        noise = {
            "logits": largest_difference(logits.detach(), exact_logits.detach()),
            "loss": abs(loss.item() - exact_loss.item()) / max(1.0, exact_loss.item()),
            "gradients": max(gradient_noise.values()),
        }

        learning_rates = [schedule_lr(t) for t in range(STEPS)]
        losses, norms = adamw_run(lambda x: model(input_ids=x).logits, list(named.values()), batches, learning_rates)
        exact_losses, exact_norms = adamw_run(
            lambda x: oracle_logits(config, weights, x), list(weights.values()), batches, learning_rates
        )
        noise["adamw_losses"] = max(abs(a - b) / max(1.0, b) for a, b in zip(losses, exact_losses))
        noise["adamw_grad_norms"] = max(abs(a - b) / max(1.0, b) for a, b in zip(norms, exact_norms))

        write_json(
            os.path.join(folder, "golden.json"),
            {
                "case": name,
                "rows": rows,
                "length": length,
                "targets": int((targets != IGNORE).sum()),
                "loss": loss.item(),
                "largest_logit": logits.abs().max().item(),
                "largest_gradient": largest_gradient,
                "adamw": {
                    **ADAMW,
                    "decay_on": "tensors of two or more dimensions",
                    "clip_max_norm": CLIP_MAX_NORM,
                    "lr_peak": PEAK_LR,
                    "lr_schedule": {
                        "type": "cosine", "warmup": WARMUP_STEPS, "warmup_shape": "linear",
                        "warmup_start": WARMUP_START, "min_ratio": MIN_RATIO, "steps": STEPS,
                    },
                    "lr": learning_rates,
                    "losses": losses,
                    "grad_norms": norms,
                    "losses_float64": exact_losses,
                },
                "noise_float32": noise,
                "versions": VERSIONS,
            },
        )
        print(f"llama/{name}: loss {loss.item():.4f} -> {losses[-1]:.4f}, grad norm {norms[0]:.3f},", end=" ")
        print("noise " + " ".join(f"{key} {value:.1e}" for key, value in noise.items()))


# ------------------------------------------------------------------------------------------------------------------
# rope/

YARN = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 32768}
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
ROPES = [
    {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.5},
    {"rope_type": "llama3", "rope_theta": 5e5, "factor": 32.0} | LLAMA3,
    YARN,
    YARN | {"attention_factor": 0.75},
    YARN | {"mscale": 0.707, "mscale_all_dim": 1.0},
    YARN | {"mscale": 0.707},  # alone it changes nothing
    YARN | {"mscale": 0.0, "mscale_all_dim": 1.0},  # nor does a 0
    YARN | {"beta_fast": 16.0, "beta_slow": 2.0, "truncate": False},
    YARN | {"factor": 1.0},
    YARN | {"rope_theta": 150000.0, "original_max_position_embeddings": 4, "truncate": False},  # the end is before pair 0
]


def make_rope():
    """Frequencies and factors of transformers' own functions, for heads of 16."""
    folder = fresh_folder("rope")
    cases = []
    for rope in ROPES:
        config = LlamaConfig(
            hidden_size=64, num_attention_heads=4, max_position_embeddings=131072, rope_parameters=dict(rope)
        )
        frequencies, factor = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config)
        exact, exact_factor = oracle_rotation(config, 16)
        difference = ((frequencies - exact) / exact).abs().max().item()
        assert difference < 1e-6 and abs(factor - exact_factor) < 1e-9, (rope, difference, factor, exact_factor)
        cases.append({"rope_parameters": rope, "inverse_frequencies": frequencies.tolist(), "factor": factor})
    write_json(os.path.join(folder, "rope.json"), {"head_dim": 16, "cases": cases, "versions": VERSIONS})
    print(f"rope: {len(cases)} cases")


# ------------------------------------------------------------------------------------------------------------------
# adamw/


def make_adamw():
    folder = fresh_folder("adamw")
    settings = {"betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
    saved_steps = [1, 2, 10, 11, 50]
    generator = torch.Generator().manual_seed(7)
    shapes = {"matrix": (3, 5), "vector": (4,)}
    start = {k: torch.randn(s, dtype=torch.float64, generator=generator) for k, s in shapes.items()}
    # Gradients from 1e-9 (where eps counts) to 10, one element of each tensor always exactly zero.
    scale = {k: torch.logspace(-9, 1, math.prod(s), dtype=torch.float64).view(s) for k, s in shapes.items()}
    grads = {
        k: torch.randn((50, *s), dtype=torch.float64, generator=generator) * scale[k] for k, s in shapes.items()
    }
    for value in grads.values():
        value.view(50, -1)[:, 2] = 0.0
    learning_rates = [1e-2 * (0.1 + 0.9 * t / 10) if t < 10 else 1e-2 * 0.97 ** (t - 10) for t in range(50)]

    params = {k: v.clone().requires_grad_() for k, v in start.items()}
    optimizer = torch.optim.AdamW(
        [
            {"params": [params["matrix"]], "weight_decay": settings["weight_decay"]},
            {"params": [params["vector"]], "weight_decay": 0.0},
        ],
        lr=1.0, betas=tuple(settings["betas"]), eps=settings["eps"], foreach=False,
    )
    out = {f"{k}.start": v for k, v in start.items()} | {f"{k}.grads": v for k, v in grads.items()}
    for t in range(50):
        for group in optimizer.param_groups:
            group["lr"] = learning_rates[t]
        for k, p in params.items():
            p.grad = grads[k][t].clone()
        optimizer.step()
        if t + 1 in saved_steps:
            for k, p in params.items():
                state = optimizer.state[p]
                out[f"{k}.step{t + 1}.param"] = p.detach().clone()
                out[f"{k}.step{t + 1}.exp_avg"] = state["exp_avg"].clone()
                out[f"{k}.step{t + 1}.exp_avg_sq"] = state["exp_avg_sq"].clone()
    save_file(out, os.path.join(folder, "adamw.safetensors"))
    write_json(
        os.path.join(folder, "adamw.json"),
        {
            **settings,
            "weight_decay_of": {"matrix": settings["weight_decay"], "vector": 0.0},
            "saved_steps": saved_steps,
            "lr": learning_rates,
            "versions": VERSIONS,
        },
    )
    print(f"adamw: {len(out)} tensors")


# ------------------------------------------------------------------------------------------------------------------
# lr/


def make_lr():
    folder = fresh_folder("lr")
    peak, warmup, total, floor = 1e-2, 10, 100, 1e-4
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=peak)
    scheduler = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=warmup),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=total - warmup, eta_min=floor),
        ],
        milestones=[warmup],
    )
    values = []
    for _ in range(total):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()

    def formula(t):
        if t < warmup:
            return peak * (0.1 + 0.9 * t / warmup)
        return floor + (peak - floor) * (1 + math.cos(math.pi * (t - warmup) / (total - warmup))) / 2

    difference = max(abs(value - formula(t)) / peak for t, value in enumerate(values))
    write_json(
        os.path.join(folder, "lr.json"),
        {
            "peak": peak, "warmup_steps": warmup, "warmup_shape": "linear", "warmup_start": 0.1, "type": "cosine",
            "total_steps": total, "min_ratio": floor / peak, "lr": values,
            "largest_difference_from_formula_over_peak": difference, "versions": VERSIONS,
        },
    )
    print(f"lr: largest difference from the formula {difference:.1e} of the peak")


# ------------------------------------------------------------------------------------------------------------------
# eval/ and tokenizer/

CORPUS = [
    "def mean(values):\n    total = 0.0\n    for value in values:\n        total += value\n    return total / len(values)\n",
    "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n        self.items.append(item)\n",
    "for row in range(10):\n\tfor column in range(10):\n\t\tprint(row * column, end='\\t')\n\tprint()\n",
    "The river rises in the hills, turns south at the old mill, and reaches the sea after forty miles.\n",
    "A small model learns the shape of a sentence first: words, spaces, then which word follows which.\n",
    "When the sentence ends, the line ends; when the line ends, the next sentence begins.\n",
    "if value is None:\n    raise ValueError('value is required')\nreturn [value for value in values if value > 0]\n",
    "import os\nimport sys\n\nfrom collections import Counter\n\ncounts = Counter(word for line in sys.stdin for word in line.split())\n",
    "The price was 12.50 in 2019, 13.75 in 2020 and 1,024.00 in the year after; nobody knows why.\n",
    "caf\u00e9, na\u00efve, \u00fcber, \u0161koda and \u6771\u4eac are words with letters outside of ASCII.\n",
]

DOCUMENTS = {
    "00_code.txt": "def largest(values):\n    best = values[0]\n    for value in values[1:]:\n        if value > best:\n"
    "            best = value\n    return best\n",
    "01_prose.txt": "The old mill turns when the river rises.",
    "02_empty.txt": "",
    "03_long.txt": "".join(
        f"{number}. The line after line {number} begins where the sentence of line {number} ends.\n" for number in range(1, 9)
    ),
    "04_tabs.txt": "\tname\tvalue\n\tprice\t12.50\n\n\n\ttotal \t 1,024.00  \n",
    "05_emoji.txt": "\U0001f600 caf\u00e9 \U0001f468\u200d\U0001f469\u200d\U0001f467 \u6771\u4eac \u0000 end",
    "06_space.txt": " ",
    "07_letter.txt": "x",
}

TOKENIZER_TEXTS = list(DOCUMENTS.values()) + [
    "Hello world", " leading", "trailing ", "  two  spaces  ", "\n", "\n\n\n", "\t\t", "\r\n", " \n \n", "a" * 40,
    "12345678901234567890", "x=1;y=2", "</tag>", "\u00e9", "e\u0301", "\u2581", "a\u2581b", "\u3000", "\u00a0", "\ufeffbom",
    "\ufb01 \uff21 \u2460", "\U0001f1e9\U0001f1ea", "\u0000", "\u007f\u0001", "\ud7ff\ue000\ufffd", "\u0645\u0631\u062d\u0628\u0627",
    "        return [value for value in values]\n", "CamelCase_snake_case kebab-case", "don't can't", "...---...",
]
SPECIAL_TEXTS = ["<s>", "</s>", "<unk>", "<0x41>", "a<s>b"]


def train_tokenizer(path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_prefix=path.removesuffix(".model"), model_type="bpe", vocab_size=384,
        byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=False,
        remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, split_by_number=False,
        split_by_unicode_script=False, character_coverage=1.0, unk_id=0, bos_id=1, eos_id=2, pad_id=-1,
        num_threads=1, minloglevel=2,
    )
    os.remove(path.removesuffix(".model") + ".vocab")


TOKENIZER_CONFIG = {
    "tokenizer_class": "LlamaTokenizer",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "add_bos_token": True,
    "add_eos_token": False,
    "add_prefix_space": False,
    "legacy": False,
    "clean_up_tokenization_spaces": False,
    "split_special_tokens": True,  # text never spells control tokens: ids are sentencepiece's for every text
    "model_max_length": 64,
}


def make_tokenizer():
    folder = fresh_folder("tokenizer")
    train_tokenizer(os.path.join(folder, "tokenizer.model"))
    processor = sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, "tokenizer.model"))

    def entry(text):
        data = text if isinstance(text, bytes) else text.encode("utf-8")
        ids = processor.encode(data.decode("utf-8"))
        return {"hex": data.hex(), "ids": ids, "lossless": processor.decode(ids).encode("utf-8") == data}

    write_json(
        os.path.join(folder, "golden.json"),
        {
            "vocab_size": processor.get_piece_size(),
            "unk": processor.unk_id(), "bos": processor.bos_id(), "eos": processor.eos_id(), "pad": processor.pad_id(),
            "texts": [entry(text) for text in TOKENIZER_TEXTS],
            "special_texts": [entry(text) for text in SPECIAL_TEXTS],
            "versions": VERSIONS,
        },
    )
    lossy = [t for t in TOKENIZER_TEXTS if not entry(t)["lossless"]]
    print(f"tokenizer: {processor.get_piece_size()} pieces, {len(TOKENIZER_TEXTS)} texts, lossy: {lossy!r}")


def document_nats(model, tokens, max_length):
    """Sum of nats over a document's targets, in consecutive windows of max_length targets that share one token."""
    nats = 0.0
    for begin in range(0, len(tokens) - 1, max_length):
        window = torch.tensor([tokens[begin : begin + max_length + 1]])
        logits = model(input_ids=window[:, :-1]).logits[0].float()
        nats += F.cross_entropy(logits, window[0, 1:], reduction="none").double().sum().item()
    return nats


def make_eval():
    folder = fresh_folder("eval")
    hf, sharded, documents = (os.path.join(folder, name) for name in ("hf", "hf_sharded", "documents"))
    for path in (hf, sharded, documents):
        os.makedirs(path)
    tokenizer = os.path.join(HERE, "tokenizer", "tokenizer.model")
    if not os.path.exists(tokenizer):
        make_tokenizer()
    processor = sentencepiece.SentencePieceProcessor(model_file=tokenizer)

    config = llama_config(
        vocab_size=processor.get_piece_size(), num_key_value_heads=2, tie_word_embeddings=True, initializer_range=0.1
    )
    torch.manual_seed(3000)
    model = LlamaForCausalLM._from_config(config, attn_implementation="sdpa", dtype=torch.float32).eval()
    with torch.no_grad():  # a few steps, so that the model is better than chance on these texts
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn(parameter.shape))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    lines = [[1, *processor.encode(text), 2] for text in CORPUS]
    for _ in range(15):
        for ids in lines:
            ids = torch.tensor([ids[:65]])
            optimizer.zero_grad()
            mean_loss(model(input_ids=ids[:, :-1]).logits, ids[:, 1:]).backward()
            optimizer.step()
    with torch.no_grad():  # values that bf16 holds exactly: both folders have the same weights
        for parameter in model.parameters():
            parameter.copy_(parameter.bfloat16().float())
    model.save_pretrained(hf)

    # The same weights as bf16 in two files with an index, as transformers shards a large model.
    half = LlamaForCausalLM.from_pretrained(hf, dtype=torch.bfloat16)
    size = sum(p.numel() * 2 for p in half.parameters())
    half.save_pretrained(sharded, max_shard_size=int(size * 0.55))
    shards = sorted(name for name in os.listdir(sharded) if name.endswith(".safetensors"))
    assert len(shards) == 2, shards
    for path in (hf, sharded):
        shutil.copyfile(tokenizer, os.path.join(path, "tokenizer.model"))
        write_json(os.path.join(path, "tokenizer_config.json"), TOKENIZER_CONFIG)

    for name, text in DOCUMENTS.items():
        with open(os.path.join(documents, name), "wb") as file:
            file.write(text.encode("utf-8"))
    with open(os.path.join(folder, "documents.jsonl"), "w", encoding="utf-8", newline="\n") as file:
        for text in DOCUMENTS.values():
            file.write(json.dumps({"text": text}) + "\n")

    weights = {key: value.detach().double() for key, value in model.named_parameters()}

    def exact_model(input_ids):
        return transformers.modeling_outputs.CausalLMOutput(logits=oracle_logits(config, weights, input_ids))

    golden = {"documents": [], "max_length": {}, "versions": VERSIONS}
    total_bytes = 0
    for name, text in DOCUMENTS.items():
        ids = processor.encode(text)
        total_bytes += len(text.encode("utf-8"))
        golden["documents"].append({"file": name, "bytes": len(text.encode("utf-8")), "ids": ids})
    with torch.no_grad():
        for max_length in (16, 64):
            every = []
            exact = 0.0
            for text in DOCUMENTS.values():
                tokens = [1, *processor.encode(text), 2]
                every.append({"targets": len(tokens) - 1, "nats": document_nats(model, tokens, max_length)})
                for begin in range(0, len(tokens) - 1, max_length):
                    window = torch.tensor([tokens[begin : begin + max_length + 1]])
                    exact += mean_loss(oracle_logits(config, weights, window[:, :-1]), window[:, 1:]).item() * (
                        window.shape[1] - 1
                    )
            nats = sum(row["nats"] for row in every)
            targets = sum(row["targets"] for row in every)
            loss = nats / targets
            golden["max_length"][str(max_length)] = {
                "loss": loss,
                "perplexity": math.exp(loss),
                "bits_per_byte": nats / (math.log(2) * total_bytes),
                "tokens": targets,
                "bytes": total_bytes,
                "documents": len(DOCUMENTS),
                "per_document": every,
                "noise_float32": abs(loss - exact / targets) / max(1.0, loss),
            }
            print(f"eval {max_length}: loss {loss:.6f}, {targets} targets, noise {abs(loss - exact / targets):.1e}")
    write_json(os.path.join(folder, "golden.json"), golden)


# ------------------------------------------------------------------------------------------------------------------
# continuations/


def continue_prompt(model, prompt, **options):
    """The tokens of transformers' generate, and how near the second likeliest token ever came."""
    output = model.generate(
        torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
        max_new_tokens=200, use_cache=True, return_dict_in_generate=True, output_scores=True, **options,
    )
    best = torch.stack(output.scores)[:, 0].topk(2).values
    return output.sequences[0, len(prompt) :].tolist(), (best[:, 0] - best[:, 1]).min().item()


def make_continuations():
    folder = fresh_folder("continuations")
    penalty, positions, margin = 1.2, 256, 2e-5
    for name in ("gqa_untied", "rope_llama3"):
        model = LlamaForCausalLM.from_pretrained(os.path.join(HERE, "llama", name), max_position_embeddings=positions)
        model.generation_config.eos_token_id = None  # 200 tokens, whatever they are
        model.generation_config.pad_token_id = 0
        generator = torch.Generator().manual_seed(77)
        prompts = []
        while len(prompts) < 20:
            length = 1 + 2 * len(prompts)
            prompt = torch.randint(0, model.config.vocab_size, (length,), generator=generator).tolist()
            greedy, gap = continue_prompt(model, prompt)
            penalized, penalized_gap = continue_prompt(model, prompt, repetition_penalty=penalty)
            # What rounding may decide is no reference.
            if min(gap, penalized_gap) >= margin:
                prompts.append({"prompt": prompt, "greedy": greedy, "penalized": penalized})
        golden = {"versions": VERSIONS, "max_position_embeddings": positions, "repetition_penalty": penalty}
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8", newline="\n") as file:
            lines = ",\n  ".join(json.dumps(entry) for entry in prompts)
            file.write(json.dumps(golden)[:-1] + ',\n "prompts": [\n  ' + lines + "\n ]}\n")
        print(f"continuations {name}: {len(prompts)} prompts")


PARTS = {
    "llama": make_llama,
    "rope": make_rope,
    "adamw": make_adamw,
    "optimizers": lambda: make_optimizers(fresh_folder("optimizers")),
    "lr": make_lr,
    "tokenizer": make_tokenizer,
    "eval": make_eval,
    "continuations": make_continuations,
}


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in sys.argv[1:] or PARTS:
        if name not in PARTS:
            sys.exit(f"unknown part {name}; parts: {' '.join(PARTS)}")
        PARTS[name]()
    total = sum(
        os.path.getsize(os.path.join(root, name)) for root, _, names in os.walk(HERE) for name in names
    )
    print(f"total {total} bytes")
    if total >= 3_000_000:
        sys.exit("goldens must stay below 3 MB")


if __name__ == "__main__":
    main()
