#!/usr/bin/env python3
"""Evaluates tasks with transformers by nanochat's rules: the golden data of tests/reference/tasks, or a comparison with lmtrain.

Run by hand, never by the build or the tests:
    python3 -m venv VENV && VENV/bin/pip install -r tests/reference/requirements.txt
    VENV/bin/python tests/reference/tasks.py                        # writes tests/reference/tasks
    VENV/bin/python tests/reference/tasks.py --compare FOLDER...    # 500 records of each type, against build/lmtrain
FOLDER is a checkpoint, or a Llama of transformers. --compare exits with 1 where a result differs by more than 1e-5.
scripts/check_scoring.sh makes the environment and compares; LMTRAIN_BINARY names another lmtrain.
The rules are those of nanochat/core_eval.py, written anew; lmtrain's docs/scoring.md states them.
"""

import argparse
import glob
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LMTRAIN = os.environ.get("LMTRAIN_BINARY") or os.path.join(ROOT, "build", "lmtrain")


# ------------------------------------------------------------------------------------------------------------------
# The reference.


def common(a, b):
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return count


def parts(task, record, option):
    """What stands before the delimiter and behind it."""
    if task["type"] == "multiple_choice":
        return record["query"], record["choices"][option]
    if task["type"] == "schema":
        return record["context_options"][option], record["continuation"]
    return record["context"].strip(), record["continuation"]


def options_of(record):
    return record.get("choices") or record.get("context_options") or [record["context"]]


class Reference:
    def __init__(self, folder):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.max_length = self.model.config.max_position_embeddings
        self.bos = self.tokenizer.bos_token_id
        self.bos = self.tokenizer.eos_token_id if self.bos is None else self.bos

    def encode(self, text):
        return [self.bos] + self.tokenizer.encode(text, add_special_tokens=False)

    def scores(self, ids):
        """Log-probability and whether it is the likeliest, of each token but the first."""
        with torch.no_grad():
            logits = self.model(torch.tensor([ids])).logits[0, :-1].double()
        targets = torch.tensor(ids[1:])
        values = logits.log_softmax(-1).gather(1, targets[:, None])[:, 0]
        return values.tolist(), (logits.argmax(-1) == targets).tolist()

    def question(self, task, records, index):
        record = records[index]
        gold = record.get("gold", 0)
        shots = ""
        for shot in record.get("shots", [])[:task["shots"]]:
            example = records[shot]
            before, behind = parts(task, example, example.get("gold", 0))
            shots += before + task["delimiter"] + behind + "\n\n"
        prompts, without = [], None
        for option in range(len(options_of(record))):
            before, behind = parts(task, record, option)
            prompts.append(self.encode(shots + before + task["delimiter"] + behind))
            if option == gold:
                text = shots + before + task["delimiter"]
                without = self.encode(text.strip() if task["type"] == "language_modeling" else text.rstrip())
                answer_bytes = len(behind.encode())
        gold_tokens = len(prompts[gold]) - common(without, prompts[gold])
        shortest = min(map(len, prompts))
        if task["type"] == "multiple_choice":
            shared = min([common(prompts[0], prompt) for prompt in prompts] + [shortest - 1])
            scored = [len(prompt) - shared for prompt in prompts]
        elif task["type"] == "schema":
            shared = min([common(prompts[0][::-1], prompt[::-1]) for prompt in prompts] + [shortest - 1])
            scored = [max(1, shared)] * len(prompts)
        else:
            scored = [gold_tokens]
        kept = [prompt[-self.max_length:] for prompt in prompts]
        answers = [self.scores(prompt) for prompt in kept]
        sums = [math.fsum(values[-count:]) for (values, _), count in zip(answers, scored)]
        means = [total / count for total, count in zip(sums, scored)]
        if task["type"] == "language_modeling":
            right = right_norm = all(answers[0][1][-gold_tokens:])
        else:
            right, right_norm = sums.index(max(sums)) == gold, means.index(max(means)) == gold
        bits = -math.fsum(answers[gold][0][-gold_tokens:]) / math.log(2)
        return float(right), float(right_norm), bits, answer_bytes, any(len(prompt) > self.max_length for prompt in prompts)

    def result(self, task, records):
        rows = [self.question(task, records, index) for index in range(len(records))]
        right, right_norm, bits, size, truncated = map(list, zip(*rows))
        count = len(rows)
        chance = task.get("chance")
        if chance is None:
            is_lm = task["type"] == "language_modeling"
            chance = 0.0 if is_lm else statistics.fmean(1 / len(options_of(record)) for record in records)

        def error(values):
            return statistics.stdev(values) / math.sqrt(count) if count > 1 else None

        per_byte = sum(bits) / sum(size)
        residuals = [b - per_byte * s for b, s in zip(bits, size)]
        accuracy_norm = statistics.fmean(right_norm)
        return {
            "name": task["name"], "type": task["type"], "shots": task["shots"], "records": count,
            "truncated": sum(truncated), "chance": chance,
            "accuracy": statistics.fmean(right), "accuracy_stderr": error(right),
            "accuracy_norm": accuracy_norm, "accuracy_norm_stderr": error(right_norm),
            "centred": (accuracy_norm - chance) / (1 - chance),
            "centred_stderr": None if count == 1 else error(right_norm) / (1 - chance),
            "bits_per_byte": per_byte,
            "bits_per_byte_stderr": None if count == 1 else
            math.sqrt(count / (count - 1) * sum(r * r for r in residuals)) / sum(size),
        }


# ------------------------------------------------------------------------------------------------------------------
# Records: excerpts of data/sample.


