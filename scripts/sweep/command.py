"""The command line of scripts/sweep.sh, and the order in which a sweep does things. scripts/sweep.sh --help says what it takes."""

import argparse
import difflib
import fcntl
import json
import os
import re
import shlex
import subprocess
import sys
import time

from sweep.devices import num_processors, read_devices, slots, visible_gpus
from sweep.halving import Halving, by_seed, one_length
from sweep.messages import DIVERGED, SweepError, counted, say, warn
from sweep.points import config_overrides, edge_warning, make_points, settings_of
from sweep.pool import Pool, Task
from sweep.runs import run_of, runs_in
from sweep.table import rows_of, table_text

HELP = "see scripts/sweep.sh --help"


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise SweepError(f"{message}; {HELP}")


def read_command_line(words):
    at = words.index("--") if "--" in words else len(words)
    parser = Parser(prog="sweep", add_help=False, allow_abbrev=False)
    parser.add_argument("config", nargs="?")
    parser.add_argument("--out")
    parser.add_argument("--vary", action="append", default=[])
    parser.add_argument("--points")
    parser.add_argument("--draw", action="append", default=[])
    parser.add_argument("--draws", type=whole)
    parser.add_argument("--draw-seed", type=int, default=1)
    parser.add_argument("--seeds", default="")
    parser.add_argument("--parallel", type=whole)
    parser.add_argument("--devices", type=read_devices)
    parser.add_argument("--for", dest="time_limit", type=seconds_of)
    parser.add_argument("--halve", type=whole, default=0)
    parser.add_argument("--base")
    parser.add_argument("--target", type=float)
    parser.add_argument("--report")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    options, others = parser.parse_known_args(words[:at])
    if others:
        known = [name for action in parser._actions for name in action.option_strings]
        near = difflib.get_close_matches(others[0].partition("=")[0], known, 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise SweepError(f"{others[0]} is no option of a sweep, or one word too many{meant}; {HELP}")
    if not options.out or not (options.config or options.table):
        raise SweepError(f"give a config and --out; {HELP}")
    if not re.fullmatch(r"(\d+(,\d+)*)?", options.seeds):
        raise SweepError(f"--seeds {options.seeds}: give numbers, separated by commas")
    options.seeds = options.seeds.split(",")  # [""]: that of the config
    if len(set(options.seeds)) < len(options.seeds):
        raise SweepError(f"--seeds {','.join(options.seeds)}: a seed is given twice")
    if options.draws and not options.draw:
        raise SweepError("--draws says how many points --draw gives; give --draw KEY=log:LOW:HIGH too")
    if options.config and not os.access(options.config, os.R_OK):
        raise SweepError(f"{options.config} cannot be read")
    options.common = settings_of(words[at + 1 :], "after --")
    options.out = os.path.normpath(options.out)
    return options


def other_keys(wanted, theirs, free, prefix=""):
    """The settings of `wanted` that a run's config has otherwise, but those in `free`. What is not decided before a run is not compared."""
    keys = []
    for key, value in wanted.items():
        name = prefix + key
        if name in free or value in (None, "auto") or key not in theirs:
            continue
        if isinstance(value, dict) and isinstance(theirs[key], dict):
            keys += other_keys(value, theirs[key], free, name + ".")
        elif not is_same(value, theirs[key]):
            keys.append(name)
    return keys


def length_warnings(runs):
    """A warning for each point whose finished runs have lengths that differ by half or more: their mean says nothing."""
    lengths = {}
    for run in runs:
        if run.state() == "done":
            lengths.setdefault(run.point, {})[run.folder] = run.status()["tokens"]
    warnings = []
    for tokens in lengths.values():
        least, most = (choose(tokens, key=tokens.get) for choose in (min, max))
        if tokens[most] >= 1.5 * tokens[least]:
            warnings.append(f"{least} has trained {tokens[least]} tokens and {most} {tokens[most]}: their mean says nothing; "
                            "give runs of another length another --out")
    return warnings


def is_same(value, theirs):
    """Whether a run has this value. A run has absolute paths."""
    if isinstance(value, list) and isinstance(theirs, list):
        return len(value) == len(theirs) and all(map(is_same, value, theirs))
    if isinstance(value, dict) and isinstance(theirs, dict):
        return not other_keys(value, theirs, set())
    return value == theirs or (isinstance(value, str) and isinstance(theirs, str) and os.path.abspath(value) == theirs)


def whole(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no whole number above 0")
    return int(text)


def seconds_of(text):
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h)?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text}: give a number of s, min or h, such as 15min")
    return float(match[1]) * {None: 1, "s": 1, "min": 60, "h": 3600}[match[2]]


