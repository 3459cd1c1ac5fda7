#!/usr/bin/env python3
"""The parts of scripts/time_to_loss.py that need no run: when pairs are enough, and the table of the ends of schedules."""

import os
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))

import time_to_loss  # noqa: E402


def runs(losses, seconds, tokens):
    return {seed + 1: {"loss": loss, "seconds": seconds, "tokens": tokens} for seed, loss in enumerate(losses)}


class TunedPeer(unittest.TestCase):
    def tuned(self, search_tokens, losses, lrs="1e-3,2e-3,4e-3"):
        """(runs that were trained, what tuned() gives) where the rates end with these losses."""
        arguments = mock.Mock(lrs=lrs, tokens=1000, search_tokens=search_tokens, peer_batch=None, size="30m")
        peer = time_to_loss.Peer(arguments, "", {"precision": "bf16", "batch": {"tokens": 100}, "model": {"hidden_size": 8, "size": "30m", "head_dim": None}},
                                 {"vocab_size": 512})
        self.assertEqual((peer.model, peer.batch_tokens), ({"hidden_size": 8, "vocab_size": 512}, 100))
        trained = []

        def train(runs):
            trained.extend(runs)
            return [{"lr": lr, "seconds": 1.0, "loss": losses[lr]} for _, lr, _ in runs]

        peer.train = train
        return trained, peer.tuned()

    def test_the_best_of_the_short_runs_alone_has_all_tokens(self):
        trained, (search, peers) = self.tuned(100, {1e-3: 4.0, 2e-3: 3.5, 4e-3: None})
        self.assertEqual(trained, [(100, 1e-3, 1), (100, 2e-3, 1), (100, 4e-3, 1), (1000, 2e-3, 1)])
        self.assertEqual((len(search), [entry["lr"] for entry in peers]), (3, [2e-3]))

    def test_without_short_runs_every_rate_has_all_tokens(self):
        trained, (search, peers) = self.tuned(None, {1e-3: 4.0, 2e-3: 3.5, 4e-3: 3.6})
        self.assertEqual((trained, search), ([(1000, 1e-3, 1), (1000, 2e-3, 1), (1000, 4e-3, 1)], []))
        self.assertEqual(time_to_loss.best_of(peers)["lr"], 2e-3)
        self.assertEqual(self.tuned(100, {2e-3: 3.5}, lrs="2e-3")[0], [(1000, 2e-3, 1)])

    def test_a_rate_that_diverged_has_no_loss_to_print(self):
        self.assertEqual([time_to_loss.loss_text(loss) for loss in (3.5, None)], ["3.5000", "none, it diverged"])
        peers = [{"lr": 1e-3, "seconds": 1.0, "loss": None}, {"lr": 2e-3, "seconds": 1.0, "loss": None}]
        argv = ["time_to_loss.py", "--size", "30m", "--corpus", ".", "--work", self.enterContext(tempfile.TemporaryDirectory())]
        config = {"precision": "bf16", "batch": {"tokens": 100}, "model": {}}
        with mock.patch.object(sys, "argv", argv), mock.patch.object(time_to_loss, "split_corpus"), mock.patch.object(
                time_to_loss, "train_lmtrain", return_value=(config, [(0, 0.0, 5.0)], {"vocab_size": 512}, 1.0)), mock.patch.object(
                time_to_loss.Peer, "tuned", return_value=([], peers)), self.assertRaises(SystemExit) as ended:
            time_to_loss.main()
        self.assertIn("diverged at every rate", str(ended.exception))

    def test_runs_of_other_sizes_and_lengths_have_folders_of_their_own(self):
        def folder(size, tokens, seed=1):
            arguments = mock.Mock(tokens=1_000_000, peer_batch=8, size=size)
            return time_to_loss.Peer(arguments, "w", {"precision": "fp32", "batch": {"tokens": 1}, "model": {}}, {"vocab_size": 9}).folder(tokens, 2e-3, seed)

        self.assertEqual(folder(None, 1_000_000), "w/trainer_lr_0.002")
        self.assertEqual(folder("30m", 1_000_000, seed=2), "w/trainer_30m_lr_0.002_seed_2")
        self.assertEqual(folder("30m", 250_000), "w/trainer_30m_250K_lr_0.002")


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
