#!/usr/bin/env python3
"""The rules of scripts/gpu_check.py without a GPU: what a call does when its time, a contestant's memory or a tool fails it."""

import collections
import json
import os
import re
import signal
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))

import bench_contestants  # noqa: E402
import bench_processes  # noqa: E402
import gpu_benchmarks  # noqa: E402
import gpu_check  # noqa: E402
import gpu_processes  # noqa: E402
import gpu_programs  # noqa: E402
import gpu_report  # noqa: E402
import gpu_training  # noqa: E402


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def script(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(self.path(name), 0o755)
        return self.path(name)

    def report(self, name="report.json", program="p"):
        return gpu_report.Report(self.path(name), {"program": program})

    def context(self):
        memo = {}
        report = self.report()
        report.section = "bench-124m-1024"
        return types.SimpleNamespace(
            report=report, on_gpu=True, memo=memo, lmtrain="lmtrain", work=self.folder, program=self.path,
            once=lambda key, make: memo[key], ahead=None,
        )

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)


class SettledGrowth(unittest.TestCase):
    LENGTHS = [64, 64, 128, 64, 128, 128, 256, 64, 128, 64]  # 256 comes once, at step 7

    def test_a_length_that_comes_late_is_no_leak(self):
        samples = [(0, 10), (3, 20), (6, 21), (7, 30), (8, 30), (10, 30)]
        self.assertEqual(gpu_training.settled_growth(self.LENGTHS, samples), (7, 0))

    def test_memory_that_grows_after_all_lengths_is_a_leak(self):
        samples = [(0, 10), (7, 30), (9, 31), (10, 30)]
        self.assertEqual(gpu_training.settled_growth(self.LENGTHS, samples), (7, 1))

    def test_less_memory_is_no_growth(self):
        self.assertEqual(gpu_training.settled_growth([64] * 10, [(1, 10), (3, 12), (8, 11)]), (3, 0))

    def test_without_later_samples_nothing_is_known(self):
        self.assertEqual(gpu_training.settled_growth([64, 128], [(0, 10), (1, 10)]), (2, None))