class Sweep:
    def __init__(self, options):
        self.options = options
        self.program = os.environ["LMTRAIN"]
        self.points, self.ranges = make_points(options.points, options.vary, options.draw, options.draws or 10, options.draw_seed)
        self.by_name = {point.name: point for point in self.points}
        self.runs = [(point, seed, run_of(options.out, point, seed)) for seed in options.seeds for point in self.points]
        self.failed = []  # exit codes of runs that neither finished nor diverged
        self.halving = None
        self.warnings = []
        known = set(self.by_name) | {run.point for run in runs_in(options.out)}
        if options.base is not None and options.base not in known:
            near = difflib.get_close_matches(options.base, known, 1)
            raise SweepError(f"--base {options.base}: there is no such point" + (f"; did you mean {near[0]}?" if near else ""))

    def settings(self, point, seed):
        return ((f"seed={seed}",) if seed else ()) + point.settings + self.options.common

    def configs(self):
        """The config of each point with every default, as lmtrain has it: a mistake in the last point shows before the first run."""
        configs = []
        for point in self.points:
            settings = self.settings(point, self.options.seeds[0])
            command = [self.program, "config", "show", self.options.config, "--json", *config_overrides(settings)]
            shown = subprocess.run(command, capture_output=True, text=True, check=False)
            if shown.returncode != 0:
                raise SweepError(f"point {point.name}: {shown.stderr.strip()}", shown.returncode)
            configs.append(json.loads(shown.stdout))
        return configs

    def other_settings(self, configs):
        """A warning for each run in DIR that was begun with other settings than this command's, which a finished one does not take."""
        free = {"name", "run_dir", "seed"}
        if self.halving:
            free |= {"train"} | {setting.partition("=")[0] for setting in self.halving.trunk_settings}
        wanted = {point.name: config for point, config in zip(self.points, configs)}
        warnings = []
        for point, _, run in self.runs:
            theirs = run.config()
            keys = other_keys(wanted[point.name], theirs, free) if theirs else []
            if keys:
                warnings.append(f"{run.folder} was begun with other settings than this command has ({', '.join(keys)}) and keeps its own; "
                                "remove it to train it anew, or give another --out")
        return warnings

    def make_halving(self, configs):
        if self.options.halve:
            self.halving = Halving(one_length(configs), len(self.points), self.options.halve, self.program)

    def make_pool(self, wanted):
        options = self.options
        deadline = None if options.time_limit is None else time.monotonic() + options.time_limit
        gpus, processors = [], num_processors()
        if options.parallel is not None or options.devices:
            version = subprocess.run([self.program, "--version"], capture_output=True, text=True, check=False).stdout
            gpus = [] if "CUDA not in use" in version else visible_gpus()
            if (options.parallel or 1) > processors:
                warn(f"--parallel {options.parallel}: {counted(processors, 'processor')} for them; the runs will wait for each other")
        return Pool(slots(options.parallel, options.devices, wanted, gpus, processors), deadline)

    def tasks(self):
        """{point name: [Task of each seed]}, of finished runs too."""
        tasks = {point.name: [] for point in self.points}
        for i, (point, seed, run) in enumerate(self.runs):
            settings = self.settings(point, seed) + (self.halving.trunk_settings if self.halving else ())
            command = [self.program, "train", self.options.config, "--run-dir", run.folder, "--continue", *config_overrides(settings)]
            label = f"[{i + 1} of {len(self.runs)}] {point.name}" + (f", seed {seed}" if seed else "")
            tasks[point.name].append(Task(label, run, command))
        return tasks

    def ended(self, task, code, told):
        """Says how a run ended. Diverged runs are results, not failures."""
        if code == 0:
            loss = task.run.loss()
            say(f"{task.label}: done" + ("" if loss is None else f", held-out loss {loss:.4f}"))
        elif not told:
            say(f"{task.label}: exit code {code}: {task.run.last_words()}")
            if code != DIVERGED:
                self.failed.append(code)

    def train(self):
        with lock_of(self.options.out):
            configs = self.configs()
            self.make_halving(configs)
            self.warnings = self.other_settings(configs)
            pool = self.make_pool([config["device"] for config in configs])
            tasks = self.tasks()
            if self.halving:
                tasks = self.halving.run(tasks, lambda these: self.work_through_rung(pool, these))
            pool.run([task for task in by_seed(tasks) if not task.run.finished()], self.ended)

    def work_through_rung(self, pool, tasks):
        pool.run(tasks, self.ended)
        if self.failed:
            raise SweepError("a run failed, so the rung cannot be judged; the same command tries it again", self.failed[0])

    def dry_run(self):
        for point, seed, run in self.runs:
            state = run.state() if run.exists() else "to be trained"
            print(f"{run.folder}  {state}  {' '.join(map(shlex.quote, self.settings(point, seed)))}")

    def show(self):
        """The table and its warnings; the page where one is asked for."""
        options, runs = self.options, runs_in(self.options.out)
        rows = rows_of(runs, options.base, options.target)
        best = self.by_name.get(next((row["point"] for row in rows if row["done"] and row["point"] in self.by_name), None))
        warnings = self.warnings + length_warnings(runs) + [text for one in self.ranges if best and (text := edge_warning(one, best))]
        if options.json:
            print(json.dumps({"points": rows, "warnings": warnings}, indent=1))
        else:
            if self.halving:
                print(self.halving.table([run for _, _, run in self.runs]) + "\n")
            print(table_text(rows, options.base, options.target))
        for text in warnings:
            warn(text)
        if options.report:
            self.report(rows, [run for run in runs if run.exists()])

    def report(self, rows, runs):
        """Groups of seeds are compared with the first one on the page: the base, else the best point."""
        order = [self.options.base] + [row["point"] for row in rows]
        runs.sort(key=lambda run: order.index(run.point))
        if not runs:
            raise SweepError(f"--report: no run has begun in {self.options.out}")
        code = subprocess.run([self.program, "report", *(run.folder for run in runs), "--to", self.options.report],
                              stdout=subprocess.DEVNULL, check=False).returncode
        if code != 0:
            raise SweepError(f"the report was not written (lmtrain report ended with exit code {code})", code)

    def exit_code(self):
        if self.failed:
            return self.failed[0]
        return DIVERGED if all(run.state() == "diverged" for _, _, run in self.runs) else 0


