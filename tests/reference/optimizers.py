"""The update rules of docs/optimizers.md in double precision, written with numpy alone from the papers' formulas.

Independent of lmtrain and of torch: one tensor at a time, no batching, no shared state. SOAP keeps its momentum in the
weights' own basis and rotates it at every step, which is the same rule as keeping it rotated (what lmtrain does).
`make_optimizers(folder)` writes the goldens; generate.py calls it.
"""

import json
import math
import os

import numpy as np

STEPS = 50
SAVED_STEPS = [1, 2, 10, 11, 50]
# A Llama with hidden size 6, intermediate size 7, one layer, three heads and a vocabulary of 8: embeddings and head are
# tall, q, k, v, o square, gate and up tall, down wide, norms one-dimensional. A side is at most one longer than the
# other, so that G G^T has no null space in which an eigenbasis would be arbitrary.
HIDDEN, INTERMEDIATE, VOCABULARY = 6, 7, 8
SHAPES = {
    "model.embed_tokens.weight": (VOCABULARY, HIDDEN),
    "lm_head.weight": (VOCABULARY, HIDDEN),
    **{f"model.layers.0.self_attn.{x}_proj.weight": (HIDDEN, HIDDEN) for x in "qkvo"},
    "model.layers.0.mlp.gate_proj.weight": (INTERMEDIATE, HIDDEN),
    "model.layers.0.mlp.up_proj.weight": (INTERMEDIATE, HIDDEN),
    "model.layers.0.mlp.down_proj.weight": (HIDDEN, INTERMEDIATE),
    "model.layers.0.input_layernorm.weight": (HIDDEN,),
    "model.layers.0.post_attention_layernorm.weight": (HIDDEN,),
    "model.norm.weight": (HIDDEN,),
}
PEAK = 1e-2
WEIGHT_DECAY = 0.1
# As optimizer.groups: the first pattern that matches wins.
GROUPS = [
    {"pattern": "*.mlp.down_proj.*", "lr": 2e-2},
    {"pattern": "*.mlp.*", "weight_decay": 0.3},
    {"pattern": "*norm.weight", "lr": 5e-3, "weight_decay": 0.05},
]


def settings_of(name):
    """(lr ratio, weight decay), spelt out instead of matched."""
    if name.endswith("down_proj.weight"):
        return 2.0, WEIGHT_DECAY
    if ".mlp." in name:
        return 1.0, 0.3
    if name.endswith("norm.weight"):
        return 0.5, 0.05
    return 1.0, WEIGHT_DECAY


def is_hidden_matrix(name):
    return name.startswith("model.layers.") and name.endswith("_proj.weight")


class AdamW:
    def __init__(self, shape, betas=(0.9, 0.95), eps=1e-8):
        self.betas, self.eps = betas, eps
        self.state = {"exp_avg": np.zeros(shape), "exp_avg_sq": np.zeros(shape)}

    def update(self, w, g, t, lr, decay):
        b1, b2 = self.betas
        s = self.state
        s["exp_avg"] = b1 * s["exp_avg"] + (1 - b1) * g
        s["exp_avg_sq"] = b2 * s["exp_avg_sq"] + (1 - b2) * g * g
        m, v = s["exp_avg"] / (1 - b1**t), s["exp_avg_sq"] / (1 - b2**t)
        return w - lr * decay * w - lr * m / (np.sqrt(v) + self.eps)


class Lion:
    def __init__(self, shape, betas=(0.9, 0.99)):
        self.betas = betas
        self.state = {"exp_avg": np.zeros(shape)}
        self.margin = np.full(shape, np.inf)  # how near to 0 the sign's argument came

    def update(self, w, g, t, lr, decay):
        b1, b2 = self.betas
        m = self.state["exp_avg"]
        u = b1 * m + (1 - b1) * g
        self.margin = np.minimum(self.margin, np.abs(u))
        self.state["exp_avg"] = b2 * m + (1 - b2) * g
        return w - lr * decay * w - lr * np.sign(u)


