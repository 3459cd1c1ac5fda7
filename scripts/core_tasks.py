#!/usr/bin/env python3
"""Makes tasks for `lmtrain eval --tasks` from the evaluation bundle of DCLM CORE, as nanochat and DCLM publish it.

    scripts/core_tasks.py BUNDLE --to DIR [--max-per-task N]
    lmtrain eval TARGET --tasks DIR

BUNDLE is the unpacked folder with core.yaml, eval_meta_data.csv and eval_data/. Each record gets the indices of its examples, and the
records get the order, that nanochat draws from Python's random numbers, so that the prompts are nanochat's; with --max-per-task the
first N of that order are taken, as there. Needs Python 3.8 or newer, and PyYAML to read core.yaml. DIR must not exist.
"""

import argparse
import csv
import json
import os
import random
import sys


def read_yaml(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        import yaml
    except ImportError:
        try:
            return json.loads(text)  # which is YAML too
        except ValueError:
            sys.exit(f"{path}: reading it needs PyYAML; pip install pyyaml")
    return yaml.safe_load(text)


def read_chances(path):
    """The accuracy of one who guesses, by label; the file has percent."""
    with open(path, encoding="utf-8", newline="") as file:
        return {row["Eval Task"]: float(row["Random baseline"]) / 100 for row in csv.DictReader(file)}


def read_records(path):
    records = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                records.append(json.loads(line))
            except ValueError as error:
                sys.exit(f"{path}:{number}: not JSON: {error}")
    return records


def with_examples(records, shots):
    """The records in nanochat's order, each with the indices of its examples."""
    count = len(records)
    if shots >= count:
        sys.exit(f"{shots} examples need more than {count} records")
    for index, record in enumerate(records):
        others = [other for other in range(count) if other != index]
        yield {**record, "shots": random.Random(1234 + index).sample(others, shots)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", metavar="BUNDLE")
    parser.add_argument("--to", required=True, metavar="DIR")
    parser.add_argument("--max-per-task", type=int, default=0, metavar="N", help="records of a task; 0: all")
    options = parser.parse_args()
    tasks = read_yaml(os.path.join(options.bundle, "core.yaml"))["icl_tasks"]
    chances = read_chances(os.path.join(options.bundle, "eval_meta_data.csv"))
    os.makedirs(options.to)
    listed = []
    for task in tasks:
        label, shots = task["label"], task["num_fewshot"][0]
        records = read_records(os.path.join(options.bundle, "eval_data", task["dataset_uri"]))
        random.Random(1337).shuffle(records)
        if options.max_per_task > 0:
            records = records[:options.max_per_task]
        with open(os.path.join(options.to, label + ".jsonl"), "w", encoding="utf-8", newline="\n") as file:
            for record in with_examples(records, shots):
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
        listed.append({"file": label + ".jsonl", "type": task["icl_task_type"], "shots": shots,
                       "delimiter": task.get("continuation_delimiter", " "), "chance": chances[label]})
        print(f"{label}: {len(records)} records, {shots} shots")
    with open(os.path.join(options.to, "tasks.json"), "w", encoding="utf-8", newline="\n") as file:
        json.dump({"tasks": listed}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
