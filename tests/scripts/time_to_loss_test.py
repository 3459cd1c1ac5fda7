#!/usr/bin/env python3
"""The parts of scripts/time_to_loss.py that need no run: when pairs are enough, and the table of the ends of schedules."""

import os
import sys
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))

import time_to_loss  # noqa: E402


def runs(losses, seconds, tokens):
    return {seed + 1: {"loss": loss, "seconds": seconds, "tokens": tokens} for seed, loss in enumerate(losses)}


class Ends(unittest.TestCase):
    def test_tokens_have_units(self):
        self.assertEqual([time_to_loss.number(text) for text in ("160K", "1.23M", "5000", "0.5B")], [160000, 1230000, 5000, 500000000])

    def test_two_pairs_never_decide(self):
        self.assertFalse(time_to_loss.is_decided({1: 4.0, 2: 4.0}, {1: 5.0, 2: 5.001}))

    def test_three_pairs_decide_beyond_three_standard_errors(self):
        base = {1: 5.0, 2: 5.0, 3: 5.0}
        # Differences -0.1, -0.11, -0.12: the mean is 19 standard errors from 0.
        self.assertTrue(time_to_loss.is_decided({1: 4.90, 2: 4.89, 3: 4.88}, base))
        # Differences +0.1, -0.2, -0.1: less than one.
        self.assertFalse(time_to_loss.is_decided({1: 5.1, 2: 4.8, 3: 4.9}, base))

    def test_the_table_compares_pairs(self):
        peer, ours = runs([5.10, 5.20], 200, 1230000), runs([5.00, 5.12], 10, 160000)
        lines = time_to_loss.ends_table([{"name": "peer", "runs": peer}, {"name": "lmtrain", "runs": ours}]).splitlines()
        self.assertEqual(lines[2].split(), ["lmtrain", "2", "5.0600", "-0.0900", "0.0100", "160K", "10.0", "20.0"])

    def compared(self, losses):
        """The seeds that are run where the peer ends at 5 and ours at these losses."""
        arguments = mock.Mock(ends="160K", seeds="1,2,3,4,5", tokens=1230000)
        ends = lambda _1, _2, _3, tokens, seed: {"loss": losses[seed - 1], "seconds": 1, "tokens": tokens}
        with mock.patch.object(time_to_loss, "end_of_schedule", ends):
            rows = time_to_loss.compare_ends(arguments, "", [], lambda seed: {"loss": 5.0 + seed / 1000, "seconds": 200})
        return list(rows[1]["runs"])

    def test_seeds_stop_once_they_cannot_change_the_verdict(self):
        self.assertEqual(self.compared([4.90, 4.91, 4.90, 4.90, 4.90]), [1, 2, 3])
        self.assertEqual(self.compared([4.90, 5.10, 4.90, 5.10, 4.90]), [1, 2, 3, 4, 5])


if __name__ == "__main__":
    unittest.main()
