#!/usr/bin/env python3
"""Does a folder that lmtrain wrote open in transformers unchanged, and do both give the same numbers?

Run by scripts/check_transformers.sh, which makes the virtual environment. One line a check: PASS, FAIL or SKIP.
"""

import argparse
import glob
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import sentencepiece
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

transformers.utils.logging.disable_progress_bar()
REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REFERENCE = os.path.join(REPO, "tests", "reference")
LOSS_TOLERANCE = 1e-5
failures = 0


def report(passed, what):
    """passed: True, False, or None for a check that could not be made."""
    global failures
    failures += passed is False
    print({True: "PASS", False: "FAIL", None: "SKIP"}[passed], what, flush=True)
    return bool(passed)


def find_folder(target):
    """The folder with config.json and weights: the newest checkpoint of a run, or the target itself."""
    checkpoints = sorted(glob.glob(os.path.join(target, "checkpoints", "step_*")))
    if checkpoints:
        return checkpoints[-1]
    if os.path.isdir(os.path.join(target, "checkpoints")):
        sys.exit(f"{target}: the run has no checkpoint")
    if not os.path.isfile(os.path.join(target, "config.json")):
        sys.exit(f"{target}: no config.json; give a run folder, a checkpoint or a Llama folder")
    return target


def adds_bos_and_eos(folder):
    """As the run that owns the checkpoint says; a bare folder: both."""
    run_config = os.path.join(folder, "..", "..", "config.json")
    tokenizer = {}
    if os.path.isfile(run_config) and os.path.basename(os.path.dirname(os.path.abspath(folder))) == "checkpoints":
        with open(run_config, encoding="utf-8") as file:
            tokenizer = json.load(file).get("tokenizer", {})
    return tokenizer.get("add_bos", True), tokenizer.get("add_eos", True)


def read_documents(paths):
    """Raw bytes of each document: a file is one, a line of .jsonl is one, folders are walked in order of path."""
    files = []
    for path in paths:
        if os.path.isdir(path):
            files += sorted(os.path.join(root, name) for root, _, names in os.walk(path) for name in names)
        else:
            files += sorted(glob.glob(path, recursive=True)) or sys.exit(f"{path}: no such file")
    documents = []
    for path in files:
        with open(path, "rb") as file:
            data = file.read()
        if path.endswith(".jsonl"):
            documents += [json.loads(line)["text"].encode("utf-8") for line in data.split(b"\n") if line.strip()]
        else:
            documents.append(data)
    return documents


def check_tokenizer(folder, documents):
    path = os.path.join(folder, "tokenizer.model")
    if not os.path.exists(path):
        report(None, "tokenizer: the folder has no tokenizer.model")
        return None
    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except Exception as error:
        report(False, f"AutoTokenizer.from_pretrained: {error!r}")
        return processor
    report(True, f"AutoTokenizer.from_pretrained gives {type(tokenizer).__name__} of {len(tokenizer)} pieces")
    report(len(tokenizer) == processor.get_piece_size(), f"vocabulary: {processor.get_piece_size()} in sentencepiece")

    with open(os.path.join(REFERENCE, "tokenizer", "golden.json"), encoding="utf-8") as file:
        golden = json.load(file)
    texts = [bytes.fromhex(entry["hex"]).decode("utf-8") for entry in golden["texts"]]
    texts += [document.decode("utf-8", errors="replace") for document in documents]
    special = [bytes.fromhex(entry["hex"]).decode("utf-8") for entry in golden["special_texts"]]
    for name, group in ("texts", texts), ("texts that spell special tokens", special):
        differing = [t for t in group if tokenizer.encode(t, add_special_tokens=False) != processor.encode(t)]
        example = f", first {differing[0][:40]!r}" if differing else ""
        report(not differing, f"ids: equal to sentencepiece's for {len(group) - len(differing)} of {len(group)} {name}{example}")
    differing = [t for t in texts if tokenizer.decode(processor.encode(t)) != processor.decode(processor.encode(t))]
    report(not differing, f"decoding: equal to sentencepiece's for {len(texts) - len(differing)} of {len(texts)} texts")
    wanted = [processor.bos_id()] if adds_bos_and_eos(folder)[0] else []
    report(tokenizer.encode("x")[: len(wanted)] == wanted, f"encode('x') is {tokenizer.encode('x')}, begins with {wanted}")
    return processor