class Calls(Case):
    def run_items(self, items, seconds):
        context = self.context()
        gpu_check.run_items(context, items, gpu_check.Budget(seconds and seconds + gpu_check.SECONDS_TO_END))
        context.report.write()
        return self.read("report.json")

    def test_an_item_that_outlasts_the_time_is_stopped_and_one_that_does_not_fit_is_not_begun(self):
        begun = time.monotonic()
        report = self.run_items([("soak", "long", 0, lambda c: time.sleep(60)), ("soak", "later", 30, lambda c: None)], 0.5)
        self.assertLess(time.monotonic() - begun, 30)
        self.assertEqual([(row["name"], row["result"]) for row in report["rows"]], [("long", "stopped")])
        self.assertEqual(report["calls"][0]["not_begun"], ["soak/later"])

    def test_a_check_that_throws_is_a_row_and_not_the_end(self):
        def throws(_):
            raise ValueError("no such thing")

        report = self.run_items([("soak", "a", 1, throws), ("soak", "b", 1, lambda c: c.report.add("b", True))], None)
        self.assertEqual([(row["name"], row["result"]) for row in report["rows"]], [("a", "fail"), ("b", "pass")])
        self.assertEqual(report["result"], "fail")

    def test_what_was_stopped_is_for_the_next_call(self):
        calls = self.run_items([("soak", "a", 0, lambda c: None), ("soak", "b", 0, lambda c: time.sleep(60))], 0.5)["calls"]
        self.assertEqual((calls[0]["begun"], calls[0]["ended"]), (["soak/a", "soak/b"], ["soak/a"]))

    def test_seconds_that_are_over_before_the_first_item_count(self):
        self.assertLess(gpu_check.Budget(540, taken=500).left(), 40)

    def test_an_item_that_takes_long_is_stopped_and_the_next_one_begins(self):
        report = self.run_items([("soak", "a", 0.2, lambda c: time.sleep(60)), ("soak", "b", 1, lambda c: c.report.add("b", True))], None)
        self.assertEqual([(row["name"], row["result"]) for row in report["rows"]], [("a", "stopped"), ("b", "pass")])
        self.assertIn("0.2 s", report["rows"][0]["reason"])

    def run_beside(self, items, seconds=None, count=2):
        context = self.context()
        began = time.monotonic()
        gpu_check.run_beside(context, items, gpu_check.Budget(seconds and seconds + gpu_check.SECONDS_TO_END), count)
        return self.read("report.json"), time.monotonic() - began

    def test_items_beside_each_other_are_one_report(self):
        def slow(name):
            def work(context):
                began = time.monotonic()
                time.sleep(1)
                context.report.add(name, True, cores=sorted(os.sched_getaffinity(0)), began=began, ended=time.monotonic())
            return ("soak", name, 30, work)

        report, _ = self.run_beside([slow("a"), slow("b")])
        self.assertLess(max(row["began"] for row in report["rows"]), min(row["ended"] for row in report["rows"]))
        self.assertEqual(sorted((row["section"], row["name"], row["result"]) for row in report["rows"]),
                         [("soak", "a", "pass"), ("soak", "b", "pass")])
        self.assertEqual(sorted(report["calls"][0]["ended"]), ["soak/a", "soak/b"])
        if len(os.sched_getaffinity(0)) > 1:
            self.assertFalse(set(report["rows"][0]["cores"]) & set(report["rows"][1]["cores"]))

    def test_of_items_beside_each_other_one_that_dies_or_is_late_is_a_row(self):
        items = [("soak", "dies", 5, lambda c: os.kill(os.getpid(), signal.SIGKILL)), ("soak", "late", 0.2, lambda c: time.sleep(60)),
                 ("soak", "good", 1, lambda c: c.report.add("good", True))]
        report, seconds = self.run_beside(items)
        self.assertLess(seconds, 30)
        self.assertEqual({row["name"]: row["result"] for row in report["rows"]}, {"dies": "fail", "late": "stopped", "good": "pass"})
        self.assertEqual(report["calls"][0]["ended"], ["soak/good"])

    def test_the_report_has_the_rows_of_items_under_way(self):
        seen = []

        def watches(context):
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                seen[:] = [row["name"] for row in self.read("report.json")["rows"]]
                if "early" in seen:
                    return context.report.add("saw", True)
                time.sleep(0.05)
            context.report.add("saw", False)

        report, _ = self.run_beside([("soak", "a", 20, lambda c: (c.report.add("early", True), time.sleep(2))), ("soak", "b", 20, watches)])
        self.assertEqual({row["name"]: row["result"] for row in report["rows"]}, {"early": "pass", "saw": "pass"})

    def test_a_report_that_is_there_is_not_written_over(self):
        self.report()
        with self.assertRaises(SystemExit):
            self.report()


