#!/usr/bin/env python3
"""Time to a given loss: Hugging Face Trainer at its best of three learning rates against lmtrain's recipe, on a CPU or a GPU.

    python=$(scripts/check_transformers.sh --python)      # the virtual environment with torch and transformers
    $python scripts/time_to_loss.py configs/muon_7m.json --corpus "$(scripts/setup.sh --print-torch-root)" --json result.json
    python3 scripts/time_to_loss.py --size 30m --device cuda --tokens 10M --search-tokens 2.5M --peer-batch 32768 \
      --corpus "$(scripts/setup.sh --print-torch-root)"     # one GPU; nothing is chosen but text, size and tokens

Both learn the same Llama (the sizes of the config) from the same documents with the same tokenizer, and are judged by
`lmtrain eval` in fp32 on the same held-out documents, a hundredth of the corpus. The peer is transformers.Trainer as its
users run it: AdamW, documents joined and cut at 1024 tokens, shuffled, linear warm-up and cosine decay, bf16=True where
the processor has it, and as many tokens a step as the config says. Its time is that of train() alone; its loss that of
its last weights. lmtrain's time is `elapsed` of its metrics: training with waiting for data, without evaluations and
saves, read off between the two evaluations that enclose the peer's loss.

A loss in the middle of a schedule is not what a schedule of that length would end with. So `--ends 120K,160K,320K` also
trains whole runs of so many tokens, evaluated at their end, and compares these with the peer's best rate in pairs: one
pair for each of `--seeds`, both sides with that seed. Seeds go on until each row's difference is beyond three standard
errors and at least three pairs are there; the rest cannot change the verdict then, and is left out.

With --search-tokens the peer's rate is chosen by whole runs of so many tokens, and the best one alone has all tokens; the
search is not counted. With --size lmtrain takes the recipe for that size, its length of rows too, and the peer has rows of
1024. On a GPU both sides are judged in bf16, and the peer has TF32 and AdamW's fused kernel.

Every stage keeps its result in --work and is not done twice: stop it and start it again as you like. Run it on an idle
machine. `--set` goes to lmtrain alone.
"""

import argparse
import concurrent.futures
import glob
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time

from run_files import crossing, evaluations, paired, read_json, write_json
from sweep.table import aligned, mean, short

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LENGTH = 1024
SHARD_HEADER = 64


def split_corpus(corpus, work):
    """Links every Python source of the corpus into work/train or work/held_out, chosen by a hash of its text."""
    if os.path.exists(os.path.join(work, "split.json")):
        return
    for side in ("train", "held_out"):
        shutil.rmtree(os.path.join(work, side), ignore_errors=True)
        os.makedirs(os.path.join(work, side))
    counts = {"train": 0, "held_out": 0}
    for path in sorted(glob.glob(os.path.join(corpus, "**", "*.py"), recursive=True)):
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).digest()
        side = "held_out" if digest[0] * 256 + digest[1] < 656 else "train"  # 1 %
        name = os.path.relpath(path, corpus).replace(os.sep, "__")
        os.symlink(os.path.abspath(path), os.path.join(work, side, name))
        counts[side] += 1
    write_json(os.path.join(work, "split.json"), counts)


def read_shard(path):
    """(ids, ends of the documents) of a token shard, docs/formats/token_shard.md."""
    import numpy

    header = open(path, "rb").read(SHARD_HEADER)
    assert header[:8] == b"LMTSHARD", path
    size = int.from_bytes(header[12:16], "little")
    documents, tokens = (int.from_bytes(header[at : at + 8], "little") for at in (24, 32))
    ids = numpy.memmap(path, {2: "<u2", 4: "<u4"}[size], "r", SHARD_HEADER, (tokens,))
    index = numpy.memmap(path, "<u8", "r", os.path.getsize(path) - 16 * documents, (documents, 2))
    return ids, index[:, 0].astype("int64")


def train_peers(spec_path):
    """Runs of transformers.Trainer, one after the other, in a process of their own."""
    import torch

    spec = read_json(spec_path)
    torch.set_num_threads(spec["threads"])
    if spec["device"] == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32
    ids, ends = read_shard(spec["shard"])
    for one in spec["runs"]:
        train_peer(spec, one, ids, ends)