def sample_texts():
    texts = []
    for path in sorted(glob.glob(os.path.join(ROOT, "data", "sample", "*"))):
        with open(path, encoding="utf-8", newline="") as file:
            texts.append(file.read())
    return [text for text in texts if len(text) > 100]


def excerpt(rng, longest):
    while True:
        text = rng.choice(sample_texts())
        begin = rng.randrange(len(text))
        found = text[begin:begin + rng.randint(1, longest)]
        if found.strip():
            return found


def make_record(rng, kind, longest):
    if kind == "multiple_choice":
        choices = [excerpt(rng, 10).strip() for _ in range(rng.randint(2, 5))]
        if rng.random() < 0.2:  # one is the beginning of another
            choices[0] = choices[1] + rng.choice(["s", ", and more", " x"])
        return {"query": excerpt(rng, longest), "choices": choices, "gold": rng.randrange(len(choices))}
    if kind == "schema":
        end = excerpt(rng, 12)
        options = [excerpt(rng, longest) + rng.choice(["", end]) for _ in range(rng.randint(2, 3))]
        return {"context_options": options, "continuation": excerpt(rng, 12).strip(), "gold": rng.randrange(len(options))}
    context = rng.choice(["", " ", "\n"]) + excerpt(rng, longest) + rng.choice(["", " ", "\t\n"])
    return {"context": context, "continuation": excerpt(rng, 12).strip()}


def make_records(rng, kind, count, shots, longest):
    records = [make_record(rng, kind, longest) for _ in range(count)]
    for index, record in enumerate(records):
        if shots:
            record["shots"] = rng.sample([other for other in range(count) if other != index], shots)
    return records


def write_greedily(reference, task, records):
    """Gives every second record of a task without shots the continuation that the model would write."""
    for record in records[::2]:
        ids = reference.encode(record["context"].strip())
        size = len(ids)
        for _ in range(2):
            with torch.no_grad():
                ids.append(int(reference.model(torch.tensor([ids[-reference.max_length:]])).logits[0, -1].argmax()))
        text = reference.tokenizer.decode(ids[size:], skip_special_tokens=True)
        if text.strip() and "\ufffd" not in text:
            record["continuation"] = text


def write_tasks(folder, tasks):
    os.makedirs(folder)
    listed = []
    for task, records in tasks:
        with open(os.path.join(folder, task["file"]), "w", encoding="utf-8", newline="\n") as file:
            for record in records:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
        listed.append(task)
    with open(os.path.join(folder, "tasks.json"), "w", encoding="utf-8", newline="\n") as file:
        file.write('{\n "tasks": [\n  ' + ",\n  ".join(map(json.dumps, listed)) + "\n ]\n}\n")


def make_task(name, kind, shots, delimiter, chance=None):
    task = {"name": name, "file": name + ".jsonl", "type": kind, "shots": shots, "delimiter": delimiter}
    return task if chance is None else {**task, "chance": chance}


def make_tasks(reference, seed, records, groups, longest):
    """For each type `groups` tasks of `records` records; one of them without shots is language modelling by the model itself."""
    rng, tasks = random.Random(seed), []
    for kind in ("multiple_choice", "schema", "language_modeling"):
        for group in range(groups):
            shots = rng.choice([0, 0, 1, 2])
            task = make_task(f"{kind}_{group}", kind, shots, rng.choice([" ", " ", "\n", ": "]), rng.choice([None, 0.25]))
            tasks.append((task, make_records(rng, kind, records, shots, longest)))
    for group in range(max(1, groups // 2)):
        task = make_task(f"greedy_{group}", "language_modeling", 0, "")
        made = make_records(rng, "language_modeling", records, 0, longest)
        write_greedily(reference, task, made)
        tasks.append((task, made))
    return tasks


def write_golden():
    reference = Reference(os.path.join(HERE, "eval", "hf"))
    folder = os.path.join(HERE, "tasks")
    shutil.rmtree(folder, ignore_errors=True)
    tasks = make_tasks(reference, seed=5, records=12, groups=2, longest=20)
    write_tasks(folder, tasks)
    results = [reference.result(task, records) for task, records in tasks]
    with open(os.path.join(folder, "results.json"), "w", encoding="utf-8", newline="\n") as file:
        json.dump(results, file, indent=1)
        file.write("\n")


def largest_difference(ours, theirs):
    largest = 0.0
    for key, value in theirs.items():
        if isinstance(value, float):
            largest = max(largest, abs(ours[key] - value))
        elif ours[key] != value:
            return math.inf
    return largest


def compare(folder):
    reference = Reference(folder)
    tasks = make_tasks(reference, seed=6, records=10, groups=50, longest=60)
    with tempfile.TemporaryDirectory() as temporary:
        path = os.path.join(temporary, "tasks")
        write_tasks(path, tasks)
        command = [LMTRAIN, "eval", folder, "--tasks", path, "--json"]
        ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["tasks"]
    largest, differ, right, count = 0.0, 0, 0, {}
    for (task, records), actual in zip(tasks, ours, strict=True):
        expected = reference.result(task, records)
        count[task["type"]] = count.get(task["type"], 0) + len(records)
        right += round(expected["accuracy"] * len(records))
        difference = largest_difference(actual, expected)
        largest = max(largest, difference)
        if difference > 1e-5:
            differ += 1
            print(f"{actual}, not {expected}")
    truncated = sum(result["truncated"] for result in ours)
    print(f"{folder}: {len(tasks)} tasks with {count} records, {right} right, {truncated} truncated: "
          f"{differ} tasks differ, the largest difference is {largest:.1e}")
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