class Screen(Case):
    MACHINE = {"gpus": ["a GPU"], "commit": "0" * 40, "torch": "2.11.0"}

    def screen(self, rows, left=()):
        return gpu_report.screen(self.MACHINE, rows, list(left), "report.json", 12.0).split("\n")

    def test_it_is_one_screen_whatever_came_out(self):
        rows = [{"section": "operators", "name": f"Suite{i}", "result": result, "reason": "long " * 100, "ran": 1}
                for i in range(60) for result in ("fail", "skip", "pass")]
        rows += [{"section": "first-step", "name": str(i), "result": "measured", "first_step_seconds": 2.0} for i in range(60)]
        lines = self.screen(rows, left=["soak/pack"])
        self.assertLessEqual(len(lines), gpu_report.SCREEN_LINES)
        self.assertIn("60 fail", lines[1])
        self.assertTrue(lines[2].startswith("FAIL"))
        self.assertIn("soak/pack", lines[-2])
        self.assertTrue(lines[-1].startswith("FAIL; report"))
        self.assertLessEqual(max(map(len, lines)), gpu_report.SCREEN_WIDTH)

    def test_it_has_the_figures_that_matter(self):
        rows = [
            {"section": "bench-124m-1024", "name": "lmtrain", "result": "measured", "step_seconds": 0.2, "mfu": 0.55, "peak_bytes": 15.5e9,
             "first_step_seconds": 0.3, "start_seconds": 2.5, "losses": [9.0]},
            {"section": "bench-124m-1024", "name": "compile", "result": "measured", "step_seconds": 0.25, "mfu": 0.44, "peak_bytes": 17e9,
             "first_step_seconds": 30.0, "losses": [9.01]},
            {"section": "first-step", "name": "124m", "result": "measured", "first_step_seconds": 3.4, "phases": {"libraries": 1.2, "data": 0.001}},
            {"section": "time-to-loss", "name": "30m", "result": "measured", "peer_seconds": 20.0, "peer_loss": 3.0, "peer_lr": 2e-3,
             "reached_after": 1.6, "times_sooner": 12.5, "end_tokens": 1e6, "end_sooner": 6.0, "lmtrain_loss": 2.0, "lmtrain_seconds": 15.0},
            {"section": "soak", "name": "bucket memory", "result": "pass", "in_use_bytes": 25e9, "grown_since": 0, "settled_after": 60},
            {"section": "kernels", "name": "swiglu", "result": "measured", "microseconds": 365.4, "speedup": 3.06, "gigabytes_per_second": 2938.4},
            {"section": "training", "name": "losses cuda bf16 pack against cpu fp32", "result": "pass", "largest_difference": 0.01, "tolerance": 0.05},
        ]
        text = "\n".join(self.screen(rows))
        for wanted in ("lmtrain 200.0 ms 55.0 % 15.5 GB start 2.5 s; compile 250.0 ms (1.25) 44.0 %", "124m: 3.40 s (libraries 1.20)",
                       "after 1.6 s, 12.5 times sooner", "1M tokens 6.0 times", "grown 0 bytes since step 60", "swiglu 365 us 2.9 TB/s 3.1x",
                       "1 comparisons with the CPU", "FAIL first-step: 124m: first step", "FAIL; report"):
            self.assertIn(wanted, text)
        verdicts = {(row["section"], row["name"]): row["result"] for row in gpu_report.verdicts(rows)}
        self.assertEqual(verdicts["time-to-loss", "30m: sooner than HF Trainer"], "pass")
        self.assertEqual(verdicts["bench-124m-1024", "losses against compile"], "pass")


class Rates(unittest.TestCase):
    def test_contestants_warm_up_like_lmtrain(self):
        # docs/schedules.md: W = 10, s = 0.01 has 0.901 at t = 9.
        spec = {"warmup_start": 0.01, "warmup_steps": 10}
        factors = [round(bench_contestants.rate_factor(spec, step), 6) for step in (0, 9, 10, 11)]
        self.assertEqual(factors, [0.01, 0.901, 1.0, 1.0])
        spec = bench_processes.make_spec("work", "124m", 1024, 12, 131072, 32768, "cuda", "bf16", 1)
        schedule = bench_processes.lmtrain_config("lmtrain", spec)["lr_schedule"]
        self.assertEqual((schedule["warmup"], schedule["warmup_start"]), (spec["warmup_steps"], spec["warmup_start"]))
        self.assertGreater(spec["warmup_steps"], spec["steps"])


