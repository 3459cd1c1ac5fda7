#!/usr/bin/env python3
"""The parts of a sweep (scripts/sweep.sh) that need no run: points, statistics, target, edges, devices, rungs, and the command line."""

import contextlib
import io
import json
import math
import os
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))

import run_files  # noqa: E402
from sweep import command, devices, halving, points, table  # noqa: E402
from sweep.messages import SweepError  # noqa: E402
from sweep.runs import Run  # noqa: E402


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def refused(self, *words):
        """The message of a SweepError, which names all the words."""
        test = self

        class Refused:
            def __enter__(self):
                self.context = test.assertRaises(SweepError)
                self.caught = self.context.__enter__()

            def __exit__(self, *error):
                result = self.context.__exit__(*error)
                for word in words:
                    test.assertIn(word, str(self.caught.exception))
                return result

        return Refused()


class Points(Case):
    def names(self, **options):
        given = {"points_file": None, "vary": [], "draws": [], "num_draws": 10, "draw_seed": 1} | options
        return [point.name for point in points.make_points(**given)[0]]

    def test_a_grid_has_each_value_with_each_other_the_last_key_fastest(self):
        self.assertEqual(self.names(vary=["optimizer.lr=1e-3,2e-3", "optimizer.type=adamw,muon"]),
                         ["lr=1e-3_type=adamw", "lr=1e-3_type=muon", "lr=2e-3_type=adamw", "lr=2e-3_type=muon"])

    def test_without_any_the_config_is_the_point(self):
        self.assertEqual(self.names(), ["run"])

    def test_commas_in_json_divide_nothing(self):
        one, two = '{"type":"step","cycles":[1,2]}', '"a,b"'
        self.assertEqual(points.split_values(f"{one},{two},3"), [one, two, "3"])
        self.assertEqual(self.names(vary=['sequence.schedule={"type":"root"},{"type":"step"}']),
                         ["schedule=type-root", "schedule=type-step"])

    def test_a_file_has_names_and_options_quoted_as_in_a_shell(self):
        path = self.write("points", "# head\n\n  a  --set x.y=1 --set 'z={\"type\": \"w\"}'\nb-2 --set=x.y=2\n")
        made, ranges = points.make_points(path, ["k=1,2"], [], 10, 1)
        self.assertEqual([point.name for point in made], ["a_k=1", "a_k=2", "b-2_k=1", "b-2_k=2"])
        self.assertEqual(made[0].settings, ("x.y=1", 'z={"type": "w"}', "k=1"))
        self.assertEqual([one.key for one in ranges], ["k"])

    def test_mistakes_of_a_file_are_named_with_their_line(self):
        for text, word in (("a --set 'x=1\n", ":1: No closing quotation"), ("\na/b --set x=1\n", ":2: 'a/b' cannot name"),
                           ("a --run-dir x\n", ":1: --run-dir is not --set"), ("a --set x\n", "give KEY=VALUE"), ("# none\n", "no point")):
            with self.refused(word):
                points.read_points(self.write("points", text))

    def test_points_of_one_name_are_refused(self):
        with self.refused("two points are named lr=1"):
            self.names(vary=["lr=1,1"])
        with self.refused("optimizer.lr is given more than once"):
            self.names(vary=["optimizer.lr=1,2"], draws=["optimizer.lr=uniform:0:1"])


