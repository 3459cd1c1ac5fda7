#!/usr/bin/env python3
"""scripts/sweep.sh with the built program (LMTRAIN): sweeps that are killed and go on, halving, failures, the page.

Runs have one thread and a model of a few thousand weights. No test depends on how fast they are.
"""

import glob
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
CONFIG = {
    "name": "small", "threads": 1, "device": "cpu", "tokenizer": {"train": {"vocab_size": 384}},
    "data": {"train": f"{ROOT}/data/sample/*.txt", "eval_fraction": 0.1},
    "sequence": {"max_length": 32, "min_length": 16},
    "model": {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2},
    "batch": {"tokens": 64}, "lr_schedule": {"type": "wsd"}, "train": {"steps": 200}, "eval": {"every": "25%", "tokens": "2K"},
    "checkpoint": {"every": "25%", "keep": 1}, "log": {"tensorboard": False},
}


class Sweep(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.shared.cleanup)
        CONFIG["data"]["cache_dir"] = os.path.join(cls.shared.name, "cache")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.out = folder.name, os.path.join(folder.name, "out")
        self.config = self.path("small.json")
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump(CONFIG, file)

    def path(self, name):
        return os.path.join(self.folder, name)

    def command(self, *words):
        return [os.path.join(ROOT, "scripts", "sweep.sh"), self.config, "--out", self.out, *words]

    def sweep(self, *words, code=0):
        done = subprocess.run(self.command(*words), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def rows(self, *words):
        return {row["point"]: row for row in json.loads(self.sweep(*words, "--table", "--json").stdout)["points"]}

    def until(self, condition, process):
        """Waits for the condition while the process is there."""
        while not condition():
            self.assertIsNone(process.poll(), "the sweep ended before it could be stopped")
            time.sleep(0.01)

    def lines(self, name):
        try:
            with open(os.path.join(self.out, name, "metrics.jsonl"), encoding="utf-8") as file:
                return file.read().count("\n")
        except FileNotFoundError:
            return 0

    def contents(self, name):
        return {path: (os.stat(path).st_mtime_ns, os.stat(path).st_ino)
                for path in glob.glob(os.path.join(self.out, name, "**"), recursive=True)}

    def losses_alone(self, *settings):
        """{step: loss} of a run of `lmtrain train`, and what it ended with."""
        options = [word for setting in settings for word in ("--set", setting)]
        folder = self.path("alone")
        subprocess.run([os.environ["LMTRAIN"], "train", self.config, "--run-dir", folder, *options], check=True, capture_output=True)
        return self.losses(folder)

    def losses(self, folder):
        with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
            return [(line["step"], line.get("loss", line.get("eval_loss"))) for line in map(json.loads, file)]

    def test_killed_twice_it_goes_on_and_ends_as_if_it_had_not_been(self):
        words = ["--vary", "optimizer.lr=1e-3,1e-2", "--seeds", "1,2", "--parallel", "2", "--", "--set", "train.steps=600"]
        process = subprocess.Popen(self.command(*words), stderr=subprocess.DEVNULL)
        # The first pair is over, the second is at work.
        self.until(lambda: min(self.lines("lr=1e-3/seed_2"), self.lines("lr=1e-2/seed_2")) > 160, process)
        before = self.contents("lr=1e-3/seed_1")
        process.kill()
        process.wait()
        # The processes of the killed sweep save and end; the next sweep waits for them. It is asked to stop.
        process = subprocess.Popen(self.command(*words), stderr=subprocess.PIPE, text=True)
        while not process.stderr.readline().startswith("[4 of 4] lr=1e-2, seed 2"):
            self.assertIsNone(process.poll(), "the sweep ended before its last run began")
        process.send_signal(signal.SIGTERM)
        stderr = process.communicate()[1]
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, stderr)
        self.assertIn("the same command goes on", stderr)
        self.sweep(*words)
        rows = self.rows()
        self.assertEqual({row["done"] for row in rows.values()}, {2})
        self.assertEqual(self.contents("lr=1e-3/seed_1"), before)
        self.assertEqual(self.losses(os.path.join(self.out, "lr=1e-2/seed_2")), self.losses_alone("optimizer.lr=1e-2", "seed=2", "train.steps=600"))

    def test_the_time_limit_is_exit_code_75_and_the_next_sweep_ends_it(self):
        self.assertIn("the time given is over", self.sweep("--for", "2s", "--", "--set", "train.steps=1000000", code=75).stderr)
        self.sweep("--", "--set", f"train.steps={self.lines('run/run') + 20}")
        self.assertEqual(self.rows()["run"]["done"], 1)

    def test_points_of_a_file_the_table_and_the_page(self):
        with open(self.path("points"), "w", encoding="utf-8") as file:
            file.write("# a comment\nlow --set optimizer.lr=1e-4\nhigh  --set 'optimizer.lr=1e-2' --set optimizer.type=adamw\n")
        words = ["--points", self.path("points"), "--seeds", "1,2", "--base", "low_max=1", "--target", "5.5", "--vary", "clip.max=1",
                 "--report", self.path("page.html")]
        table = self.sweep(*words).stdout.splitlines()
        self.assertRegex(table[0], r"point +runs +held-out loss +std error +to base +std error +tokens to 5.5 +s to 5.5 +tokens +s trained ")
        self.assertRegex(table[1], r"high_max=1 +2 of 2 +\d\.\d{4} +0\.\d{4} +-\d\.\d{4} +0\.\d{4} ")
        self.assertRegex(table[2], r"low_max=1 +2 of 2 +\d\.\d{4} +0\.\d{4} +base ")
        with open(self.path("page.html"), encoding="utf-8") as file:
            self.assertIn("high_max=1", file.read())

    def test_draws_warn_of_an_edge_and_a_longer_sweep_adds_to_them(self):
        self.sweep("--draw", "optimizer.lr=log:1e-6:1e-5", "--draws", "2", "--draw-seed", "3", "--", "--set", "train.steps=20")
        points = self.rows()
        self.assertEqual(len(points), 2)
        self.sweep("--draw", "optimizer.lr=log:1e-6:1e-5", "--draws", "3", "--draw-seed", "3", "--", "--set", "train.steps=20")
        self.assertEqual(len(self.rows()), 3)
        self.assertTrue(set(points) < set(self.rows()))
        grid = self.sweep("--vary", "optimizer.lr=1e-4,1e-3,1e-2", "--", "--set", "train.steps=20")
        self.assertIn("warning: the best point, lr=1e-2, has optimizer.lr 0.01, the highest of the values tried", grid.stderr)

    def test_a_mistake_shows_before_the_first_run_and_a_failed_run_stops_no_other(self):
        done = self.sweep("--vary", "optimizer.lr=1e-3,fast", code=2)
        self.assertIn("point lr=fast", done.stderr)
        self.assertIn('"fast" is not a number', done.stderr)
        self.assertEqual(glob.glob(os.path.join(self.out, "lr=*")), [])
        damaged = self.path("bad.model")
        with open(damaged, "w", encoding="utf-8") as file:
            file.write("no tokenizer")
        done = self.sweep("--vary", f"tokenizer.model={damaged},null", "--", "--set", "train.steps=20", code=3)
        self.assertIn("exit code 3", done.stderr)
        self.assertRegex(done.stdout, r"model=null +1 of 1 +\d\.\d{4}")
        self.assertRegex(done.stdout, r"bad\.model +0 of 1, 1 refused")

    def test_runs_begun_with_other_settings_are_named(self):
        few = ("--vary", "optimizer.lr=1e-3", "--", "--set", "train.steps=4")
        self.sweep(*few)
        self.assertNotIn("other settings", self.sweep(*few).stderr)
        changed = self.sweep("--vary", "optimizer.lr=1e-3,2e-3", "--", "--set", "train.steps=6").stderr
        self.assertIn("lr=1e-3/run was begun with other settings than this command has (train.steps)", changed)
        self.assertNotIn("lr=2e-3/run was begun", changed)

    def test_a_mean_of_runs_of_different_lengths_is_a_warning(self):
        self.assertNotIn("mean", self.sweep("--", "--set", "train.steps=20").stderr)
        again = self.sweep("--seeds", "1,2", "--", "--set", "train.steps=40").stderr
        self.assertRegex(again, r"run/run has trained \d+ tokens and \S+run/seed_[12] \d+: their mean says nothing")

    def test_two_sweeps_in_one_folder_are_refused(self):
        process = subprocess.Popen(self.command("--", "--set", "train.steps=1000000"), stderr=subprocess.DEVNULL)
        self.until(lambda: self.lines("run/run") > 0, process)
        self.assertIn("another sweep works in", self.sweep("--", "--set", "train.steps=1000000", code=2).stderr)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 128 + signal.SIGINT)

    def test_halving_keeps_the_runs_whose_branches_end_best_also_when_it_is_killed(self):
        words = ["--vary", "optimizer.lr=1e-5,1e-4,1e-3,1e-2", "--halve", "2"]
        process = subprocess.Popen(self.command(*words), stderr=subprocess.DEVNULL)
        self.until(lambda: self.lines("lr=1e-4/rung_1/run") > 0, process)
        process.kill()
        process.wait()
        done = self.sweep(*words)
        self.assertIn("rung 1 of 2 (40 steps): lr=1e-3, lr=1e-2 of 4 points go on", done.stderr)
        self.assertIn("rung 2 of 2 (80 steps): lr=1e-2 of 2 points go on", done.stderr)
        self.assertEqual(self.losses(os.path.join(self.out, "lr=1e-2/rung_1/run"))[-1][0], 50)
        self.assertEqual(self.losses(os.path.join(self.out, "lr=1e-2/run")), self.losses_alone("optimizer.lr=1e-2"))
        states = {point: row["states"]["run"] for point, row in self.rows().items()}
        self.assertEqual(states, {"lr=1e-5": "stopped", "lr=1e-4": "stopped", "lr=1e-3": "stopped", "lr=1e-2": "done"})
        self.assertRegex(done.stdout, r"point +rungs +at 50 steps +at 100 steps\nlr=1e-2 +2 ")

    def test_halving_in_the_middle_of_another_schedule_is_refused(self):
        done = self.sweep("--vary", "optimizer.lr=1e-3,1e-2", "--halve", "1", "--", "--set", "lr_schedule.type=cosine", code=2)
        self.assertIn("lr_schedule.type is cosine", done.stderr)
        self.assertIn("do not rank as at its end", done.stderr)


if __name__ == "__main__":
    unittest.main()