class Joined(Case):
    def call(self, name, date, rows, program="p", begun=(), ended=(), not_begun=()):
        call = {"program": program, "begun_at": date, "begun": list(begun), "ended": list(ended), "not_begun": list(not_begun)}
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump({"calls": [call], "rows": rows}, file)
        return self.path(name)

    def test_the_last_result_counts_unless_it_is_none(self):
        def row(name, result):
            return {"section": "soak", "name": name, "result": result}

        first = self.call("1", "2026-01-01", [row("a", "fail"), row("b", "pass")], not_begun=["soak/c", "soak/d"])
        second = self.call("2", "2026-01-02", [row("a", "pass"), row("b", "stopped"), row("c", "pass")], begun=["soak/c"])
        gpu_report.join([second, first], self.path("joined"))
        joined = self.read("joined")
        self.assertEqual({row["name"]: row["result"] for row in joined["rows"]}, {"a": "pass", "b": "pass", "c": "pass"})
        self.assertEqual(joined["result"], "pass")

    def test_an_item_that_a_later_call_has_ended_is_no_longer_stopped_nor_failed(self):
        def row(name, result, **more):
            return {"section": "soak", "name": name, "result": result} | more

        items = [row("a", "fail", item="soak/a"), row("b", "stopped", item="soak/b")]
        first = self.call("1", "2026-01-01", items, begun=["soak/a", "soak/b"], ended=["soak/a"])
        self.assertTrue(gpu_report.join([first], self.path("alone")))
        second = self.call("2", "2026-01-02", [row("of a", "pass"), row("of b", "pass")], begun=["soak/a", "soak/b"], ended=["soak/a", "soak/b"])
        for paths in ([first, second], [self.path("alone"), second]):
            self.assertFalse(gpu_report.join(paths, self.path("joined")))
            self.assertEqual({row["name"] for row in self.read("joined")["rows"]}, {"of a", "of b"})
        # The other way round: what has passed stays, and so does the failure after it.
        third = self.call("3", "2026-01-03", items, begun=["soak/a", "soak/b"], ended=["soak/a"])
        self.assertTrue(gpu_report.join([second, third], self.path("joined")))

    def test_reports_of_two_programs_are_refused(self):
        with self.assertRaises(SystemExit):
            gpu_report.join([self.call("1", "1", []), self.call("2", "2", [], program="other")], self.path("joined"))

    def test_contestants_of_two_calls_are_judged_together(self):
        def row(name, seconds, **more):
            return {"section": "bench-124m-1024", "name": name, "result": "measured", "step_seconds": seconds, "first_step_seconds": 1.0,
                    "losses": [1.0]} | more

        ours = self.call("1", "1", [row("lmtrain", 1.0, mfu=0.3), row("lmtrain-graph", 0.5, mfu=0.6)])
        peers = self.call("2", "2", [row("compile", 0.6), row("trainer", 0.6), row("loop", 0.9)])
        gpu_report.join([ours, peers], self.path("joined"))
        judged = {row["name"]: (row["result"], row["of"]) for row in self.read("joined")["verdicts"]}
        self.assertEqual(judged["MFU"], ("pass", "lmtrain-graph"))
        self.assertEqual(judged["speed against compile"][0], "pass")
        self.assertEqual(judged["speed against trainer"][0], "fail")
        self.assertEqual(self.read("joined")["result"], "fail")


class Contestants(Case):
    def measure(self, name, fits):
        """The row of a contestant that has memory for micro-batches of `fits` rows."""

        def run(contestant, spec, _binary):
            if spec["micro_rows"] > fits:
                with open(self.path("log"), "w", encoding="utf-8") as file:
                    file.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
                raise bench_processes.ContestantFailed(contestant, 1, self.path("log"))
            return {"times": [9.0] + [2.0] * 11, "losses": [1.0] * 12, "memory": 5}

        context = self.context()
        spec = bench_processes.make_spec(self.folder, "124m", 1024, 12, 131072, 32768, "cuda", "bf16", 1)
        context.memo[("prepared", "bench-124m-1024")] = (spec, "")
        original, gpu_benchmarks.run_contestant = gpu_benchmarks.run_contestant, run
        try:
            gpu_benchmarks.measure(context, "bench-124m-1024", name, name)
        finally:
            gpu_benchmarks.run_contestant = original
        return self.read("report.json")["rows"][0]

    def test_micro_batches_are_halved_until_they_fit(self):
        row = self.measure("compile", fits=8)
        self.assertEqual((row["result"], row["micro_tokens"], row["too_large"]), ("measured", 8192, [32768, 16384]))
        self.assertEqual((row["step_seconds"], row["first_step_seconds"]), (2.0, 9.0))

    def test_a_peer_without_memory_is_a_row_that_says_so(self):
        row = self.measure("trainer", fits=0)
        self.assertEqual(row["result"], "skip")
        self.assertIn("out of memory", row["reason"])

    def test_our_own_want_of_memory_is_a_failure(self):
        self.assertEqual(self.measure("lmtrain", fits=0)["result"], "fail")

    def test_want_of_memory_is_told_from_other_errors(self):
        for text, expected in (("cublas: CUBLAS_STATUS_ALLOC_FAILED", True), ("error: cudaErrorMemoryAllocation", True), ("assertion failed", False)):
            with open(self.path("log"), "w", encoding="utf-8") as file:
                file.write(text)
            self.assertEqual(bench_processes.ContestantFailed("loop", 1, self.path("log")).out_of_memory, expected)

    def test_a_process_is_killed_once_it_has_given_enough(self):
        begun = time.monotonic()
        status, _ = bench_processes.run_process(["sh", "-c", f"echo > {self.path('done')}; exec sleep 60"], 1, self.path("log"),
                                                enough=lambda: os.path.exists(self.path("done")))
        self.assertEqual(status, 0)
        self.assertLess(time.monotonic() - begun, 30)


