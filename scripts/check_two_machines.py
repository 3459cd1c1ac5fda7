#!/usr/bin/env python3
"""Trains over two network namespaces of this machine, as over two machines without a shared folder. Needs root, ip and tc (Debian:
iproute2); standard library only.

    scripts/check_two_machines.py                        all of it
    scripts/check_two_machines.py --only cut             the parts whose names contain this: bits, data, cut, link, slow-optimizer, slow-none
    scripts/check_two_machines.py --only data --text 200
    scripts/check_two_machines.py --only slow --rates 100 --delays 0,5,20
    scripts/check_two_machines.py --only slow --json slow.json && scripts/plot_two_machines.py slow.json --to slow.svg

bits   Rank 0 on one machine and rank 1 on the other compute the bits of one process; the second machine has the data and the config's
       folder, and no run folder.
data   Both machines prepare --text MB of text, shuffled lines of the .md and .py files of a folder (--lines), each with a cache and a
       processor of its own: both caches have the bytes of one machine, and the time is that of one machine. Then with one cache folder for
       both, which is filled once; and while a process is killed, after which the next start goes on.
cut    The link is cut in mid-run: both processes end within parallel.timeout, with exit status 5, and say why.
link   The link of slow_link.py, at 200 Mbit/s and 0, 5 and 20 ms: the round trip of a byte is twice the delay and at most 5 ms more, and
       50 MB go over it at 80 to 101 % of the rate (a connection begins slowly).
slow-  For parallel.shard optimizer and none: step time, share of communication and bytes a step over the link as it is, and at some rates
       (Mbit/s) and delays (ms, each way); beside them the time that sending the gradient takes in theory, and the step of a model in which
       the backward (two thirds of the step without communication) hides all of it that it can.
       Rates alone are set by tc (tbf); where a delay is asked for, a process carries the packets of all runs (slow_link.py). Fails where
       the bytes differ by more than 2 % from the theory.

Each machine has a network namespace, a host name and a folder of its own, seen by both under the same path. Exit status 1 when a part
fails.
"""

import argparse
import contextlib
import glob
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from compare_builds import REPO, results, small_config
from slow_link import SlowLink

ADDRESSES = ("192.0.2.1", "192.0.2.2")  # of the block for documentation
LINK = "wire"  # the name of each machine's end, no word of the program ip
HEADERS = 66  # bytes of Ethernet, IPv4 and TCP in a packet
TIMEOUT = 20  # parallel.timeout of the parts `cut` and `data`, in seconds


def call(*command):
    subprocess.run(command, check=True)


class Machine:
    """A network namespace with a host name and a folder of its own, which is seen as `disk`."""

    def __init__(self, number, disk, arguments):
        self.number, self.disk, self.arguments = number, disk, arguments
        self.name = f"lmtrain-{os.getpid()}-{number}"
        self.folder = f"{disk}-{number}"
        os.makedirs(self.folder)
        call("ip", "netns", "add", self.name)
        self.inside("ip", "link", "set", "lo", "up")

    def inside(self, *command):
        return subprocess.run(["ip", "netns", "exec", self.name, *command], check=True, capture_output=True, text=True).stdout

    def remove(self):
        subprocess.run(["ip", "netns", "delete", self.name], check=False)

    def start(self, command, log, count=2, variables=None, processor=None):
        """One process of a run; its folder lies over `disk` for it alone."""
        if processor is not None:
            command = ["taskset", "--cpu-list", str(processor), *command]
        variables = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""} | (variables or {})
        if count > 1:
            variables |= {"RANK": str(self.number), "LOCAL_RANK": "0", "WORLD_SIZE": str(count), "MASTER_ADDR": ADDRESSES[0],
                          "MASTER_PORT": "29500"}
        enter = 'hostname "$0" && mount --bind "$1" "$2" && cd "$2" && shift 2 && exec "$@"'
        with open(log, "w") as output:
            return subprocess.Popen(
                ["ip", "netns", "exec", self.name, "unshare", "--mount", "--uts", "bash", "-c", enter, f"machine{self.number}", self.folder,
                 self.disk, *command], env=os.environ | variables, stdout=output, stderr=output)

    def sent(self):
        """Bytes that this machine has sent, without the headers of packets."""
        count = lambda name: int(self.inside("cat", f"/sys/class/net/{LINK}/statistics/{name}"))
        return count("tx_bytes") - HEADERS * count("tx_packets")

    def shape(self, rate):
        """At most `rate` Mbit/s; None: as it is."""
        subprocess.run(["ip", "netns", "exec", self.name, "tc", "qdisc", "del", "dev", LINK, "root"], stderr=subprocess.DEVNULL, check=False)
        if rate is not None:
            self.inside("tc", "qdisc", "add", "dev", LINK, "root", "tbf", "rate", f"{rate}mbit", "burst", "128kb", "latency", "500ms")

    def address_link(self, address):
        self.inside("ip", "address", "add", address + "/30", "dev", LINK)
        self.inside("ip", "link", "set", LINK, "up")