class Draws(Case):
    def draw(self, specs, count, seed=1):
        return points.draw_points([points.read_draw(spec) for spec in specs], count, seed)

    def test_they_depend_on_seed_key_and_number_alone(self):
        few, more = self.draw(["a.lr=log:1e-4:1e-2"], 5), self.draw(["a.lr=log:1e-4:1e-2"], 20)
        self.assertEqual(more[:5], few)
        with_another = self.draw(["a.lr=log:1e-4:1e-2", "a.wd=uniform:0:1"], 5)
        self.assertEqual([point.settings[0] for point in with_another], [point.settings[0] for point in few])
        self.assertNotEqual(self.draw(["a.lr=log:1e-4:1e-2"], 5, seed=2), few)
        # A sweep that goes on with another version of the script must find its points again.
        self.assertEqual([point.name for point in few[:2]], ["lr=0.00473937", "lr=0.00301425"])

    def test_a_log_range_has_as_many_values_below_its_geometric_middle_as_above(self):
        values = [points.value_of(point, "lr") for point in self.draw(["lr=log:1e-4:1e-2"], 1000)]
        self.assertTrue(all(1e-4 <= value <= 1e-2 for value in values))
        self.assertAlmostEqual(sum(value < 1e-3 for value in values) / 1000, 0.5, delta=0.05)
        even = [points.value_of(point, "wd") for point in self.draw(["wd=uniform:0:0.2"], 1000)]
        self.assertAlmostEqual(sum(even) / 1000, 0.1, delta=0.006)

    def test_ranges_that_are_none_are_refused(self):
        for spec, word in (("lr=log:0:1", "begins above 0"), ("lr=uniform:2:1", "2 is not below 1"), ("lr=normal:0:1", "give KEY=log"),
                           ("lr=log:1e-4", "give KEY=log"), ("lr=log:a:b", "give KEY=log")):
            with self.refused(word):
                points.read_draw(spec)
        with self.refused("hold no 3 values"):
            self.draw(["x=uniform:1:1.00001"], 3)


class Edges(Case):
    def warning(self, tried, setting):
        return points.edge_warning(tried, points.Point("best", (setting,)))

    def test_the_best_of_a_grid_at_its_end_is_a_warning_that_says_where_to_look(self):
        tried, _ = points.read_vary("optimizer.lr=4e-3,1e-3,2e-3")
        self.assertIn("higher values may be better", self.warning(tried, "optimizer.lr=4e-3"))
        self.assertIn("lower values may be better", self.warning(tried, "optimizer.lr=1e-3"))
        self.assertIsNone(self.warning(tried, "optimizer.lr=2e-3"))

    def test_words_have_no_order_and_one_value_has_no_range(self):
        self.assertIsNone(self.warning(points.read_vary("type=adamw,muon")[0], "type=muon"))
        self.assertIsNone(self.warning(points.read_vary("type=1,auto,2")[0], "type=2"))
        self.assertIsNone(self.warning(points.read_vary("lr=1")[0], "lr=1"))

    def test_the_edge_of_a_drawn_range_is_its_outer_tenth(self):
        log, even = points.read_draw("lr=log:1e-4:1e-2").range, points.read_draw("wd=uniform:0:1").range
        self.assertIn("highest tenth", self.warning(log, "lr=0.0095"))
        self.assertIn("lowest tenth", self.warning(log, "lr=0.00011"))
        self.assertIsNone(self.warning(log, "lr=0.005"))
        self.assertIn("lowest tenth", self.warning(even, "wd=0.05"))
        self.assertIsNone(self.warning(even, "wd=0.5"))


class Statistics(unittest.TestCase):
    def test_the_standard_error_is_that_of_the_mean(self):
        self.assertAlmostEqual(run_files.standard_error([1.0, 2.0, 3.0]), 1 / math.sqrt(3))
        self.assertIsNone(run_files.standard_error([1.0]))
        self.assertIsNone(run_files.standard_error([]))

    def test_differences_are_taken_seed_by_seed(self):
        losses, base = {"1": 4.1, "2": 5.1, "9": 1.0}, {"1": 4.0, "2": 5.0, "3": 7.0}
        difference, error, pairs = run_files.paired(losses, base)
        self.assertAlmostEqual(difference, 0.1)
        self.assertAlmostEqual(error, 0.0)
        self.assertEqual(pairs, 2)
        self.assertIsNone(run_files.paired({"1": 1.0}, {"2": 1.0}))