class Tools(Case):
    def sanitize(self, text):
        self.script("compute-sanitizer", text)
        self.script("test_gpu", "")
        path, os.environ["PATH"] = os.environ["PATH"], self.folder + ":" + os.environ["PATH"]
        try:
            context = self.context()
            gpu_programs.sanitize(context, "memcheck")
        finally:
            os.environ["PATH"] = path
        return self.read("report.json")["rows"][0]["result"]

    def test_a_sanitizer_that_cannot_run_is_skipped(self):
        self.assertEqual(self.sanitize("echo '========= Error: Device not supported'; exit 1"), "skip")
        self.assertEqual(self.sanitize_again("exit 127"), "skip")

    def sanitize_again(self, text):
        os.remove(self.path("report.json"))
        return self.sanitize(text)

    def test_what_a_sanitizer_finds_is_a_failure(self):
        self.assertEqual(self.sanitize("echo '[       OK ] A.B'; echo '========= ERROR SUMMARY: 1 error'; exit 97"), "fail")
        self.assertEqual(self.sanitize_again("echo '[       OK ] A.B'; echo '========= ERROR SUMMARY: 0 errors'"), "pass")

    @unittest.skipUnless("LMTRAIN_TEST_GPU" in os.environ, "no test_gpu given")
    def test_the_sanitizer_is_given_our_kernels_and_nothing_of_a_library(self):
        command = [os.environ["LMTRAIN_TEST_GPU"], "--gtest_list_tests", "--gtest_filter=" + gpu_programs.OUR_KERNELS]
        listed = gpu_programs.run(command).stdout
        for name in ("QkvRope", "AddRmsNorm", "Swiglu", "CrossEntropy", "Embedding", "AreTheCpus", "CastsToTheBits"):
            self.assertIn(name, listed)
        for name in ("Attention", "Linear", "OnGpu", "AddProduct"):
            self.assertNotIn(name, listed)

    def time_packed(self, text):
        self.script("bench_gpu_kernels", text)
        context = self.context()
        gpu_programs.packed_attention(context)
        [row] = self.read("report.json")["rows"]
        os.remove(self.path("report.json"))
        return row

    def test_a_kernel_that_is_only_tried_may_fail(self):
        row = self.time_packed("""[ "$1" = packed ] && echo '[{"name": "packed_attention", "speedup": 0.5, "difference": 0.01}]'""")
        self.assertEqual((row["result"], row["speedup"]), ("measured", 0.5))
        row = self.time_packed("""echo '[{"name": "packed_attention", "error": "No execution plans support the graph"}]'""")
        self.assertEqual((row["result"], row["reason"]), ("skip", "No execution plans support the graph"))
        self.assertEqual(self.time_packed("echo 'illegal memory access' >&2; exit 1")["result"], "skip")

    def test_counters_come_slowest_first(self):
        text = "==PROF== 1\n" + '"ID","Kernel Name","Grid Size","Metric Name","Metric Value"\n' + "".join(
            f'"{i}","void lmtrain::cuda::(anonymous namespace)::{name}<float>(int)","(1, 1, 1)","{metric}","{value}"\n'
            for i, (name, metric, value) in enumerate([
                ("a", "gpu__time_duration.sum", "1,000"), ("b", "gpu__time_duration.sum", "2,000"), ("b", "launch__registers_per_thread", "32"),
            ]))
        self.assertEqual(gpu_programs.counters_of(text), [
            ("void b<float> (1, 1, 1)", {"nanoseconds": 2000.0, "registers": 32.0}), ("void a<float> (1, 1, 1)", {"nanoseconds": 1000.0}),
        ])


    def test_counters_of_kernels_with_one_name_stay_apart(self):
        text = '"ID","Kernel Name","Grid Size","Metric Name","Metric Value"\n' + "".join(
            f'"{i}","void lmtrain::cuda::<unnamed>::{name}","(8, 1, 1)","gpu__time_duration.sum","{nanoseconds}"\n'
            for i, (name, nanoseconds) in enumerate([("f<__nv_bfloat16, (int)8>(const T1 *)", 1), ("f<__nv_bfloat16, (int)8>(const T1 *, float)", 3),
                                                     ("g<float, (bool)1>(long)", 2)]))
        self.assertEqual([name for name, _ in gpu_programs.counters_of(text)], [
            "void f<__nv_bfloat16, 8>(const T1 *, float) (8, 1, 1)", "void g<float, 1> (8, 1, 1)", "void f<__nv_bfloat16, 8>(const T1 *) (8, 1, 1)",
        ])

    def test_what_a_stopped_command_has_started_ends_with_it(self):
        self.script("tool", f"sleep 60 & echo $! >{self.path('child')}; wait")

        def stop(*_):
            raise gpu_check.Stopped

        previous = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, 1)
        try:
            with self.assertRaises(gpu_check.Stopped):
                gpu_programs.run([self.path("tool")])
        finally:
            signal.signal(signal.SIGALRM, previous)
        with open(self.path("child"), encoding="ascii") as file:
            child = int(file.read())
        deadline = time.monotonic() + 30
        while os.path.exists(f"/proc/{child}") and time.monotonic() < deadline:
            with open(f"/proc/{child}/stat", encoding="ascii") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":  # no one has waited for it
                    return
            time.sleep(0.05)
        self.assertFalse(os.path.exists(f"/proc/{child}"))

    def test_a_suite_in_several_processes_is_one_result(self):
        self.script("test_gpu", """
echo "[       OK ] Suite.Test$GTEST_SHARD_INDEX ($GTEST_TOTAL_SHARDS ms)"
[ "$GTEST_SHARD_INDEX" != "$FAILING" ]
""")
        context, processes = self.context(), min(gpu_programs.TEST_PROCESSES, len(os.sched_getaffinity(0)))
        context.build = self.folder
        gpu_programs.device_tests(context, "Suite")
        with unittest.mock.patch.dict(os.environ, FAILING=str(processes - 1)):
            gpu_programs.device_tests(context, "Suite")
        self.assertEqual([(row["result"], row["ran"], row["exit_code"]) for row in context.report.rows], [("pass", processes, 0), ("fail", processes, 1)])

    def test_a_gpu_without_fp8_skips_its_tests(self):
        self.script("nvidia-smi", "echo 8.0")
        self.script("lmtrain", "echo '(GPU architectures compiled in: 80)'")
        path, os.environ["PATH"] = os.environ["PATH"], self.folder + ":" + os.environ["PATH"]
        try:
            context = self.context()
            context.lmtrain = self.path("lmtrain")
            context.memo["version"] = "GPU architectures compiled in: 80)"
            gpu_programs.device_tests(context, "GpuFp8")
        finally:
            os.environ["PATH"] = path
        self.assertEqual([row["result"] for row in self.read("report.json")["rows"]], ["skip"])