class AdEMAMix:
    ALPHA, ALPHA_WARMUP, BETA3_WARMUP = 8.0, 40, 30  # both end within the 50 steps

    def __init__(self, shape, betas=(0.9, 0.999, 0.9999), eps=1e-8):
        self.betas, self.eps = betas, eps
        self.state = {k: np.zeros(shape) for k in ("exp_avg", "exp_avg_slow", "exp_avg_sq")}

    def update(self, w, g, t, lr, decay):
        b1, b2, b3_end = self.betas
        half = lambda b: math.log(0.5) / math.log(b + 1e-8) - 1
        x = min(1.0, t / self.BETA3_WARMUP)
        b3 = b3_end if x == 1 else 0.5 ** (1 / ((1 - x) * half(b1) + x * half(b3_end) + 1))
        alpha = self.ALPHA * min(1.0, t / self.ALPHA_WARMUP)
        s = self.state
        s["exp_avg"] = b1 * s["exp_avg"] + (1 - b1) * g
        s["exp_avg_slow"] = b3 * s["exp_avg_slow"] + (1 - b3) * g
        s["exp_avg_sq"] = b2 * s["exp_avg_sq"] + (1 - b2) * g * g
        mix = s["exp_avg"] / (1 - b1**t) + alpha * s["exp_avg_slow"]
        return w - lr * (mix / (np.sqrt(s["exp_avg_sq"] / (1 - b2**t)) + self.eps) + decay * w)


class Muon:
    MOMENTUM, NS_STEPS = 0.95, 5

    def __init__(self, shape, nesterov=True, adjust_lr="match_rms_adamw"):
        self.nesterov, self.adjust_lr = nesterov, adjust_lr
        self.state = {"momentum_buffer": np.zeros(shape)}

    def update(self, w, g, t, lr, decay):
        mu = self.MOMENTUM
        m = mu * self.state["momentum_buffer"] + (1 - mu) * g
        self.state["momentum_buffer"] = m
        u = mu * m + (1 - mu) * g if self.nesterov else m
        x = u / max(np.sqrt((u * u).sum()), 1e-7)
        rows, columns = x.shape
        x = x.T if rows > columns else x
        for _ in range(self.NS_STEPS):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
        x = x.T if rows > columns else x
        scale = 0.2 * math.sqrt(max(rows, columns))
        if self.adjust_lr == "original":
            scale = math.sqrt(max(1.0, rows / columns))
        return w - lr * decay * w - lr * scale * x


class Soap:
    FREQUENCY = 10

    def __init__(self, shape, name, max_precond_dim, betas=(0.95, 0.95), eps=1e-8):
        self.betas, self.eps = betas, eps
        vocabulary = not is_hidden_matrix(name)
        left = len(shape) == 2 and shape[0] <= max_precond_dim and not vocabulary
        right = len(shape) == 2 and shape[1] <= max_precond_dim
        self.momentum = np.zeros(shape)  # in the weights' basis
        self.state = {"exp_avg_sq": np.zeros(shape)}
        if left:
            self.state["L"] = np.zeros((shape[0], shape[0]))
        if right:
            self.state["R"] = np.zeros((shape[1], shape[1]))
        self.q = {}

    def rotated(self, x):
        x = self.q["L"].T @ x if "L" in self.q else x
        return x @ self.q["R"] if "R" in self.q else x

    def accumulate(self, g):
        b = self.betas[1]
        if "L" in self.state:
            self.state["L"] = b * self.state["L"] + (1 - b) * g @ g.T
        if "R" in self.state:
            self.state["R"] = b * self.state["R"] + (1 - b) * g.T @ g

    def update(self, w, g, t, lr, decay):
        b1, b2 = self.betas
        if t == 1:  # only the bases
            self.accumulate(g)
            for side in self.state.keys() & {"L", "R"}:
                self.q[side] = np.linalg.eigh(self.state[side])[1][:, ::-1]
            return w
        k = t - 1  # moments begin with the second step
        turned = self.rotated(g)
        self.momentum = b1 * self.momentum + (1 - b1) * g
        v = b2 * self.state["exp_avg_sq"] + (1 - b2) * turned * turned
        direction = self.rotated(self.momentum) / (np.sqrt(v) + self.eps)
        direction = self.q["L"] @ direction if "L" in self.q else direction
        direction = direction @ self.q["R"].T if "R" in self.q else direction
        w = w - lr * math.sqrt(1 - b2**k) / (1 - b1**k) * direction
        w = w - lr * decay * w
        self.accumulate(g)
        if k % self.FREQUENCY == 0:
            for axis, side in enumerate("LR"):
                if side not in self.q:
                    continue
                p, q = self.state[side], self.q[side]
                order = np.argsort(-np.diag(q.T @ p @ q), kind="stable")
                v = np.take(v, order, axis=axis)
                self.q[side] = np.linalg.qr(p @ q[:, order])[0]
        self.state["exp_avg_sq"] = v
        return w


