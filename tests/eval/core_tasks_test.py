#!/usr/bin/env python3
"""scripts/core_tasks.py keeps the order and the examples that nanochat draws."""

import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "core_tasks.py")


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class CoreTasks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.bundle, self.to = (os.path.join(self.folder.name, name) for name in ("bundle", "tasks"))
        self.records = [{"query": f"Question {i}é", "choices": ["a", "b"], "gold": i % 2} for i in range(20)]
        tasks = [{"label": "ten_shot", "dataset_uri": "x/y.jsonl", "num_fewshot": [10], "icl_task_type": "multiple_choice",
                  "continuation_delimiter": "\nAnswer: "},
                 {"label": "zero_shot", "dataset_uri": "x/y.jsonl", "num_fewshot": [0], "icl_task_type": "multiple_choice"}]
        write(os.path.join(self.bundle, "core.yaml"), json.dumps({"icl_tasks": tasks}))
        write(os.path.join(self.bundle, "eval_meta_data.csv"),
              "Eval Task,Task Category,Random baseline\nten_shot,world,50.0\nzero_shot,world,25\n")
        write(os.path.join(self.bundle, "eval_data", "x", "y.jsonl"),
              "".join(json.dumps(record) + "\n" for record in self.records))

    def run_script(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, self.bundle, "--to", self.to, *arguments],
                              capture_output=True, text=True, check=False)

    def lines(self, name):
        with open(os.path.join(self.to, name), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_order_and_examples_are_nanochats(self):
        self.assertEqual(self.run_script().returncode, 0)
        shuffled = list(self.records)
        random.Random(1337).shuffle(shuffled)
        made = self.lines("ten_shot.jsonl")
        self.assertEqual([record["query"] for record in made], [record["query"] for record in shuffled])
        for index, record in enumerate(made):
            others = [other for other in range(20) if other != index]
            self.assertEqual(record["shots"], random.Random(1234 + index).sample(others, 10))
        self.assertEqual(self.lines("zero_shot.jsonl")[0]["shots"], [])

    def test_list_says_how_each_is_asked(self):
        self.assertEqual(self.run_script("--max-per-task", "12").returncode, 0)
        with open(os.path.join(self.to, "tasks.json"), encoding="utf-8") as file:
            tasks = json.load(file)["tasks"]
        self.assertEqual(tasks, [
            {"file": "ten_shot.jsonl", "type": "multiple_choice", "shots": 10, "delimiter": "\nAnswer: ", "chance": 0.5},
            {"file": "zero_shot.jsonl", "type": "multiple_choice", "shots": 0, "delimiter": " ", "chance": 0.25}])
        self.assertEqual(len(self.lines("zero_shot.jsonl")), 12)

    def test_damaged_record_is_named(self):
        write(os.path.join(self.bundle, "eval_data", "x", "y.jsonl"), "{}\n{\n")
        result = self.run_script()
        self.assertEqual(result.returncode, 1)
        self.assertIn("y.jsonl:2: not JSON", result.stderr)


if __name__ == "__main__":
    unittest.main()