class Processes(Case):
    """gpu_processes.py with a script in the place of lmtrain, which writes a loss a step."""

    def compare(self, loss, says="", gpus=1, code=0, check=gpu_processes.compare_processes, steps=gpu_training.STEPS):
        self.script("lmtrain", f"""
echo "$@" >{self.path("arguments")}
while [ "$1" != --run-dir ]; do shift; done
mkdir -p "$2"
for step in $(seq {steps}); do printf '{{"step": %s, "loss": %s}}\\n' $step {loss}; done >"$2/metrics.jsonl"
if [ "$WORLD_SIZE$RANK" = 20 ]; then echo "{says}" >&2; fi
exit {code}
""")
        self.script("nvidia-smi", "\n".join(f"echo 'GPU {i}: a stand-in'" for i in range(gpus)))
        path, os.environ["PATH"] = os.environ["PATH"], self.folder + ":" + os.environ["PATH"]
        try:
            context = self.context()
            context.lmtrain, context.device = self.path("lmtrain"), "cuda"
            check(context)
        finally:
            os.environ["PATH"] = path
        [row] = self.read("report.json")["rows"]
        os.remove(self.path("report.json"))
        return row

    def test_two_processes_on_one_gpu_go_past_nccl_and_say_so(self):
        said = "warning: the processes " + gpu_processes.PAST_NCCL
        self.assertEqual(self.compare("2.5", said)["result"], "pass")
        self.assertEqual(self.compare("2.5")["result"], "fail")
        self.assertEqual(self.compare("2.5", said, gpus=2)["result"], "fail")
        self.assertEqual(self.compare("2.5", gpus=2)["result"], "pass")

    def test_gpus_that_a_process_may_not_see_do_not_count(self):
        with unittest.mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES="3"):
            self.assertEqual(self.compare("2.5", "warning: the processes " + gpu_processes.PAST_NCCL, gpus=2)["result"], "pass")

    def test_losses_that_differ_and_processes_that_fail_are_failures(self):
        row = self.compare("$WORLD_SIZE", gpus=2)
        self.assertEqual((row["result"], row["differing_steps"]), ("fail", gpu_training.STEPS))
        self.assertEqual(self.compare("2.5", gpus=2, code=3)["result"], "fail")


    def test_divided_weights_are_compared_too(self):
        how = {"gpus": 2, "check": gpu_processes.compare_divided, "steps": gpu_processes.DIVIDED_STEPS}
        self.assertEqual(self.compare("2.5", **how)["result"], "pass")
        with open(self.path("arguments"), encoding="utf-8") as file:
            self.assertIn("parallel.shard=parameters", file.read())
        row = self.compare("$WORLD_SIZE", **how)
        self.assertEqual((row["result"], row["differing_steps"]), ("fail", gpu_processes.DIVIDED_STEPS))
        self.assertEqual(self.compare("2.5", **how | {"steps": 3})["result"], "fail")


