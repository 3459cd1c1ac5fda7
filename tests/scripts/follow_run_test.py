#!/usr/bin/env python3
"""A run folder followed while it is written (scripts/follow_run.py), and the three trackers with stand-ins for their packages."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import types
import unittest

sys.dont_write_bytecode = True
SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)

import follow_mlflow  # noqa: E402
import follow_run  # noqa: E402
import follow_trackio  # noqa: E402
import follow_wandb  # noqa: E402


def update(step, loss, seconds=0.5):
    return {"step": step, "tokens": 100 * step, "loss": loss, "seq_len": 32, "mfu": None, "elapsed": seconds * step}


def evaluation(step, loss):
    return {"step": step, "tokens": 100 * step, "eval_loss": loss, "eval_bits_per_byte": 2.0, "eval_loss/code": loss}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def append(self, name, *lines):
        with open(self.path(name), "a", encoding="utf-8") as file:
            file.write("".join((line if isinstance(line, str) else json.dumps(line) + "\n") for line in lines))

    def replace(self, name, *lines):
        """As a run does: the new file takes the place of the old one at once."""
        self.append(name + ".new", *lines)
        os.replace(self.path(name + ".new"), self.path(name))

    def steps(self, follower):
        return [(record.line["step"], record.again) for record in follower.records() if record.kind == "update"]


class Following(Case):
    def test_lines_are_reported_once_and_a_torn_one_when_it_is_whole(self):
        follower = follow_run.Follower(self.folder)
        self.assertEqual(list(follower.records()), [])
        self.append("metrics.jsonl", evaluation(0, 9.0), update(1, 8.0), '{"step":2,"tok')
        self.append("events.jsonl", {"event": "start", "step": 0})
        self.assertEqual([record.kind for record in follower.records()], ["evaluation", "update", "event"])
        self.assertEqual(list(follower.records()), [])
        self.append("metrics.jsonl", 'ens":200,"loss":7.0,"seq_len":32}\n')
        self.assertEqual(self.steps(follower), [(2, False)])

    def test_after_a_resume_only_steps_that_are_new_or_other_are_reported(self):
        self.append("metrics.jsonl", *(update(n, 10.0 - n) for n in range(1, 7)), evaluation(6, 4.5))
        follower = follow_run.Follower(self.folder)
        self.assertEqual(len(list(follower.records())), 7)
        os.truncate(self.path("metrics.jsonl"), len("".join(json.dumps(update(n, 10.0 - n)) + "\n" for n in range(1, 4))))
        self.assertEqual(list(follower.records()), [])
        self.append("metrics.jsonl", update(4, 6.0, seconds=0.75), update(5, 5.5), update(6, 4.0), evaluation(6, 4.5), update(7, 3.0))
        self.assertEqual(self.steps(follower), [(5, True), (7, False)])

    def test_a_file_cut_back_and_grown_past_the_old_end_between_two_looks_is_noticed(self):
        self.append("metrics.jsonl", *(update(n, 10.0 - n) for n in range(1, 7)))
        follower = follow_run.Follower(self.folder)
        self.steps(follower)
        self.replace("metrics.jsonl", *(update(n, 10.0 - n, seconds=0.5 if n < 4 else 0.625) for n in range(1, 12)))
        self.assertEqual(self.steps(follower), [(n, False) for n in range(7, 12)])

    def test_losses_that_are_not_finite_and_lines_that_are_damaged(self):
        follower = follow_run.Follower(self.folder)
        self.append("metrics.jsonl", update(1, None), "\0\0\0\n", '{"step":"x"}\n', "[1]\n", update(3, 5.0))
        records = list(follower.records())
        self.assertEqual([record.line["step"] for record in records], [1, 3])
        self.assertNotIn("train/loss", follow_run.numbers_of(records[0]))
        self.replace("metrics.jsonl", update(1, None), update(3, 5.0))
        self.assertEqual(list(follower.records()), [])

    def test_a_long_file_and_a_line_longer_than_is_read_at_once(self):
        former, follow_run.READ_AT_ONCE = follow_run.READ_AT_ONCE, 64
        self.addCleanup(setattr, follow_run, "READ_AT_ONCE", former)
        self.append("metrics.jsonl", *(update(n, 1.0 / n) for n in range(1, 50)))
        self.append("events.jsonl", {"event": "skip", "step": 3, "files": ["x" * 500]})
        follower = follow_run.Follower(self.folder)
        self.assertEqual(len(list(follower.records())), 50)

    def test_names_are_those_of_tensorboard(self):
        follower = follow_run.Follower(self.folder)
        self.append("metrics.jsonl", update(1, 8.0), evaluation(1, 7.0))
        numbers = [follow_run.numbers_of(record) for record in follower.records()]
        self.assertEqual(sorted(numbers[0]), ["train/elapsed", "train/loss", "train/seq_len", "train/tokens"])
        self.assertEqual(sorted(numbers[1]), ["eval/bits_per_byte", "eval/loss", "eval/loss/code"])

    def test_it_ends_with_the_run_and_not_when_that_is_stopped(self):
        self.replace("status.json", {"state": "stopped"})
        self.append("metrics.jsonl", update(1, 8.0))
        follower, seen = follow_run.Follower(self.folder), []

        def send(records):
            seen.extend(record.line["step"] for record in records)
            if len(seen) == 1:
                self.append("metrics.jsonl", update(2, 7.0))
                self.replace("status.json", {"state": "done"})

        self.assertEqual(follow_run.follow(follower, send, once=False, seconds=0.01), "done")
        self.assertEqual(seen, [1, 2])

    def test_once_takes_what_is_there(self):
        self.replace("status.json", {"state": "running"})
        self.append("metrics.jsonl", update(1, 8.0))
        seen = []
        self.assertEqual(follow_run.follow(follow_run.Follower(self.folder), lambda records: seen.extend(records), True, 60), "running")
        self.assertEqual(len(seen), 1)

    def test_a_run_that_has_not_begun_is_waited_for_but_not_with_once(self):
        options = types.SimpleNamespace(run_dir=self.folder, once=False, seconds=0.01)
        timer = threading.Timer(0.1, lambda: self.replace("config.json", {"name": "a", "identity": {"run": "abc"}}))
        timer.start()
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(follow_run.run_there(options).identity(), "abc")
            with self.assertRaises(SystemExit):
                follow_run.run_there(types.SimpleNamespace(run_dir=self.path("none"), once=True, seconds=0.01))

    def test_a_missing_package_is_said_with_the_cure(self):
        for name, package in (("follow_wandb", "wandb"), ("follow_mlflow", "mlflow"), ("follow_trackio", "trackio")):
            blocked = (f"import sys; sys.modules[{package!r}] = None; sys.argv = ['x', '.']; sys.path.insert(0, {SCRIPTS!r}); "
                       f"import {name}; {name}.main()")
            done = subprocess.run([sys.executable, "-B", "-c", blocked], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"needs the Python package {package}", done.stderr)
            self.assertIn(f"pip install {package}", done.stderr)


class Wandb(Case):
    class Run:
        def __init__(self, starting_step):
            self.starting_step, self.summary, self.logged, self.code = starting_step, {}, [], None

        def log(self, values, step=None):
            self.logged.append((step, values))

        def finish(self, exit_code):
            self.code = exit_code

    def sender(self, starting_step=0):
        return follow_wandb.Sender(types.SimpleNamespace(Table=lambda columns, data: data), self.Run(starting_step))

    def test_each_step_is_sent_once_and_a_resumed_run_goes_on_where_it_was(self):
        self.append("metrics.jsonl", evaluation(0, 9.0), update(1, 8.0), update(2, 7.0))
        self.append("events.jsonl", {"time": "t", "event": "skip", "step": 1, "reason": "spike"})
        follower, sender = follow_run.Follower(self.folder), self.sender(starting_step=2)
        sender.send(follower.records())
        self.replace("metrics.jsonl", evaluation(0, 9.0), update(1, 8.0), update(2, 6.0), update(3, 5.0))
        sender.send(follower.records())
        with contextlib.redirect_stderr(io.StringIO()) as err:
            sender.finish("diverged")
        self.assertEqual([step for step, _ in sender.run.logged], [2, 3, None])
        self.assertEqual(sender.run.logged[-1][1], {"events": [["t", "skip", 1, "spike"]]})
        self.assertEqual(sender.run.summary, {"events/skip": 1, "state": "diverged"})
        self.assertIn("keeps the first ones: 1", err.getvalue())
        self.assertEqual(sender.run.code, 1)


class Mlflow(Case):
    """A store that keeps what is logged, as MlflowClient does."""

    class Client:
        def __init__(self):
            self.tags, self.metrics = {}, []

        def get_run(self, _):
            return types.SimpleNamespace(data=types.SimpleNamespace(tags=self.tags))

        def get_metric_history(self, _, key):
            return [metric for metric in self.metrics if metric.key == key]

        def log_batch(self, _, metrics):
            assert len(metrics) <= 1000
            self.metrics += metrics

        def set_tag(self, _, key, value):
            self.tags[key] = value

    def test_a_sender_that_begins_again_sends_nothing_twice(self):
        def metric(key, value, timestamp, step):
            return types.SimpleNamespace(key=key, value=value, timestamp=timestamp, step=step)

        package = types.SimpleNamespace(entities=types.SimpleNamespace(Metric=metric))
        client = self.Client()
        self.append("metrics.jsonl", evaluation(0, 9.0), *(update(n, 10.0 / n) for n in range(1, 600)))
        self.append("events.jsonl", {"event": "start", "step": 0}, {"event": "skip", "step": 5})
        follower = follow_run.Follower(self.folder)
        follow_mlflow.Sender(package, client, "id", follower).send(follower.records())
        first = len(client.metrics)
        self.append("metrics.jsonl", update(600, 1.0))
        self.append("events.jsonl", {"event": "skip", "step": 600})
        follower = follow_run.Follower(self.folder)
        follow_mlflow.Sender(package, client, "id", follower).send(follower.records())
        added = client.metrics[first:]
        self.assertEqual({metric.step for metric in added}, {600})
        self.assertEqual([metric.value for metric in added if metric.key == "events/skip"], [2])
        self.assertEqual(client.tags["lmtrain.events"], "3")


class Trackio(Case):
    """A package that keeps what is logged. As Trackio does, it knows a run by its name, and where that goes on."""

    class Run:
        def __init__(self, logged):
            self.logged = logged
            self._next_step = max((step for step, _ in logged), default=-1) + 1

        def log(self, metrics, step=None):
            self.logged.append((step, metrics))

    def package(self, runs):
        def init(project, name, space_id, resume, config):
            self.assertEqual((project, space_id, resume), ("lmtrain", None, "allow"))
            self.assertEqual(config["optimizer.lr"], 0.5)
            return self.Run(runs.setdefault(name, []))

        return types.SimpleNamespace(init=init, finish=lambda: runs.setdefault("finished", []).append(True))

    def main(self, runs):
        arguments, module = sys.argv, sys.modules.get("trackio")
        sys.argv, sys.modules["trackio"] = ["follow_trackio.py", self.folder, "--once"], self.package(runs)
        try:
            return follow_trackio.main()
        finally:
            sys.argv = arguments
            if module is None:
                del sys.modules["trackio"]

    def test_a_script_that_is_started_again_goes_on_in_the_same_run(self):
        runs = {}
        self.replace("config.json", {"optimizer": {"lr": 0.5}, "identity": {"run": "5f0c2b9e8d714a36"}})
        self.append("metrics.jsonl", evaluation(0, 9.0), update(1, 8.0), update(2, 7.0))
        self.append("events.jsonl", {"event": "start", "step": 0}, {"event": "skip", "step": 1})
        self.assertEqual(self.main(runs), 0)
        name = os.path.basename(self.folder) + "-5f0c2b9e"
        self.assertEqual([step for step, _ in runs[name]], [0, 1, 2, 1])
        self.assertEqual(runs[name][0][1], {"eval/loss": 9.0, "eval/bits_per_byte": 2.0, "eval/loss/code": 9.0})
        self.assertEqual(runs[name][3][1], {"events/skip": 1})
        self.append("metrics.jsonl", update(3, None))
        self.append("events.jsonl", {"event": "skip", "step": 3})
        self.assertEqual(self.main(runs), 0)
        self.assertEqual([step for step, _ in runs[name][4:]], [3, 3])
        self.assertNotIn("train/loss", runs[name][4][1])
        self.assertEqual(runs[name][5][1], {"events/skip": 2})
        self.assertEqual(runs["finished"], [True, True])

    def test_steps_that_were_trained_again_have_both_values(self):
        self.append("metrics.jsonl", update(1, 8.0), update(2, 7.0))
        follower, run = follow_run.Follower(self.folder), self.Run([])
        sender = follow_trackio.Sender(run)
        sender.send(follower.records())
        self.replace("metrics.jsonl", update(1, 8.0), update(2, 6.0), update(3, 5.0))
        sender.send(follower.records())
        self.assertEqual([(step, numbers["train/loss"]) for step, numbers in run.logged], [(1, 8.0), (2, 7.0), (2, 6.0), (3, 5.0)])


if __name__ == "__main__":
    unittest.main()