class Pair:
    """Two machines with a link, and a config and data that both have."""

    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.disk = os.path.join(folder, "disk")
        os.makedirs(self.disk)
        self.machines = [Machine(number, self.disk, arguments) for number in (0, 1)]
        self.slow_link = None  # in place of the kernel's link, where there are delays
        self.link()
        for machine in self.machines:
            shutil.copytree(arguments.corpus, os.path.join(machine.folder, "corpus"))
        self.points = []  # what the parts slow- have found, for --json

    def link(self):
        first, second = self.machines
        call("ip", "link", "add", "name", LINK, "netns", first.name, "type", "veth", "peer", "name", LINK, "netns", second.name)
        self.address()

    def link_slowly(self):
        self.machines[0].inside("ip", "link", "delete", LINK)
        self.slow_link = SlowLink([machine.name for machine in self.machines], LINK)
        self.address()

    def address(self):
        for machine, address in zip(self.machines, ADDRESSES):
            machine.address_link(address)

    def shape(self, rate, delay):
        """At most `rate` Mbit/s (None: as it is), and `delay` ms before each packet arrives, which needs link_slowly()."""
        if self.slow_link:
            self.slow_link.carry(rate, delay)
            return
        for machine in self.machines:
            machine.shape(rate)

    def unshape(self):
        if self.slow_link:
            self.slow_link.close()
            self.slow_link = None
            self.link()
        self.shape(None, 0)

    def remove(self):
        if self.slow_link:
            self.slow_link.close()
        for machine in self.machines:
            machine.remove()

    def config(self, **changes):
        pages = os.path.join(self.disk, "corpus", "**", "*.md")
        config = small_config(pages, os.path.join(self.disk, "cache"), 50, threads=1)
        config["parallel"] = {"sum": "exact", "parts": 2}
        for key, value in changes.items():
            config[key] = (config[key] | value) if isinstance(value, dict) else value
        for machine in self.machines:
            with open(os.path.join(machine.folder, "config.json"), "w") as file:
                json.dump(config, file)

    def start(self, run, *options, count=2, variables=None, own_processors=False):
        command = [self.arguments.lmtrain, "train", os.path.join(self.disk, "config.json"), "--run-dir", os.path.join(self.disk, run)]
        command += [part for option in options for part in ("--set", option)]
        return [machine.start(command, self.log(run, machine.number), count, variables, machine.number if own_processors else None)
                for machine in self.machines[:count]]

    def log(self, run, number):
        return os.path.join(self.folder, f"{run}-{number}.log")

    def said(self, run, number):
        with open(self.log(run, number)) as file:
            return file.read()

    def steps(self, run):
        """The updates in metrics.jsonl so far."""
        with contextlib.suppress(FileNotFoundError), open(os.path.join(self.machines[0].folder, run, "metrics.jsonl")) as file:
            return [line for line in map(json.loads, (text for text in file if text.endswith("\n"))) if "grad_norm" in line]
        return []

    def train(self, run, *options, count=2, **how):
        """Returns the seconds of processor of each machine's process."""
        processes = self.start(run, *options, count=count, **how)
        seconds = [processor_seconds(process) for process in processes]
        codes = [process.returncode for process in processes]
        if any(codes):
            raise AssertionError(f"{run} ended with {codes}:\n" + "\n".join(self.said(run, number) for number in range(count)))
        return seconds