class Sections(Case):
    ITEMS = [("soak", "pack", 1, None), ("fp8", "GpuFp8", 1, None), ("fp8", "train-pack", 1, None), ("kernels", "times", 1, None),
             ("bench-1.1b-2048", "compile", 1, None), ("bench-124m-1024", "lmtrain", 1, None)]

    def test_the_two_calls_have_their_items_in_their_order(self):
        def labels(*names):
            return [gpu_check.label_of(item) for item in gpu_check.chosen(self.ITEMS, names, None)]

        self.assertEqual(labels("correctness"), ["soak/pack", "fp8/GpuFp8", "fp8/train-pack"])
        self.assertEqual(labels("speed"), ["bench-124m-1024/lmtrain", "bench-1.1b-2048/compile", "kernels/times"])
        self.assertEqual(labels("kernels", "speed"), ["kernels/times", "bench-124m-1024/lmtrain", "bench-1.1b-2048/compile"])

    def test_correctness_alone_runs_beside_itself(self):
        def beside(*sections, count=None):
            return gpu_check.beside(types.SimpleNamespace(sections=list(sections), beside=count))

        with unittest.mock.patch.object(os, "sched_getaffinity", lambda _: set(range(16))):
            self.assertEqual((beside("correctness"), beside("speed"), beside(), beside("correctness", "speed"), beside("soak", count=3)), (8, 1, 1, 1, 3))

    @unittest.skipUnless("LMTRAIN_TEST_GPU" in os.environ, "no test_gpu given")
    def test_every_item_of_the_two_calls_is_there(self):
        context = types.SimpleNamespace(on_gpu=True, device="cuda", work=self.folder, program=lambda name: os.environ["LMTRAIN_TEST_GPU"])
        items = gpu_check.all_items(context)
        for part in (part for parts in gpu_check.GROUPS.values() for part in parts):
            self.assertTrue(any(part in (item[0], gpu_check.label_of(item)) for item in items), part)

    @unittest.skipUnless("LMTRAIN_TEST_GPU" in os.environ, "no test_gpu given")
    def test_the_page_has_the_limit_of_each(self):
        context = types.SimpleNamespace(on_gpu=True, device="cuda", work=self.folder, program=lambda name: os.environ["LMTRAIN_TEST_GPU"])
        limits = collections.Counter()
        for section, _, seconds, _ in gpu_check.all_items(context):
            limits[section] += seconds
        with open(os.path.join(gpu_check.REPO, "docs", "gpu.md"), encoding="utf-8") as file:
            rows = [line.strip("| \n").split(" | ") for line in file if line.startswith("| `") and line.split(" | ")[-1].strip("| \n")[-1].isdigit()]
        on_page = {}
        for names, *_, seconds in rows:
            on_page.update(zip(re.findall("`([^`]+)`", names), map(int, seconds.split(", "))))
        self.assertEqual({name: on_page.get(name) for name in gpu_check.SECTIONS}, dict(limits))


if __name__ == "__main__":
    unittest.main(verbosity=2)