class Sgd:
    def __init__(self, shape, momentum=0.9, nesterov=True):
        self.momentum, self.nesterov = momentum, nesterov
        self.velocity = np.zeros(shape)

    def update(self, w, g, t, lr, decay):
        self.velocity = self.momentum * self.velocity + g
        step = g + self.momentum * self.velocity if self.nesterov else self.velocity
        return w - lr * (decay * w + step)


class RmsProp:
    def __init__(self, shape, beta=0.99, eps=1e-8):
        self.beta, self.eps = beta, eps
        self.square = np.zeros(shape)

    def update(self, w, g, t, lr, decay):
        self.square = self.beta * self.square + (1 - self.beta) * g**2
        return w - lr * decay * w - lr * g / (np.sqrt(self.square) + self.eps)


class Adam:
    def __init__(self, shape, betas=(0.9, 0.95), eps=1e-8):
        self.betas, self.eps = betas, eps
        self.m, self.v = np.zeros(shape), np.zeros(shape)

    def update(self, w, g, t, lr, decay):
        b1, b2 = self.betas
        g = g + decay * w
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g**2
        return w - lr * (self.m / (1 - b1**t)) / (np.sqrt(self.v / (1 - b2**t)) + self.eps)


class Adopt:
    def __init__(self, shape, betas=(0.9, 0.9999), eps=1e-6):
        self.betas, self.eps = betas, eps
        self.m, self.v = np.zeros(shape), None

    def update(self, w, g, t, lr, decay):
        b1, b2 = self.betas
        if self.v is None:  # the first gradient is for the second moment alone
            self.v = g**2
            return w
        bound = (t - 1) ** 0.25
        u = np.clip(g / np.maximum(np.sqrt(self.v), self.eps), -bound, bound)
        self.m = b1 * self.m + (1 - b1) * u
        self.v = b2 * self.v + (1 - b2) * g**2
        return (1 - lr * decay) * w - lr * self.m


class Mars:
    GAMMA = 0.025

    def __init__(self, shape, betas=(0.95, 0.99), eps=1e-8):
        self.beta1 = betas[0]
        self.last = np.zeros(shape)
        self.adamw = AdamW(shape, betas, eps)

    def update(self, w, g, t, lr, decay):
        c = g + self.GAMMA * self.beta1 / (1 - self.beta1) * (g - self.last)
        self.last = g
        return self.adamw.update(w, c / max(1.0, math.sqrt((c * c).sum())), t, lr, decay)


RULES = {
    "adamw": lambda shape, name: AdamW(shape),
    "lion": lambda shape, name: Lion(shape),
    "ademamix": lambda shape, name: AdEMAMix(shape),
    "muon": lambda shape, name: Muon(shape) if is_hidden_matrix(name) else AdamW(shape),
    "muon_original": lambda shape, name: Muon(shape, False, "original") if is_hidden_matrix(name) else AdamW(shape),
    "soap": lambda shape, name: Soap(shape, name, 10000),
    "soap_oversized": lambda shape, name: Soap(shape, name, 6),
    "sgd": lambda shape, name: Sgd(shape),
    "sgd_heavy_ball": lambda shape, name: Sgd(shape, nesterov=False),
    "rmsprop": lambda shape, name: RmsProp(shape),
    "adam": lambda shape, name: Adam(shape),
    "adopt": lambda shape, name: Adopt(shape),
    "mars": lambda shape, name: Mars(shape),
}
SETTINGS = {
    "adamw": {"type": "adamw", "betas": [0.9, 0.95]},
    "lion": {"type": "lion", "betas": [0.9, 0.99]},
    "ademamix": {"type": "ademamix", "betas": [0.9, 0.999, 0.9999], "alpha_warmup": 40, "beta3_warmup": 30},
    "muon": {"type": "muon", "betas": [0.9, 0.95]},
    "muon_original": {"type": "muon", "betas": [0.9, 0.95], "nesterov": False, "adjust_lr": "original"},
    "soap": {"type": "soap", "betas": [0.95, 0.95]},
    "soap_oversized": {"type": "soap", "betas": [0.95, 0.95], "max_precond_dim": 6},
    "sgd": {"type": "sgd", "betas": [], "momentum": 0.9},
    "sgd_heavy_ball": {"type": "sgd", "betas": [], "momentum": 0.9, "nesterov": False},
    "rmsprop": {"type": "rmsprop", "betas": [0.99]},
    "adam": {"type": "adam", "betas": [0.9, 0.95]},
    "adopt": {"type": "adopt", "betas": [0.9, 0.9999], "eps": 1e-6},
    "mars": {"type": "mars", "betas": [0.95, 0.99]},
}