def transformers_loss(model, processor, documents, max_length, add_bos, add_eos):
    """(nats, targets): each document in windows of max_length targets that share one token; every target once."""
    nats, targets = 0.0, 0
    for document in documents:
        ids = processor.encode(document.decode("utf-8", errors="replace"))
        ids = [processor.bos_id()] * add_bos + ids + [processor.eos_id()] * add_eos
        for begin in range(0, len(ids) - 1, max_length):
            window = torch.tensor([ids[begin : begin + max_length + 1]])
            logits = model(input_ids=window[:, :-1]).logits[0].float()
            nats += F.cross_entropy(logits, window[0, 1:], reduction="none").double().sum().item()
            targets += window.shape[1] - 1
    return nats, targets


def check_loss(arguments, folder, model, processor, documents):
    longest = model.config.max_position_embeddings
    num_bytes = sum(map(len, documents))
    for max_length in arguments.max_length or sorted({longest, max(1, longest // 4)}):
        nats, targets = transformers_loss(model, processor, documents, max_length, *adds_bos_and_eos(folder))
        loss = nats / targets
        name = f"loss at {max_length}"
        if not arguments.lmtrain:
            report(None, f"{name}: transformers {loss:.7f} on {targets} targets; no lmtrain to compare with")
            continue
        command = [arguments.lmtrain, "eval", folder, "--max-length", str(max_length), "--precision", "fp32", "--device", "cpu"]
        for path in arguments.data:
            command += ["--data", path]
        done = subprocess.run([*command, "--json"], capture_output=True, text=True)
        if done.returncode != 0:
            report(False, f"{name}: lmtrain eval ended with {done.returncode}: {done.stderr.strip()[-300:]}")
            continue
        ours = json.loads(done.stdout)
        difference = abs(ours["loss"] - loss) / max(1.0, loss)
        report(difference <= LOSS_TOLERANCE, f"{name}: lmtrain {ours['loss']:.7f}, transformers {loss:.7f}, difference {difference:.1e}")
        wanted = {"tokens": targets, "bytes": num_bytes, "documents": len(documents)}
        report(all(ours[k] == v for k, v in wanted.items()), f"{name}: counts {wanted}, lmtrain {({k: ours[k] for k in wanted})}")
        bits = nats / (math.log(2) * num_bytes)
        report(abs(ours["bits_per_byte"] - bits) <= LOSS_TOLERANCE * max(1.0, bits), f"{name}: bits per byte {bits:.6f}")


def compare_logits(name, ours, theirs):
    difference = (ours - theirs).abs().max().item()
    close = torch.allclose(ours, theirs, rtol=1.3e-6, atol=1e-5)
    report(close, f"logits of {name}: largest difference {difference:.1e} of {tuple(ours.shape)}")


def check_logits(arguments, folder, model):
    path = arguments.logits or os.path.join(folder, "golden.safetensors")
    if os.path.exists(path):
        stored = load_file(path)
        compare_logits(os.path.basename(path), stored["logits"], model(input_ids=stored["input_ids"]).logits.float())
    elif arguments.logits:
        sys.exit(f"{path}: no such file")
    # lmtrain's own logits, by the program that the tests' build leaves beside it.
    program = os.path.join(os.path.dirname(os.path.abspath(arguments.lmtrain)), "write_logits") if arguments.lmtrain else ""
    if not os.path.exists(program):
        report(None, "logits of lmtrain: no build/write_logits (scripts/build.sh release write_logits)")
        return
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "logits.safetensors")
        done = subprocess.run([program, folder, path], capture_output=True, text=True)
        if done.returncode != 0:
            report(False, f"write_logits ended with {done.returncode}: {done.stderr.strip()[-300:]}")
            return
        stored = load_file(path)
        compare_logits("lmtrain", stored["logits"], model(input_ids=stored["input_ids"]).logits.float())


def run_lmtrain(arguments, *command, environment=None):
    """What lmtrain prints; None, and a FAIL line, where it ends with an error."""
    done = subprocess.run([arguments.lmtrain, *command], capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if done.returncode == 0:
        return done.stdout
    report(False, f"lmtrain {command[0]} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return None


def check_continuations(arguments, folder, model, processor, documents):
    """Greedy text of 20 prompts, 200 tokens each where the model has the positions, by both."""
    if not arguments.lmtrain:
        report(None, "greedy text: no lmtrain to compare with")
        return
    text = "\n".join(document.decode("utf-8", errors="replace") for document in documents)
    words = text.replace("\0", " ").split()
    prompts = [" ".join(words[i * 7 % len(words) :][: 1 + i % 5]) for i in range(20)]
    ids = [[processor.bos_id()] * adds_bos_and_eos(folder)[0] + processor.encode(prompt) for prompt in prompts]
    count = min(200, model.config.max_position_embeddings - max(map(len, ids)))
    if count < 1:
        report(None, "greedy text: the model has too few positions")
        return
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "prompts.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts)
        for name, ours, theirs in (
            ("greedy text", [], {}),
            ("greedy text with a repetition penalty", ["--repetition-penalty", "1.2"], {"repetition_penalty": 1.2}),
        ):
            out = run_lmtrain(arguments, "generate", folder, "--prompts", path, "--temperature", "0", "--max-tokens", str(count),
                              "--device", "cpu", *ours)
            if out is None:
                return
            equal, tokens = 0, 0
            for prompt, answer in zip(ids, map(json.loads, out.splitlines())):
                whole = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                                       max_new_tokens=count, do_sample=False, pad_token_id=0, **theirs)[0].tolist()
                equal += processor.decode(whole)[len(processor.decode(prompt)) :] == answer["text"]
                tokens += answer["tokens"]
            report(equal == len(prompts), f"{name}: equal for {equal} of {len(prompts)} prompts, {tokens} tokens")


def check_time(arguments, folder, documents):
    """Greedy text of four times as many tokens takes four times as long: the model is given more positions, and none ends early."""
    if not arguments.lmtrain:
        report(None, "time of greedy text: no lmtrain")
        return
    counts = [1, 256, 1024]
    words = documents[0].decode("utf-8", errors="replace").replace("\0", " ").split()
    with tempfile.TemporaryDirectory() as scratch:
        model = os.path.join(scratch, "model")
        if run_lmtrain(arguments, "export", folder, "--format", "hf", "--to", model) is None:
            return
        path = os.path.join(model, "config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        config["max_position_embeddings"] = 4096
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)

        def generate(prompts, count):
            """(answers, seconds of one thread)"""
            path = os.path.join(scratch, "prompts.jsonl")
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            out = run_lmtrain(arguments, "generate", model, "--prompts", path, "--temperature", "0", "--max-tokens", str(count),
                              "--device", "cpu", environment={"OMP_NUM_THREADS": "1"})
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            answers = None if out is None else [json.loads(line) for line in out.splitlines()]
            return answers, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

        answers, _ = generate(words[:8], counts[-1])
        if answers is None:
            return
        longest = next((answer["prompt"] for answer in answers if answer["tokens"] == counts[-1]), None)
        if longest is None:
            report(None, f"time of greedy text: none of {len(answers)} prompts has {counts[-1]} tokens")
            return
        rounds = [[generate([longest], count)[1] for count in counts] for _ in range(5)]
    seconds = [min(values) for values in zip(*rounds)]
    if seconds[1] - seconds[0] < 0.05:
        report(None, f"time of greedy text: {counts[1] - counts[0]} tokens take {seconds[1] - seconds[0]:.2f} s, too little to compare")
        return
    per_token = [1000 * (value - seconds[0]) / (count - 1) for value, count in zip(seconds[1:], counts[1:])]
    growth = per_token[1] / per_token[0]
    report(growth < 2, f"time of greedy text, beyond the first token: {per_token[0]:.2f} ms each of {counts[1]}, {per_token[1]:.2f} ms each of "
                       f"{counts[2]}, {growth:.2f} times as much (1: in proportion, 4: without a cache)")


def same_bits(ours, theirs):
    def bits(tensor):
        return tensor.contiguous().view(torch.int32 if tensor.element_size() == 4 else torch.int16)

    return ours.keys() == theirs.keys() and all(
        ours[name].dtype == theirs[name].dtype and torch.equal(bits(ours[name]), bits(theirs[name])) for name in ours
    )


def check_export(arguments, folder, model):
    """transformers -> lmtrain -> transformers keeps every bit; a TorchScript file has the same logits."""
    if not arguments.lmtrain:
        report(None, "export: no lmtrain")
        return
    total = sum(p.numel() for p in model.parameters())
    with tempfile.TemporaryDirectory() as scratch:
        for name, dtype in ("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16):
            rounded = {key: value.to(dtype) for key, value in model.state_dict().items()}
            saved, out = os.path.join(scratch, "saved-" + name), os.path.join(scratch, name)
            for source, what in (folder, "lmtrain's export"), (saved, "lmtrain's export of what transformers saved"):
                shutil.rmtree(out, ignore_errors=True)
                shard = str(total * dtype.itemsize // 3) + "B"  # three files or more
                if run_lmtrain(arguments, "export", source, "--format", "hf", "--to", out, "--dtype", name, "--shard-size", shard) is None:
                    return
                files = len(glob.glob(os.path.join(out, "*.safetensors")))
                opened = AutoModelForCausalLM.from_pretrained(out, dtype="auto")
                report(files > 1 and same_bits(opened.state_dict(), rounded), f"{what} in {name}, {files} files: opens with every bit")
                if source == folder:
                    opened.save_pretrained(saved, max_shard_size=total * dtype.itemsize // 2)
        script = os.path.join(scratch, "model.pt")
        if run_lmtrain(arguments, "export", folder, "--format", "torchscript", "--to", script) is None:
            return
        ids = torch.randint(0, model.config.vocab_size, (3, min(50, model.config.max_position_embeddings)))
        compare_logits("the TorchScript file", torch.jit.load(script)(ids), model(input_ids=ids).logits)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="run folder, checkpoint or Llama folder")
    parser.add_argument("--lmtrain", help="the program; without it only transformers' side is checked")
    parser.add_argument("--data", action="append", default=[])
    parser.add_argument("--max-length", action="append", type=int, default=[])
    parser.add_argument("--logits")
    arguments = parser.parse_args()
    arguments.data = arguments.data or [os.path.join(REFERENCE, "eval", "documents")]
    folder = find_folder(arguments.target)
    documents = read_documents(arguments.data)
    print(f"== {folder} (transformers {transformers.__version__}, torch {torch.__version__})")

    processor = check_tokenizer(folder, documents)
    try:
        model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    except Exception as error:
        report(False, f"AutoModelForCausalLM.from_pretrained: {error!r}")
        sys.exit(1)
    problems = {key: value for key, value in info.items() if value}
    report(not problems, f"AutoModelForCausalLM.from_pretrained: {sum(p.numel() for p in model.parameters())} weights, {model.dtype}; {problems or 'no key missing or unexpected'}")
    model = model.float().eval()
    with torch.no_grad():
        check_logits(arguments, folder, model)
        check_export(arguments, folder, model)
        if processor is None:
            report(None, "loss: no tokenizer")
        elif model.config.vocab_size < processor.get_piece_size():
            report(False, f"vocab_size {model.config.vocab_size} is below the tokenizer's {processor.get_piece_size()}")
        else:
            check_loss(arguments, folder, model, processor, documents)
            prompt = torch.tensor([[processor.bos_id(), *processor.encode("The ")]])
            text = processor.decode(model.generate(prompt, max_new_tokens=8, do_sample=False)[0].tolist())
            report(True, f"generate: {text!r}")
            check_continuations(arguments, folder, model, processor, documents)
            check_time(arguments, folder, documents)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