class Target(unittest.TestCase):
    CURVE = [(0, 0.0, 9.0), (100, 1.0, 5.0), (200, 3.0, 4.0), (300, 4.0, 4.5), (400, 5.0, 3.0)]

    def test_it_lies_on_a_straight_line_between_two_evaluations(self):
        tokens, seconds = run_files.crossing(self.CURVE, 4.25)
        self.assertAlmostEqual(tokens, 175)
        self.assertAlmostEqual(seconds, 2.5)

    def test_the_first_crossing_counts(self):
        self.assertEqual(run_files.crossing(self.CURVE, 4.0), (200, 3.0))

    def test_a_run_that_begins_below_it_or_never_reaches_it(self):
        self.assertEqual(run_files.crossing(self.CURVE, 10.0), (0, 0.0))
        self.assertIsNone(run_files.crossing(self.CURVE, 2.9))
        self.assertIsNone(run_files.crossing([], 3.0))


class Table(Case):
    def run_folder(self, point, seed, loss, state="done", curve=()):
        folder = f"{point}/seed_{seed}"
        self.write(f"{folder}/status.json", json.dumps({"state": state, "step": 10, "tokens": 1000, "eval_loss": loss}))
        self.write(f"{folder}.log", "lmtrain: error\n")
        lines = [{"step": 10, "tokens": 1000, "seq_len": 8, "elapsed": 5.0}] + [
            {"step": 0, "tokens": tokens, "eval_loss": value} for tokens, value in curve]
        self.write(f"{folder}/metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines) + '{"step":11,"tok')
        return Run(os.path.join(self.folder, folder))

    def test_rows_come_best_first_with_paired_differences_and_states(self):
        runs = [self.run_folder("a", 1, 4.0), self.run_folder("a", 2, 5.0), self.run_folder("b", 1, 3.9), self.run_folder("b", 2, 4.8),
                self.run_folder("c", 1, 9.0, "diverged"), self.run_folder("c", 2, 3.0, "running")]
        rows = table.rows_of(runs, "a", None)
        self.assertEqual([row["point"] for row in rows], ["b", "a", "c"])
        self.assertAlmostEqual(rows[0]["difference"]["mean"], -0.15)
        self.assertAlmostEqual(rows[0]["difference"]["standard_error"], 0.05)
        self.assertEqual((rows[2]["done"], rows[2]["states"]), (0, {"1": "diverged", "2": "killed"}))
        text = table.table_text(rows, "a", None).splitlines()
        self.assertRegex(text[1], r"^b +2 of 2 +4\.3500 +0\.4500 +-0\.1500 +0\.0500 +1K +5\.0 +500\.0 +-$")
        self.assertRegex(text[2], r"^a +2 of 2 +4\.5000 +0\.5000 +base +1K")
        self.assertRegex(text[3], r"^c +0 of 2, 1 diverged, 1 killed +- ")

    def test_runs_without_held_out_text_are_done_too(self):
        runs = [self.run_folder("a", 1, None), self.run_folder("a", 2, None, "failed")]
        text = table.table_text(table.rows_of(runs, None, None), None, None).splitlines()
        self.assertRegex(text[1], r"^a +1 of 2, 1 failed +- +- +1K +5\.0 +500\.0 +-$")

    def test_the_target_counts_the_runs_that_reach_it(self):
        runs = [self.run_folder("a", 1, 4.0, curve=[(0, 6.0), (1000, 4.0)]), self.run_folder("a", 2, 5.0, curve=[(0, 6.0), (1000, 5.0)])]
        row = table.rows_of(runs, None, 4.5)[0]
        self.assertEqual((row["target"]["reached"], row["target"]["tokens"]), (1, 750))
        self.assertIn("750 (1 of 2)", table.table_text([row], None, 4.5))


class Devices(Case):
    def test_one_at_a_time_has_the_whole_machine(self):
        self.assertEqual(devices.slots(None, None, ["auto"], ["0", "1"], 8), [devices.Slot("", {})])

    def test_gpus_are_handed_out_in_turn_by_the_environment(self):
        given = devices.slots(3, None, ["auto"], ["4", "7"], 9)
        self.assertEqual([slot.environment["CUDA_VISIBLE_DEVICES"] for slot in given], ["4", "7", "4"])
        self.assertEqual({slot.environment["OMP_NUM_THREADS"] for slot in given}, {"3"})
        self.assertEqual([slot.name for slot in devices.slots(None, ["cuda:1"], ["auto"], ["4", "7"], 9)], ["cuda:1"])

    def test_processors_are_divided(self):
        for wanted, gpus in ((["auto"], []), (["cpu"], ["0"])):
            given = devices.slots(3, None, wanted, gpus, 8)
            self.assertEqual([slot.environment["OMP_NUM_THREADS"] for slot in given], ["2", "2", "2"])
        self.assertEqual(devices.slots(4, None, ["cpu"], [], 2)[0].environment["OMP_NUM_THREADS"], "1")

    def test_devices_that_are_not_there_or_shared_are_refused(self):
        with self.refused("there are 1 GPUs"):
            devices.slots(2, ["cuda:0", "cuda:1"], ["auto"], ["0"], 8)
        with self.refused("which all runs would share"):
            devices.slots(2, None, ["cuda:0"], ["0", "1"], 8)
        with self.refused("no GPU that lmtrain can use"):
            devices.slots(2, None, ["cuda"], [], 8)
        with self.refused("different devices (auto, cpu)"):
            devices.slots(2, None, ["auto", "cpu"], ["0"], 8)
        with self.refused("'gpu' is no device"):
            devices.read_devices("cuda:0,gpu")

    def test_gpus_are_those_that_are_visible_else_those_that_nvidia_smi_lists(self):
        path = self.write("bin/nvidia-smi", "#!/bin/sh\nprintf 'GPU 0: a (UUID: x)\\n  MIG 1g\\nGPU 1: a (UUID: y)\\n'\n")
        os.chmod(path, 0o755)
        with mock.patch.dict(os.environ, {"PATH": os.path.dirname(path) + os.pathsep + os.environ["PATH"]}):
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
            self.assertEqual(devices.visible_gpus(), ["0", "1"])
            os.environ["CUDA_VISIBLE_DEVICES"] = "3,GPU-x"
            self.assertEqual(devices.visible_gpus(), ["3", "GPU-x"])
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
            self.assertEqual(devices.visible_gpus(), [])

    def test_the_quota_of_every_group_around_counts(self):
        self.write("mount/a/b/cpu.max", "max 100000\n")
        self.write("mount/a/cpu.max", "250000 100000\n")
        self.assertEqual(devices.quotas(self.write("cgroup", "0::/a/b\n"), os.path.join(self.folder, "mount")), [2])


class Halving(Case):
    def config(self, **changes):
        config = {"lr_schedule": {"type": "wsd", "decay": "20%", "warmup": "1%"}, "train": {"steps": 1000, "tokens": None, "epochs": None},
                  "batch": {"tokens": 4096}, "device": "auto"}
        for key, value in changes.items():
            config[key] |= value
        return config

    def test_branches_begin_at_doubling_places_and_have_the_schedule_of_their_length(self):
        rungs = halving.plan(self.config(), 8, 3)
        self.assertEqual([(rung.at, rung.length) for rung in rungs], [(100, 125), (200, 250), (400, 500)])
        tokens = halving.plan(self.config(train={"steps": None, "tokens": "20M"}, lr_schedule={"decay": "4M"}), 4, 2)
        self.assertEqual([(rung.at, rung.length) for rung in tokens], [(4_000_000, 5_000_000), (8_000_000, 10_000_000)])

    def test_other_schedules_are_refused_with_the_reason(self):
        with self.refused("lr_schedule.type is cosine", "do not rank as at its end", "lr_schedule.type=wsd"):
            halving.plan(self.config(lr_schedule={"type": "cosine"}), 8, 2)

    def test_what_cannot_be_halved_is_refused(self):
        with self.refused("of 4 points one is left after 2"):
            halving.plan(self.config(), 4, 3)
        with self.refused("only one point"):
            halving.plan(self.config(), 1, 1)
        with self.refused("after 200 steps", "the warm-up takes 300"):
            halving.plan(self.config(lr_schedule={"warmup": 300}), 8, 2)
        with self.refused("leaves no plateau"):
            halving.plan(self.config(lr_schedule={"decay": "1000 steps"}), 8, 2)
        with self.refused("train.epochs"):
            halving.plan(self.config(train={"steps": None, "epochs": 2}), 8, 2)
        with self.refused("has no fixed place"):
            halving.plan(self.config(lr_schedule={"decay": "30min"}), 8, 2)
        with self.refused("the points differ"):
            halving.one_length([self.config(), self.config(train={"steps": 500})])

    def test_amounts_are_read_as_the_config_writes_them(self):
        for text, expected in (("20%", (20, "%")), ("500 steps", (500, "steps")), ("64Ki", (65536, "tokens")), ("1.5M", (1.5e6, "tokens")),
                               ("12345 tokens", (12345, "tokens")), (7, (7, "steps"))):
            self.assertEqual(halving.amount(text, "steps"), expected)

    def test_the_better_half_goes_on_and_a_diverged_seed_is_worse_than_any_loss(self):
        losses = {"a": [4.0, 4.2], "b": [3.0, None], "c": [5.0, 5.0], "d": [4.0, 4.0], "e": [6.0, 6.0]}
        self.assertEqual(halving.chosen(losses, 3), ["a", "c", "d"])
        self.assertEqual([halving.survivors(5, n) for n in range(4)], [5, 3, 2, 1])

    def test_a_trunk_that_counts_tokens_is_left_at_the_first_checkpoint_from_there_on(self):
        config = self.config(train={"steps": None, "tokens": 1_000_000})
        stage = halving.Halving(config, 4, 2, "lmtrain")
        self.assertEqual(stage.trunk_settings, ("checkpoint.keep_every=200000 tokens",))
        run = Run(os.path.join(self.folder, "a", "run"))
        for step, tokens in ((40, 160_000), (50, 200_500), (90, 400_100)):
            self.write(f"a/run/checkpoints/step_{step:08d}/state.json", json.dumps({"tokens": tokens}))
        self.assertEqual([stage.checkpoint(run, rung) for rung in stage.rungs], [50, 90])


class CommandLine(Case):
    def main(self, *words):
        os.environ["LMTRAIN"] = os.path.join(self.folder, "no program")
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = command.main(list(words))
        return code, out.getvalue(), err.getvalue()

    def test_mistakes_are_exit_code_2_and_one_message(self):
        config, out = self.write("c.json", "{}"), os.path.join(self.folder, "out")
        for words, message in (
                ([], "give a config and --out"), ([config], "give a config and --out"), (["no.json", "--out", out], "no.json cannot be read"),
                ([config, "--out", out, "--paralel", "2"], "did you mean --parallel?"), ([config, "--out", out, "--seeds", "1,x"], "give numbers"),
                ([config, "--out", out, "--seeds", "1,1"], "given twice"), ([config, "--out", out, "--for", "3d"], "such as 15min"),
                ([config, "--out", out, "--parallel", "0"], "whole number above 0"), ([config, "--out", out, "--draws", "3"], "give --draw"),
                ([config, "--out", out, "--vary", "lr"], "give KEY=VALUE"), ([config, "--out", out, "--base", "rn"], "did you mean run?"),
                ([config, "--out", out, "--", "--dry-run"], "after --: --dry-run is not --set"),
                ([config, "--out", out], "no program is not there")):
            code, _, err = self.main(*words)
            self.assertEqual(code, 2, err)
            self.assertIn(message, err)
            self.assertTrue(err.startswith("sweep: ") and err.count("\n") == 1, err)

    def test_a_dry_run_prints_points_and_settings_without_a_program(self):
        config = self.write("c.json", "{}")
        code, out, _ = self.main(config, "--out", self.folder, "--vary", "a.lr=1,2", "--seeds", "3", "--dry-run", "--", "--set", "device=cpu")
        self.assertEqual(code, 0)
        self.assertEqual([line.split("  ") for line in out.splitlines()],
                         [[os.path.join(self.folder, f"lr={value}", "seed_3"), "to be trained", f"seed=3 a.lr={value} device=cpu"] for value in "12"])

    def test_times_have_units(self):
        self.assertEqual([command.seconds_of(text) for text in ("90", "90s", "15min", "1.5h")], [90, 90, 900, 5400])


if __name__ == "__main__":
    unittest.main()