def train_peer(spec, one, ids, ends):
    import numpy
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

    on_gpu = spec["device"] == "cuda"
    set_seed(one["seed"])
    order = numpy.random.default_rng(one["seed"]).permutation(len(ends))
    begins = numpy.concatenate([numpy.zeros(1, "int64"), ends[:-1]])
    stream = numpy.concatenate([ids[begins[d] : ends[d]] for d in order]).astype(numpy.int64)
    rows = torch.from_numpy(stream[: len(stream) // LENGTH * LENGTH]).view(-1, LENGTH)

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return len(rows)

        def __getitem__(self, row):
            return {"input_ids": rows[row], "labels": rows[row]}

    model = LlamaForCausalLM(LlamaConfig(**spec["model"], max_position_embeddings=LENGTH, use_cache=False))
    arguments = TrainingArguments(
        output_dir=one["folder"], use_cpu=not on_gpu, bf16=spec["bf16"], per_device_train_batch_size=spec["batch_tokens"] // LENGTH,
        max_steps=one["steps"], learning_rate=one["lr"], lr_scheduler_type="cosine", warmup_steps=max(1, one["steps"] // 50),
        optim="adamw_torch_fused", weight_decay=0.1, adam_beta1=0.9, adam_beta2=0.95, max_grad_norm=1.0, save_strategy="no",
        logging_steps=50, report_to="none", disable_tqdm=True, seed=one["seed"],
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Rows())
    started = time.perf_counter()
    trainer.train()
    if on_gpu:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    model.save_pretrained(one["folder"])
    shutil.copyfile(spec["tokenizer"], os.path.join(one["folder"], "tokenizer.model"))
    write_json(one["result"], {"seconds": seconds})


def run(command, log, **more):
    with open(log, "wb") as file:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=file, **more)
    if done.returncode != 0:
        with open(log, encoding="utf-8", errors="replace") as file:
            sys.exit(f"{command[0]} ended with {done.returncode}; the end of {log}:\n{file.read()[-2000:]}")
    return done.stdout.decode()


def lmtrain(arguments, command, log, *more):
    return run([arguments.lmtrain, command, *more], log)


class Peer:
    """The runs of HF Trainer, each made once."""

    def __init__(self, arguments, work, config, data):
        self.arguments, self.work, self.bf16 = arguments, work, config["precision"] == "bf16"
        self.data, self.batch_tokens = data, arguments.peer_batch or config["batch"]["tokens"]
        left_out = ("activation_checkpointing", "initializer", "size")
        self.model = {k: v for k, v in config["model"].items() if v is not None and k not in left_out}
        self.model["vocab_size"] = data["vocab_size"]

    def folder(self, tokens, lr, seed):
        name = "trainer" if self.arguments.size is None else f"trainer_{self.arguments.size}"
        name += "" if tokens == self.arguments.tokens else f"_{short(tokens)}"
        return os.path.join(self.work, f"{name}_lr_{lr:g}" + (f"_seed_{seed}" if seed != 1 else ""))

    def train(self, runs):
        """[{"lr", "seconds", "loss"}] of whole runs, each (tokens, lr, seed): one process trains those that are missing."""
        folders = [self.folder(*run) for run in runs]
        missing = [(run, folder) for run, folder in zip(runs, folders) if not os.path.exists(folder + ".json")]
        if missing:
            self.train_missing(missing)
        return [read_json(folder + ".json") for folder in folders]

    def train_missing(self, missing):
        spec_runs = []
        for (tokens, lr, seed), folder in missing:
            os.makedirs(folder, exist_ok=True)
            steps = max(1, tokens // self.batch_tokens)
            print(f"HF Trainer, lr {lr:g}, seed {seed}: {steps} steps of {self.batch_tokens} tokens", file=sys.stderr, flush=True)
            spec_runs.append({"seed": seed, "folder": folder, "lr": lr, "steps": steps, "result": folder + ".seconds.json"})
        path = missing[0][1] + ".spec.json"
        write_json(path, {
            "threads": self.arguments.threads, "device": self.arguments.device, "bf16": self.bf16, "batch_tokens": self.batch_tokens,
            "shard": self.data["shard"], "tokenizer": self.data["tokenizer"], "model": self.model, "runs": spec_runs,
        })
        environment = os.environ | {"OMP_NUM_THREADS": str(self.arguments.threads), "HF_HUB_OFFLINE": "1"}
        run([sys.executable, os.path.abspath(__file__), "--peers", path], missing[0][1] + ".log", env=environment)
        # On a GPU most of the time is the start of a process.
        with concurrent.futures.ThreadPoolExecutor(len(missing) if self.arguments.device == "cuda" else 1) as pool:
            judged = list(pool.map(self.judge, [folder for _, folder in missing]))
        for ((_, lr, _), folder), one in zip(missing, judged):
            write_json(folder + ".json", {"lr": lr, "seconds": read_json(folder + ".seconds.json")["seconds"], "loss": one["loss"]})

    def judge(self, folder):
        on_gpu = ["--device", "cuda", "--precision", "bf16"] if self.arguments.device == "cuda" else []
        return json.loads(lmtrain(self.arguments, "eval", folder + ".eval.log", folder, "--data", os.path.join(self.work, "held_out"),
                                  "--max-length", str(LENGTH), "--json", *on_gpu))

    def tuned(self):
        """(runs of the search, runs of all tokens): each rate has all tokens, or the best of shorter runs alone."""
        arguments = self.arguments
        rates = [float(lr) for lr in arguments.lrs.split(",")]
        if not arguments.search_tokens or len(rates) == 1:
            return [], self.train([(arguments.tokens, lr, 1) for lr in rates])
        search = self.train([(arguments.search_tokens, lr, 1) for lr in rates])
        return search, self.train([(arguments.tokens, best_of(search)["lr"], 1)])


def best_of(peers):
    """The run with the lowest loss; one that diverged has none."""
    return min(peers, key=lambda entry: float("inf") if entry["loss"] is None else entry["loss"])


def loss_text(loss):
    return "none, it diverged" if loss is None else f"{loss:.4f}"


def number(text):
    """160K -> 160000"""
    units = {"K": 1e3, "M": 1e6, "B": 1e9}
    return round(float(text[:-1]) * units[text[-1]]) if text[-1] in units else int(text)


def end_of_schedule(arguments, work, options, tokens, seed):
    """{"tokens", "seconds", "loss"} at the end of a whole run of so many tokens."""
    folder = os.path.join(work, f"{arguments.name}_{short(tokens)}_seed_{seed}")
    own = [option for setting in (f"train.tokens={tokens}", f"seed={seed}", "eval.every=0") for option in ("--set", setting)]
    print(f"lmtrain, {short(tokens)} tokens, seed {seed}", file=sys.stderr)
    lmtrain(arguments, "train", folder + ".log", arguments.config, "--run-dir", folder, "--continue", *options, *own)
    trained, seconds, loss = evaluations(folder)[-1]
    return {"tokens": trained, "seconds": seconds, "loss": loss}


def is_decided(losses, base):
    """Whether more pairs cannot change the verdict on a row: three or more, and the difference beyond three standard errors."""
    difference, error, pairs = paired(losses, base)
    return pairs >= 3 and error is not None and abs(difference) > 3 * error


def compare_ends(arguments, work, options, peer_of):
    """Rows of {"name", "runs": {seed: run}}: the peer, and a row for each length of --ends."""
    peers, lengths = {}, [number(text) for text in arguments.ends.split(",")]
    rows = {tokens: {} for tokens in lengths}
    for seed in (int(text) for text in arguments.seeds.split(",")):
        peers[seed] = peer_of(seed) | {"tokens": arguments.tokens}
        for tokens in lengths:
            rows[tokens][seed] = end_of_schedule(arguments, work, options, tokens, seed)
        base = {seed: run["loss"] for seed, run in peers.items()}
        if all(is_decided({seed: run["loss"] for seed, run in runs.items()}, base) for runs in rows.values()):
            break
    return [{"name": "HF Trainer", "runs": peers}] + [{"name": f"lmtrain, {short(tokens)}", "runs": rows[tokens]} for tokens in lengths]


def ends_table(rows):
    base = {seed: run["loss"] for seed, run in rows[0]["runs"].items()}
    lines = [["at the end of a schedule", "seeds", "held-out loss", "to the peer", "std error", "tokens", "s", "times sooner"]]
    for row in rows:
        runs = row["runs"].values()
        line = [row["name"], str(len(runs)), f"{mean(run['loss'] for run in runs):.4f}"]
        if row is rows[0]:
            line += ["", ""]
        else:
            difference, error, _ = paired({seed: run["loss"] for seed, run in row["runs"].items()}, base)
            line += [f"{difference:+.4f}", "-" if error is None else f"{error:.4f}"]
        seconds = mean(run["seconds"] for run in runs)
        sooner = mean(run["seconds"] for run in rows[0]["runs"].values()) / seconds
        lines.append(line + [short(mean(run["tokens"] for run in runs)), f"{seconds:.1f}", "" if row is rows[0] else f"{sooner:.1f}"])
    return aligned(lines)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", help="of lmtrain; --size goes without one")
    parser.add_argument("--size", help="instead of a config: model.size of lmtrain's recipe, such as 30m")
    parser.add_argument("--vocab-size", type=int, default=8192, help="with --size: of the tokenizer that lmtrain trains (default 8192)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--corpus", required=True, help="folder of Python sources")
    parser.add_argument("--tokens", type=number, default=1_230_000, help="that the peer trains on, with --size lmtrain too (default 1.23M)")
    parser.add_argument("--lrs", default="1e-3,2e-3,4e-3", help="of the peer (default 1e-3,2e-3,4e-3)")
    parser.add_argument("--search-tokens", type=number, metavar="TOKENS", help="of the runs that choose the peer's rate; default: as many as --tokens")
    parser.add_argument("--peer-batch", type=number, metavar="TOKENS", help="of a step of the peer; default: lmtrain's")
    parser.add_argument("--ends", metavar="TOKENS,...", help="of lmtrain's whole runs that are compared at the ends of schedules")
    parser.add_argument("--seeds", default="1,2,3,4,5", help="of the pairs of --ends, at most (default 1,2,3,4,5)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for lmtrain")
    parser.add_argument("--name", help="of lmtrain's run in --work, for several recipes (default lmtrain, or the size)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--work", default=os.path.join(REPO, "runs", "time_to_loss"))
    parser.add_argument("--lmtrain", default=os.path.join(REPO, "build", "lmtrain"))
    parser.add_argument("--prepare", action="store_true", help="only split the corpus, train the tokenizer and write the shards")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    if (arguments.config is None) == (arguments.size is None):
        parser.error("a config or --size is needed, and not both")
    arguments.name = arguments.name or arguments.size or "lmtrain"
    return arguments


def lmtrain_settings(arguments, work):
    """--set options of lmtrain. With --size they name text, size, tokens and what changes no step."""
    settings = [
        f"data.train={json.dumps([os.path.join(work, 'train')])}", f"data.eval={json.dumps([os.path.join(work, 'held_out')])}",
        f"data.cache_dir={os.path.join(work, 'cache')}", f"threads={arguments.threads}", "eval.every=2%", "eval.tokens=1B",
        f"device={arguments.device}",
    ]
    if arguments.size:
        settings += [f"model.size={arguments.size.upper()}", f"tokenizer.train.vocab_size={arguments.vocab_size}", f"train.tokens={arguments.tokens}",
                     "checkpoint.every=0", "checkpoint.keep_best=0", "log.tensorboard=false"]
        arguments.config = os.path.join(work, arguments.name + ".config.json")
        write_json(arguments.config, {"name": arguments.name})
    else:
        settings.append(f"sequence.max_length={LENGTH}")
    return [option for setting in settings + arguments.set for option in ("--set", setting)]


def train_lmtrain(arguments, work, options):
    """(config of the run, curve of its evaluations, what the peer needs of it, seconds of the whole process)"""
    folder = os.path.join(work, arguments.name)
    print(f"lmtrain, {arguments.size or arguments.config} {' '.join(arguments.set)}", file=sys.stderr, flush=True)
    began = time.monotonic()
    lmtrain(arguments, "train", folder + ".log", arguments.config, "--run-dir", folder, "--continue", *options)
    seconds = time.monotonic() - began
    checkpoint = sorted(glob.glob(os.path.join(folder, "checkpoints", "step_*")))[-1]
    shards = glob.glob(os.path.join(work, "cache", "shards", "*", "train.bin"))
    if len(shards) != 1:
        sys.exit(f"{work}/cache holds {len(shards)} training shards; give an empty --work")
    data = {
        "shard": shards[0], "tokenizer": os.path.join(checkpoint, "tokenizer.model"),
        "vocab_size": read_json(os.path.join(checkpoint, "config.json"))["vocab_size"],
    }
    return read_json(os.path.join(folder, "config.json")), evaluations(folder), data, seconds


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--peers":
        return train_peers(sys.argv[2])
    arguments = parse_arguments()
    work = os.path.abspath(arguments.work)
    os.makedirs(work, exist_ok=True)
    split_corpus(arguments.corpus, work)
    os.environ["LMTRAIN_CORPUS"] = os.path.abspath(arguments.corpus)
    options = lmtrain_settings(arguments, work)
    if arguments.prepare:
        lmtrain(arguments, "prepare", os.path.join(work, "prepare.log"), arguments.config, *options)
        return
    config, curve, data, process_seconds = train_lmtrain(arguments, work, options)
    peer = Peer(arguments, work, config, data)
    search, peers = peer.tuned()
    best = best_of(peers)
    if best["loss"] is None:
        sys.exit(f"HF Trainer diverged at every rate of {arguments.lrs}: there is no loss to reach; give lower --lrs")
    reached = crossing(curve, best["loss"])
    result = {
        "date": time.strftime("%Y-%m-%d"), "processor": platform.processor() or platform.machine(), "threads": arguments.threads,
        "device": arguments.device, "precision": config["precision"], "size": arguments.size, "model": peer.model,
        "trainer_tokens": arguments.tokens, "trainer_batch_tokens": peer.batch_tokens, "search_tokens": arguments.search_tokens,
        "search": search, "trainer": peers, "best": best,
        "lmtrain": {"set": arguments.set, "tokens": curve[-1][0], "seconds": curve[-1][1], "loss": curve[-1][2],
                    "batch_tokens": config["batch"]["tokens"], "max_length": config["sequence"]["max_length"],
                    "process_seconds": process_seconds},
        "reached": reached and {"tokens": reached[0], "seconds": reached[1], "times_sooner": best["seconds"] / reached[1],
                                "times_fewer_tokens": arguments.tokens / reached[0]},
    }
    for tokens, entry in [(arguments.search_tokens, entry) for entry in search] + [(arguments.tokens, entry) for entry in peers]:
        print(f"HF Trainer, lr {entry['lr']:g}: held-out loss {loss_text(entry['loss'])} after {entry['seconds']:.1f} s, {tokens} tokens")
    print(f"lmtrain: held-out loss {curve[-1][2]:.4f} after {curve[-1][1]:.0f} s, {curve[-1][0]} tokens")
    if reached:
        print(f"lmtrain reaches {best['loss']:.4f} after {reached[1]:.1f} s and {reached[0]:.0f} tokens: "
              f"{best['seconds'] / reached[1]:.2f} times sooner, with {arguments.tokens / reached[0]:.2f} times fewer tokens")
    else:
        print(f"lmtrain does not reach {best['loss']:.4f}")
    if arguments.ends:
        peer_of = lambda seed: peer.train([(arguments.tokens, best["lr"], seed)])[0]
        result["ends"] = compare_ends(arguments, work, options, peer_of)
        print(ends_table(result["ends"]))
    if arguments.json:
        write_json(arguments.json, result)


if __name__ == "__main__":
    main()