def lock_of(out):
    """The lock of a sweep's folder, held until it is closed. Of two sweeps in one folder the second ends."""
    try:
        os.makedirs(out, exist_ok=True)
        file = open(os.path.join(out, ".sweep.lock"), "a", encoding="utf-8")
    except OSError as error:
        raise SweepError(f"--out {out}: {error.strerror}", 5) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise SweepError(f"another sweep works in {out}; wait for it, or give another --out") from None
    return file


def main(words):
    if sys.stdout is None:  # closed by whoever called
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    try:
        sweep = Sweep(read_command_line(words))
        needs_program = sweep.options.report or sweep.options.halve or not (sweep.options.table or sweep.options.dry_run)
        if needs_program and not os.access(sweep.program, os.X_OK):
            raise SweepError(f"{sweep.program} is not there; build it with scripts/build.sh, or name it by LMTRAIN=PROGRAM")
        if sweep.options.dry_run:
            sweep.dry_run()
            return 0
        if sweep.options.table and not os.path.isdir(sweep.options.out):
            raise SweepError(f"--out {sweep.options.out}: there is no such folder")
        if not sweep.options.table:
            sweep.train()
        elif sweep.options.config:
            sweep.make_halving(sweep.configs() if sweep.options.halve else [])
        sweep.show()
        sys.stdout.flush()
        return 0 if sweep.options.table else sweep.exit_code()
    except SweepError as error:
        say(f"sweep: {error}")
        return error.code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stdout = None
        return 141
    except OSError as error:
        sys.stdout = None
        say(f"sweep: {error}")
        return 5
