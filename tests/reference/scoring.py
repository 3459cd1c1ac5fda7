#!/usr/bin/env python3
"""Asks lm-eval's HFLM for log-likelihoods: the golden data of tests/reference/scoring, or a comparison with lmtrain.

Run by hand, never by the build or the tests, with lm-eval 0.4.13 beside requirements.txt:
    python3 -m venv VENV && VENV/bin/pip install -r tests/reference/requirements.txt lm-eval==0.4.13
    VENV/bin/python tests/reference/scoring.py                        # writes tests/reference/scoring
    VENV/bin/python tests/reference/scoring.py --compare FOLDER...    # 500 requests, lm-eval against build/lmtrain
FOLDER is a checkpoint, or a Llama of transformers. --compare exits with 1 where an answer differs by more than 1e-4.
scripts/check_scoring.sh makes the environment and compares; LMTRAIN_BINARY names another lmtrain.
"""

import argparse
import glob
import json
import os
import random
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LMTRAIN = os.environ.get("LMTRAIN_BINARY") or os.path.join(ROOT, "build", "lmtrain")
SPACES = ["", "", "", " ", "  ", "\n", "\t", " \u00a0", "\u3000", "\u2028 ", "\x1f", "\x85"]


def texts():
    parts = []
    for path in sorted(glob.glob(os.path.join(ROOT, "data", "sample", "*"))):
        with open(path, encoding="utf-8", newline="") as file:
            parts.append(file.read())
    return [part for part in parts if part]


def requests(count, seed):
    """Pairs with every kind of border, and texts; a third of them longer than small windows."""
    rng, sources, made = random.Random(seed), texts(), []

    def excerpt(longest):
        source = rng.choice(sources)
        begin = rng.randrange(len(source))
        return source[begin:begin + rng.randint(1, longest)]

    while len(made) < count:
        kind = rng.random()
        if kind < 0.2:
            made.append({"text": excerpt(400) if rng.random() < 0.9 else ""})
            continue
        context = "" if kind < 0.3 else excerpt(rng.choice([5, 40, 300])) + rng.choice(SPACES)
        if kind > 0.95:
            context = rng.choice([space for space in SPACES if space])
        made.append({"context": context, "continuation": rng.choice(["", " ", "\n"]) + excerpt(12)})
    return made


def make_reference(folder, max_length):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    # Its sums are in the dtype of its softmax; in fp32 those of a thousand nats are rounded to 1e-4.
    return HFLM(pretrained=model, tokenizer=tokenizer, batch_size=1, max_length=max_length, softmax_dtype="float64")


def greedy_requests(lm, count, seed):
    """Pairs whose continuation is what the model itself would write, so that is_greedy is true of most."""
    rng, made = random.Random(seed), []
    for _ in range(count):
        source = rng.choice(texts())
        begin = rng.randrange(len(source))
        context = source[begin:begin + 20].strip() or "a"
        ids = lm.tok_encode(context)
        for _ in range(rng.randint(1, 3)):
            with torch.no_grad():
                ids.append(int(lm.model(torch.tensor([ids])).logits[0, -1].argmax()))
        text = lm.tokenizer.decode(ids, skip_special_tokens=True)
        if text.startswith(context) and "\ufffd" not in text and len(text) > len(context):
            made.append({"context": context, "continuation": text[len(context):]})
    return made


def is_answered(lm, request):
    """Whether lm-eval answers it at all: an empty continuation or context, in tokens, is an assertion there."""
    if "text" in request:
        return True
    context, continuation = request["context"], request["continuation"]
    if context == "":
        scored = lm.tok_encode(continuation, add_special_tokens=False)
        return 0 < len(scored) <= lm.max_length and scored != [lm.prefix_token_id]
    encoded, scored = lm._encode_pair(context, continuation)
    return len(encoded) > 0 and 0 < len(scored) <= lm.max_length


def ask(lm, asked):
    """lm-eval's answers; is_greedy and tokens of texts are not in them."""
    answers = []
    for request in asked:
        if "text" in request:
            instance = Instance("loglikelihood_rolling", {}, (request["text"],), 0)
            answers.append({"logprob": float(lm.loglikelihood_rolling([instance], disable_tqdm=True)[0])})
        else:
            arguments = (request["context"], request["continuation"])
            instance = Instance("loglikelihood", {}, arguments, 0)
            (logprob, greedy), = lm.loglikelihood([instance], disable_tqdm=True)
            answers.append({"logprob": logprob, "is_greedy": greedy})
    return answers


def write_lines(path, values):
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for value in values:
            file.write(json.dumps(value, ensure_ascii=False) + "\n")


def write_golden():
    folder = os.path.join(HERE, "scoring")
    os.makedirs(folder, exist_ok=True)
    hf = os.path.join(HERE, "eval", "hf")
    small, large = make_reference(hf, 16), make_reference(hf, 64)
    asked = requests(100, seed=1) + greedy_requests(large, 12, seed=3)
    asked = [request for request in asked if is_answered(small, request)]
    write_lines(os.path.join(folder, "requests.jsonl"), asked)
    for lm in (small, large):
        write_lines(os.path.join(folder, f"answers_{lm.max_length}.jsonl"), ask(lm, asked))


def compare(folder):
    lm = make_reference(folder, None)
    asked = greedy_requests(lm, 50, seed=4) + requests(600, seed=2)
    asked = [request for request in asked if is_answered(lm, request)][:500]
    with tempfile.TemporaryDirectory() as temporary:
        path = os.path.join(temporary, "requests.jsonl")
        write_lines(path, asked)
        command = [LMTRAIN, "eval", folder, "--score", path]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    actual, largest, differ = [json.loads(line) for line in lines], 0.0, 0
    assert len(actual) == len(asked)
    for request, ours, theirs in zip(asked, actual, ask(lm, asked)):
        difference = abs(ours["logprob"] - theirs["logprob"])
        largest = max(largest, difference)
        if difference > 1e-4 or ours["is_greedy"] != theirs.get("is_greedy", ours["is_greedy"]):
            differ += 1
            print(f"{request}: {ours}, not {theirs}")
    rolling = sum("text" in request for request in asked)
    greedy = sum(answer["is_greedy"] for answer in actual)
    print(f"{folder}: {len(asked)} requests, {rolling} of them texts, {greedy} greedy, max_length {lm.max_length}: "
          f"{differ} differ, the largest difference is {largest:.1e} nats")
    return differ == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", nargs="+", metavar="FOLDER")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.compare:
        sys.exit(0 if all([compare(folder) for folder in options.compare]) else 1)
    write_golden()


if __name__ == "__main__":
    main()
