"""scripts/scaling_model.py against what can be worked out by hand."""

import os
import sys
import unittest
from dataclasses import replace

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
from scaling_model import Numbers, number_of, step_of

# A million parameters in fp32 over links of 1 MB/s, and a step of 1 s on one GPU.
NUMBERS = Numbers(
    parameters=1e6, bytes_per_gradient=4, tokens_per_gpu=100, batch_tokens=0, flops_per_second=6e8, compute_seconds=0, gpus_per_machine=4,
    gpu_link=1e6, machine_link=1e6, latency=0, rounds="halving", overlap=0, jitter=0)


class ScalingModel(unittest.TestCase):
    def test_one_gpu_computes_and_sends_nothing(self):
        step = step_of(NUMBERS, 1)
        self.assertEqual((step.compute, step.sending, step.sent, step.efficiency), (1, 0, 0, 1))

    def test_an_all_reduce_sends_twice_all_but_its_share(self):
        self.assertEqual(step_of(NUMBERS, 2).sent, 4e6)
        self.assertEqual(step_of(NUMBERS, 4).sending, 6)  # 3/4 of 4 MB, twice, at 1 MB/s
        self.assertEqual(step_of(NUMBERS, 4).efficiency, 1 / 7)

    def test_machines_share_their_link(self):
        # Inside each machine as before, and between two of them half of 4 MB, twice.
        self.assertEqual(step_of(NUMBERS, 8).sending, 6 + 4)

    def test_messages_take_time(self):
        slow = replace(NUMBERS, latency=1)
        self.assertEqual(step_of(slow, 8).sending, 10 + 6)
        self.assertEqual(step_of(replace(slow, rounds="ring"), 8).sending, 10 + 14)

    def test_the_backward_hides_what_it_can(self):
        self.assertAlmostEqual(step_of(replace(NUMBERS, overlap=1), 4).exposed, 6 - 2 / 3)
        self.assertEqual(step_of(replace(NUMBERS, overlap=1, gpu_link=1e8), 4).exposed, 0)

    def test_a_fixed_batch_is_divided(self):
        fixed = replace(NUMBERS, batch_tokens=400)
        self.assertEqual(step_of(fixed, 1).compute, 4)
        self.assertEqual(step_of(fixed, 4).compute, 1)
        self.assertEqual(step_of(replace(fixed, compute_seconds=0.5), 4).compute, 0.5)

    def test_numbers_with_units(self):
        self.assertEqual([number_of(text) for text in ("12", "1.5K", "124M", "1.1B")], [12, 1500, 124e6, 1.1e9])


if __name__ == "__main__":
    unittest.main()