def processor_seconds(process):
    """Waits for the end of the process; the seconds of processor that it took."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime
        time.sleep(0.02)
    raise AssertionError("a process does not end")


def check_bits(pair):
    pair.config()
    pair.train("one", count=1)
    pair.train("two")
    found, expected = (results(os.path.join(pair.machines[0].folder, run)) for run in ("two", "one"))
    assert expected, "the run has left nothing to compare"
    wrong = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
    assert not wrong, f"two machines differ from one in {', '.join(wrong)}"
    assert not os.path.exists(os.path.join(pair.machines[1].folder, "two")), "the second machine has a run folder"
    print("bits: two machines compute the bits of one, without a shared folder")


def shuffled_documents(folder, size):
    """Documents of at least `size` bytes in all: 50 lines each of all .md and .py files there, shuffled anew for each repetition."""
    lines = []
    for root, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if name.endswith((".md", ".py")):
                with open(os.path.join(root, name)) as file:
                    lines += file.readlines()
    order, text = random.Random(1), []
    while size > 0:
        order.shuffle(lines)
        for begin in range(0, len(lines), 50):
            text.append("".join(lines[begin:begin + 50]))
            size -= len(text[-1])
            if size <= 0:
                break
    return text


def cache_files(machine, cache):
    """By name: hashes of the token shards and tokenizers in a cache."""
    found = {}
    for part in ("shards", "tokenizers"):
        root = os.path.join(machine.folder, cache, part)
        for folder, _, names in os.walk(root):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    found[os.path.relpath(os.path.join(folder, name), root)] = hashlib.sha256(file.read()).hexdigest()
    return found


def check_data(pair):
    documents = shuffled_documents(pair.arguments.lines or pair.arguments.corpus, 1_000_000 * pair.arguments.text)
    for machine in pair.machines:
        with open(os.path.join(machine.folder, "documents.jsonl"), "w") as file:
            file.writelines(json.dumps({"text": document}) + "\n" for document in documents)
    data = {"train": os.path.join(pair.disk, "documents.jsonl"), "eval_fraction": 0.01}
    trained = {"vocab_size": pair.arguments.vocab_size, "sample": "1MB"}

    def configure(caches, kind="bpe"):
        pair.config(train={"steps": 1}, data=data, tokenizer={"train": trained | {"type": kind}})
        for machine, cache in zip(pair.machines, caches):
            # Each has its cache under the same path.
            link = os.path.join(machine.folder, "cache")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(link)
            os.makedirs(cache, exist_ok=True)
            os.symlink(cache, link)

    def prepare(run, caches, what, kind="bpe", count=2):
        configure(caches, kind)
        began = time.monotonic()
        processor = pair.train(run, count=count, own_processors=True)
        print(f"data: {kind}, {what}: {time.monotonic() - began:.1f} s, of processor {' and '.join(f'{one:.1f}' for one in processor)} s",
              flush=True)
        return processor

    own = lambda run: [os.path.join(machine.folder, f"cache-{run}") for machine in pair.machines]
    for kind in ("bpe", "byte_bpe", "unigram"):
        expected = None
        for count in (1, 2):
            run = f"data-{kind}-{count}"
            prepare(run, own(run), f"{count} machines", kind, count)
            for machine in pair.machines[:count]:
                found = cache_files(machine, f"cache-{run}")
                expected = expected or found
                assert found == expected, f"{run}: machine {machine.number} has other shards than one machine alone"
    shared = prepare("data-shared", [os.path.join(pair.folder, "shared")] * 2, "2 machines with one cache folder")
    assert max(shared) > 1.5 * min(shared), "both have prepared, though they have one cache folder"
    # With sentencepiece's slow encoder a preparation takes longer than the time between two saves of its journal.
    configure(own("data-killed"), "unigram")
    processes = pair.start("data-killed", f"parallel.timeout={TIMEOUT}s", own_processors=True)
    deadline = time.monotonic() + 300
    while not all(saved_tokens(machine, "cache-data-killed") for machine in pair.machines):
        assert time.monotonic() < deadline and all(process.poll() is None for process in processes), \
            "it ends before it saves; raise --text\n" + pair.said("data-killed", 0) + pair.said("data-killed", 1)
        time.sleep(0.1)
    processes[1].send_signal(signal.SIGKILL)
    began = time.monotonic()
    code = processes[0].wait(timeout=TIMEOUT + 60)
    last = pair.said("data-killed", 0).strip().splitlines()[-1]
    print(f"data: machine 1 is killed, machine 0 ends after {time.monotonic() - began:.1f} s with {code}: {last}", flush=True)
    assert code == 5 and re.search(r"rank 1 \(machine1, process \d+\)", last), "the lost process is not named"
    pair.train("data-again", own_processors=True)
    for machine in pair.machines:
        assert cache_files(machine, "cache-data-killed") == expected, f"machine {machine.number} has other shards than one machine alone"
    print("data: killed and started again they have the bytes of one machine")


def saved_tokens(machine, cache):
    """Whether the journal there says that some documents are in the shards."""
    for journal in glob.glob(os.path.join(machine.folder, cache, "index", "*.journal")):
        with open(journal) as file:
            return "tokens" in json.load(file)
    return False


def check_cut(pair):
    pair.config(train={"steps": 1000000})
    processes = pair.start("cut", f"parallel.timeout={TIMEOUT}s")
    deadline = time.monotonic() + 120
    while len(pair.steps("cut")) < 20:
        assert time.monotonic() < deadline and all(process.poll() is None for process in processes), pair.said("cut", 0) + pair.said("cut", 1)
        time.sleep(0.05)
    pair.machines[1].inside("ip", "link", "set", LINK, "down")
    began = time.monotonic()
    seconds = []
    try:
        for process in processes:
            process.wait(timeout=TIMEOUT + 60)
            seconds.append(time.monotonic() - began)
    finally:
        pair.machines[1].inside("ip", "link", "set", LINK, "up")
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
    for number, process in enumerate(processes):
        last = pair.said("cut", number).strip().splitlines()[-1]
        print(f"cut: machine {number} ends after {seconds[number]:.1f} s with {process.returncode}: {last}")
        assert process.returncode == 5, "the exit status is not 5"
        assert re.search(r"rank [01] \(machine[01], process \d+\)", last), "the lost process is not named"
    assert max(seconds) < TIMEOUT + 5, f"it takes longer than parallel.timeout ({TIMEOUT} s)"


# The server sends back what comes in single bytes, until the connection ends; then it takes a second one and says its Mbit/s.
SERVER = """import socket, time
server = socket.create_server(("{address}", 9000))
print(flush=True)
peer = server.accept()[0]
while byte := peer.recv(1): peer.send(byte)
peer, count, began = server.accept()[0], 0, None
while part := peer.recv(1 << 20): count, began = count + len(part), began or time.monotonic()
print(count * 8e-6 / (time.monotonic() - began))"""
CLIENT = """import socket, statistics, time
peer, trips = socket.create_connection(("{address}", 9000)), []
for _ in range(20):
    began = time.monotonic()
    peer.send(b"x"), peer.recv(1)
    trips.append(1000 * (time.monotonic() - began))
