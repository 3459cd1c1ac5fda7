#!/usr/bin/env python3
"""The account of a step on a GPU (scripts/gpu_account.py): its FLOPs are those of the formula, and docs/gpu.md has its times."""

import copy
import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))

import gpu_account  # noqa: E402
from bench_processes import SIZES  # noqa: E402


def account_of(size):
    return gpu_account.Account(SIZES[size], gpu_account.LENGTHS[size])


class Account(unittest.TestCase):
    def test_the_page_has_its_times(self):
        page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "gpu.md")
        with open(page, encoding="utf-8") as file:
            text = file.read()
        for size, length in gpu_account.LENGTHS.items():
            milliseconds = 1e3 * account_of(size).seconds()
            self.assertIn(f"| {size.replace('m', 'M').replace('b', 'B')}, {length:,} | {milliseconds:,.0f} | ", text)

    def test_the_tables_have_every_model(self):
        tables = gpu_account.tables()
        for size in gpu_account.LENGTHS:
            self.assertIn(f"**{size.replace('m', 'M').replace('b', 'B')}**", tables)

    def test_products_have_the_flops_of_6n(self):
        for size in gpu_account.LENGTHS:
            account = account_of(size)
            products = sum(row["flops"] for row in account.rows if row["kernel"] != "attention")
            matrices = account.of_matrices + account.vocab * account.d  # the head's, tied or not
            self.assertEqual(products, 6.0 * matrices * account.batch)

    def test_attention_has_half_of_12ldt_and_its_scores_once_more(self):
        for size in gpu_account.LENGTHS:
            account = account_of(size)
            attention = sum(row["flops"] for row in account.rows if row["kernel"] == "attention")
            self.assertEqual(attention, 7.0 * account.layers * account.q * account.length * account.batch)

    def test_a_kernel_takes_the_longer_of_its_two_times(self):
        account = account_of("124m")
        by_name = {(row["phase"], row["kernel"]): row for row in account.rows}
        product = by_name["forward", "gate_up_proj"]
        self.assertAlmostEqual(product["seconds"], product["flops"] / (0.7 * 989e12))
        norm = by_name["forward", "add_rms_norm"]
        self.assertAlmostEqual(norm["seconds"], norm["bytes"] / (0.85 * 3.35e12))

    def test_a_larger_batch_reads_the_weights_no_more_often(self):
        once = gpu_account.Account(SIZES["124m"], 1024, batch=32768, micro=32768)
        halves = gpu_account.Account(SIZES["124m"], 1024, batch=32768, micro=16384)
        self.assertEqual(sum(row["flops"] for row in once.rows), sum(row["flops"] for row in halves.rows))
        self.assertLess(sum(row["bytes"] for row in once.rows), sum(row["bytes"] for row in halves.rows))

    def test_a_value_is_kept_where_it_fits(self):
        roomy = gpu_account.Account(SIZES["1.1b"], 2048, micro=16384)
        full = gpu_account.Account(SIZES["1.1b"], 2048, micro=32768)
        self.assertEqual((roomy.keeps_value, full.keeps_value), (True, False))
        swiglu = [next(row for row in account.rows if (row["phase"], row["kernel"]) == ("backward", "swiglu")) for account in (roomy, full)]
        self.assertEqual(6 * swiglu[0]["bytes"], 5 * swiglu[1]["bytes"])

    def test_micro_batches_fill_the_memory_and_no_more(self):
        for size in gpu_account.LENGTHS:
            micro = gpu_account.chosen_micro(size)
            account = gpu_account.Account(SIZES[size], gpu_account.LENGTHS[size], micro=micro)
            self.assertTrue(account.keeps_value)
            if micro < gpu_account.MOST:
                more = account.memory(2 * micro) + account.value(2 * micro)
                self.assertGreater(more, gpu_account.USABLE * gpu_account.MEMORY)

    def test_a_phase_that_differs_by_more_than_a_fifth_is_marked(self):
        account = account_of("124m")
        phases = {phase: 1.1 * account.seconds(phase) for phase in account.phases()}
        bench = {
            "batch_tokens": gpu_account.BATCH, "parameters": account.parameters,
            "lengths": [{"length": 1024, "micro_rows": gpu_account.MICRO // 1024, "phases": phases}],
        }
        self.assertNotIn("look here", gpu_account.compare("124m", bench))
        for factor in (0.7, 1.3):
            other = copy.deepcopy(bench)
            other["lengths"][0]["phases"]["backward"] = factor * account.seconds("backward")
            marked = [line for line in gpu_account.compare("124m", other).splitlines() if "look here" in line]
            self.assertEqual(len(marked), 1)
            self.assertIn("backward", marked[0])
        with self.assertRaises(SystemExit):
            gpu_account.compare("350m", bench)


if __name__ == "__main__":
    unittest.main()