def make_optimizers(folder):
    import torch
    from safetensors.numpy import save_file

    random = np.random.Generator(np.random.PCG64(11))
    rates = [PEAK * (t + 1) / 5 if t < 5 else PEAK * 0.98 ** (t - 5) for t in range(STEPS)]
    start = {name: random.standard_normal(shape) for name, shape in SHAPES.items()}
    # The gradient of step t is a sum of four fixed ones: little to store, and never the same.
    basis = {name: random.standard_normal((4, *shape)) for name, shape in SHAPES.items()}
    coefficients = random.standard_normal((STEPS, 4))
    gradient = lambda name, t: sum(coefficients[t - 1, k] * basis[name][k] for k in range(4))
    inputs = {
        "start": np.concatenate([start[name].ravel() for name in SHAPES]),
        "basis": np.concatenate([basis[name].reshape(4, -1) for name in SHAPES], axis=1),
        "coefficients": coefficients,
    }
    save_file(inputs, os.path.join(folder, "inputs.safetensors"))

    for rule, make in RULES.items():
        # [saved step, weight], the tensors one after another in the order of SHAPES.
        steps = {t: [] for t in SAVED_STEPS}
        margins = []
        for name, shape in SHAPES.items():
            ratio, decay = settings_of(name)
            optimizer, w = make(shape, name), start[name]
            for t in range(1, STEPS + 1):
                w = optimizer.update(w, gradient(name, t), t, rates[t - 1] * ratio, decay)
                if t in SAVED_STEPS:
                    steps[t].append(w.ravel())
            if rule == "lion":
                margins.append(optimizer.margin.ravel())
        out = {"weights": np.stack([np.concatenate(steps[t]) for t in SAVED_STEPS])}
        if margins:
            out["margin"] = np.concatenate(margins)
        save_file(out, os.path.join(folder, f"{rule}.safetensors"))

    # torch.optim.Muon itself, in fp32 with its iteration in bf16, on the hidden matrices alone.
    steps = {t: [] for t in SAVED_STEPS}
    for name in filter(is_hidden_matrix, SHAPES):
        ratio, decay = settings_of(name)
        weight = torch.tensor(start[name], dtype=torch.float32, requires_grad=True)
        optimizer = torch.optim.Muon([weight], weight_decay=decay, adjust_lr_fn="match_rms_adamw")
        for t in range(1, STEPS + 1):
            optimizer.param_groups[0]["lr"] = rates[t - 1] * ratio
            weight.grad = torch.tensor(gradient(name, t), dtype=torch.float32)
            optimizer.step()
            if t in SAVED_STEPS:
                steps[t].append(weight.detach().numpy().ravel().copy())
    weights = np.stack([np.concatenate(steps[t]) for t in SAVED_STEPS])
    save_file({"weights": weights}, os.path.join(folder, "torch_muon.safetensors"))

    settings = {
        "saved_steps": SAVED_STEPS, "lr": PEAK, "weight_decay": WEIGHT_DECAY, "eps": 1e-8, "groups": GROUPS,
        "rates": rates, "rules": SETTINGS, "versions": {"numpy": np.__version__, "torch": torch.__version__.split("+")[0]},
    }
    with open(os.path.join(folder, "optimizers.json"), "w", encoding="utf-8", newline="\n") as file:
        json.dump(settings, file, indent=1)
        file.write("\n")
    print(f"optimizers: {len(SETTINGS)} rules, {sum(math.prod(s) for s in SHAPES.values())} weights")