peer.close()
print(statistics.median(trips))
socket.create_connection(("{address}", 9000)).sendall(bytes(50_000_000))"""


def check_link(pair):
    rate = 200
    pair.link_slowly()
    for delay in (0, 5, 20):
        pair.shape(rate, delay)
        first, second = (["ip", "netns", "exec", machine.name, sys.executable, "-c"] for machine in pair.machines)
        with subprocess.Popen([*second, SERVER.format(address=ADDRESSES[1])], stdout=subprocess.PIPE, text=True) as server:
            server.stdout.readline()  # it listens
            trip = float(subprocess.check_output([*first, CLIENT.format(address=ADDRESSES[1])], text=True, timeout=60))
            speed = float(server.stdout.readline())
        print(f"link: {rate} Mbit/s, {delay} ms each way: a round trip takes {trip:.1f} ms, and {speed:.1f} Mbit/s arrive", flush=True)
        assert 2 * delay <= trip < 2 * delay + 5, "the delay is not that of the link"
        assert 0.8 * rate < speed < 1.01 * rate, "the rate is not that of the link"


def measure_slow(pair, arguments, run):
    """Trains; returns the seconds of a step, the share of communication, the bytes that a process sent in a step, and the theory's."""
    processes = pair.start(run)
    # The bytes of the steps alone: counted from one step to another.
    counts = {}
    while any(process.poll() is None for process in processes):
        steps = len(pair.steps(run))
        if steps >= 5 and "first" not in counts:
            counts["first"] = (steps, pair.machines[1].sent())
        elif steps >= arguments.steps - 3 and "last" not in counts:
            counts["last"] = (steps, pair.machines[1].sent())
        time.sleep(0.005)
    assert not any(process.returncode for process in processes), pair.said(run, 0) + pair.said(run, 1)
    lines = pair.steps(run)[5:]
    step = (lines[-1]["elapsed"] - lines[0]["elapsed"]) / (len(lines) - 1)
    share = sum(line["communication_share"] for line in lines) / len(lines)
    weights = os.path.join(pair.machines[0].folder, run, "checkpoints", f"step_{arguments.steps:08}", "model.safetensors")
    with open(weights, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    parameters = sum(int(one["data_offsets"][1] - one["data_offsets"][0]) // 4 for name, one in header.items() if name != "__metadata__")
    (first, before), (last, after) = counts["first"], counts["last"]
    return step, share, (after - before) / (last - first), parameters


def check_slow(pair, arguments, shard):
    pair.config(model={"hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 8, "num_attention_heads": 4},
                train={"steps": arguments.steps}, eval={"every": 0}, checkpoint={"every": 0}, data={"eval_fraction": 0},
                batch={"tokens": arguments.batch_tokens}, sequence={"schedule": {"type": "constant"}, "batching": "concat"},
                parallel={"shard": shard})
    if any(arguments.delays):
        pair.link_slowly()
    told = False
    wrong = []
    for rate, delay in ((None, 0), *((rate, delay) for rate in arguments.rates for delay in arguments.delays)):
        pair.shape(rate, delay)
        name = f"{shard}, {f'{rate:g} Mbit/s' if rate else 'as it is'}{f', {delay:g} ms each way' if delay else ''}"
        step, share, sent, parameters = measure_slow(pair, arguments, f"slow-{shard}-{rate or 'full'}-{delay:g}")
        theory = 4 * parameters  # 8 P (N - 1) / N, for two processes
        hideable = theory / 2 if shard == "optimizer" else theory  # what is sent for the gradient
        if not told:
            told = True
            print(f"slow: {parameters} parameters; with {shard} a process sends {theory / 1e6:.3f} MB a step in theory, "
                  f"{hideable / 1e6:.3f} MB of it for the gradient")
        print(f"slow: {name}: step {1000 * step:.1f} ms, share of communication {share:.2f}, "
              f"{sent / 1e6:.3f} MB sent a step ({100 * (sent / theory - 1):+.1f} %)", flush=True)
        if abs(sent / theory - 1) > 0.02:
            wrong.append(name)
        if rate:
            alone = step * (1 - share)
            # Halving and doubling with two processes: one round for the sum, and one to gather.
            latency = delay / 1000
            sending = hideable * 8 / (rate * 1e6) + (latency if shard == "optimizer" else 2 * latency)
            model = alone + theory * 8 / (rate * 1e6) + 2 * latency - min(sending, 2 / 3 * alone)
            pair.points.append({"shard": shard, "rate": rate, "delay": delay, "step": step, "model": model})
            print(f"slow: {name}: the gradient takes {1000 * sending:.1f} ms to send, the backward about {2000 / 3 * alone:.1f} ms; "
                  f"the model says a step of {1000 * model:.1f} ms", flush=True)
    assert not wrong, f"the bytes are more than 2 % off the theory: {'; '.join(wrong)}"


def main():
    numbers = lambda text: [float(number) for number in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lmtrain", default=os.path.join(REPO, "build", "lmtrain"))
    parser.add_argument("--only", default="", metavar="NAME")
    parser.add_argument("--rates", type=numbers, default=[50.0, 200.0, 1000.0])
    parser.add_argument("--delays", type=numbers, default=[0.0])
    parser.add_argument("--steps", type=int, default=40, help="of each run of the part `slow`")
    parser.add_argument("--batch-tokens", type=int, default=2048, help="of a step in the part `slow`")
    parser.add_argument("--text", type=int, default=60, help="MB of text in the part `data`")
    parser.add_argument("--lines", metavar="FOLDER", help="of whose lines that text consists (default: that of --corpus)")
    parser.add_argument("--vocab-size", type=int, default=1500, help="in the part `data`")
    parser.add_argument("--json", metavar="FILE", help="where the step times of the parts slow- go")
    parser.add_argument("--corpus", default=os.path.join(REPO, "docs"), help="a folder: its .md files are trained on")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("error: network namespaces need root")
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(arguments, folder)
        try:
            parts = {"bits": check_bits, "data": check_data, "cut": check_cut, "link": check_link}
            for shard in ("optimizer", "none"):
                parts[f"slow-{shard}"] = lambda pair, shard=shard: check_slow(pair, arguments, shard)
            for name, part in parts.items():
                if arguments.only not in name:
                    continue
                try:
                    part(pair)
                except AssertionError as error:
                    failures += 1
                    print(f"{name}: FAIL: {error}", flush=True)
                finally:
                    pair.unshape()
        finally:
            pair.remove()
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump(pair.points, file, indent=1)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
