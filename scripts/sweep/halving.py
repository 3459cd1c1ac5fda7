"""Successive halving on the plateau of a `wsd` schedule.

Each point is an ordinary run of the config, its trunk. At each rung the trunks stop, a branch of each decays to the end of a
schedule of that length, and the points whose branches end lowest go on from where their trunks stopped. So all that is compared
are losses at the ends of whole schedules, and the runs that are left over in the end are those that `lmtrain train` alone would give.
Rankings in the middle of any other schedule flip: a rate that is still high hides what a run has learned.
"""

import dataclasses
import math
import re
import statistics

from sweep.messages import DIVERGED, SweepError, say
from sweep.points import config_overrides
from sweep.pool import Task
from sweep.runs import Run
from sweep.table import aligned

UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


@dataclasses.dataclass(frozen=True)
class Length:
    """How long the runs are, in the unit in which they count: steps or tokens."""

    total: int
    unit: str        # "steps" or "tokens", as in train.steps and train.tokens
    batch_tokens: int


@dataclasses.dataclass(frozen=True)
class Rung:
    number: int  # from 1
    at: int      # where the branch begins, in the unit of the run
    length: int  # where it ends


def amount(value, bare):
    """(number, unit) of "20%", "500 steps", "12345 tokens" or "10M"; a bare number has the unit `bare`. ValueError for all else."""
    if not isinstance(value, str):
        return float(value), bare
    match = re.fullmatch(r"([0-9.]+) ?(?:(%|steps)|(Ki|Mi|Gi|K|M|B|T)?(?: ?tokens)?)", value)
    if not match:
        raise ValueError(value)
    number, unit, scale = match.groups()
    return float(number) * UNITS[scale or ""], unit or "tokens"


def in_run(value, length):
    """A duration of the config in the unit of the run; a bare number is steps."""
    try:
        number, unit = amount(value, "steps")
    except ValueError:
        raise SweepError(f"--halve: {value} has no fixed place in a run; give steps, tokens or a percentage") from None
    if unit == "%":
        return number * length.total / 100
    if unit == "tokens":
        return number if length.unit == "tokens" else number / length.batch_tokens
    return number if length.unit == "steps" else number * length.batch_tokens


def length_of(config):
    for unit in ("steps", "tokens"):
        if config["train"].get(unit) is not None:
            total, batch = (int(amount(value, unit)[0]) for value in (config["train"][unit], config["batch"]["tokens"]))
            return Length(total, unit, batch)
    raise SweepError("--halve: train.epochs says no length before the data is prepared; give train.tokens or train.steps")


def plan(config, num_points, times):
    """The rungs of a config for so many points. Throws SweepError where halving would not compare ends of schedules."""
    schedule = config["lr_schedule"]
    if schedule["type"] != "wsd":
        raise SweepError(
            f"--halve: lr_schedule.type is {schedule['type']}, and halfway through such a schedule the runs do not rank as at its end: "
            "a rate that is still high hides what a run has learned, so the best would be thrown out. Only wsd has a plateau that can be "
            "left at any step: give -- --set lr_schedule.type=wsd, and branches that decay are compared")
    if num_points < 2:
        raise SweepError("--halve: there is only one point")
    if survivors(num_points, times - 1) == 1:
        most = max(n for n in range(1, times) if survivors(num_points, n - 1) > 1)
        raise SweepError(f"--halve {times}: of {num_points} points one is left after {most}; give at most {most}")
    length = length_of(config)
    decay = in_run(schedule["decay"], length) / length.total
    if not 0 < decay < 1:
        raise SweepError(f"--halve: lr_schedule.decay {schedule['decay']} leaves no plateau, or nothing to decay")
    first = math.floor(length.total * (1 - decay)) // 2**times
    warmup = in_run(schedule["warmup"], length)
    if first <= warmup or first < 1:
        raise SweepError(f"--halve {times}: the first branch would begin after {first} {length.unit}, and the warm-up takes {warmup:.0f}; "
                         "halve fewer times, or train longer")
    rungs = [Rung(i + 1, first * 2**i, math.ceil(first * 2**i / (1 - decay))) for i in range(times)]
    if rungs[0].length == rungs[0].at:
        raise SweepError(f"--halve {times}: a decay from {first} {length.unit} would be empty; halve fewer times")
    return rungs


def survivors(num_points, rungs):
    return math.ceil(num_points / 2**rungs)


def chosen(losses, count):
    """The `count` points with the lowest mean, in the order given; {point: [loss of each seed, None where it diverged]}."""
    def rank(point):
        return math.inf if None in losses[point] else statistics.fmean(losses[point])

    best = sorted(losses, key=rank)[:count]
    return [point for point in losses if point in best]


def one_length(configs):
    """The config of the first point. Points that differ in length or schedule cannot be compared at the same rungs."""
    def shape(config):
        return [config["lr_schedule"][key] for key in ("type", "decay", "warmup")] + [config["train"], config["batch"]["tokens"]]

    for config in configs[1:]:
        if shape(config) != shape(configs[0]):
            raise SweepError("--halve: the points differ in lr_schedule.type, decay or warmup, in batch.tokens or in the length of "
                             "the run; halving compares points at the same places of one schedule")
    return configs[0]


def by_seed(tasks):
    """The tasks of {point name: [Task of each seed]}, seeds outermost: every point has one run before any has two."""
    return [task for of_one_seed in zip(*tasks.values()) for task in of_one_seed]


class Halving:
    """The rungs of a sweep, worked through with a pool."""

    def __init__(self, config, num_points, times, program):
        self.rungs = plan(config, num_points, times)
        self.length = length_of(config)
        self.program = program
        # All rungs are multiples of the first.
        self.trunk_settings = (f"checkpoint.keep_every={self.rungs[0].at} {self.length.unit}",)

    def branch(self, run, rung):
        folder, name = run.folder.rsplit("/", 1)
        return Run(f"{folder}/rung_{rung.number}/{name}")

    def checkpoint(self, run, rung):
        """Step of the trunk's checkpoint at which the branch begins; None: it is not there yet."""
        steps = run.checkpoint_steps()
        if self.length.unit == "steps":
            return rung.at if rung.at in steps else None
        for step in steps:
            tokens = run.checkpoint_tokens(step)
            if tokens is not None and rung.at <= tokens < rung.at + self.length.batch_tokens:
                return step
        return None

    def trunk_task(self, task, rung):
        """`task`, the whole run of a point, as far as its checkpoint of the rung; None where that is there."""
        if self.checkpoint(task.run, rung) is not None or task.run.status().get("state") == "diverged":
            return None
        if task.run.finished():
            raise SweepError(f"{task.run.folder} is done and kept no checkpoint for the branch at {rung.at} {self.length.unit}; "
                             "halve in another --out")
        return Task(f"{task.label}, to {self.place(rung)}", task.run, task.command, lambda: self.checkpoint(task.run, rung) is not None)

    def branch_task(self, task, rung):
        """The branch that judges a point at a rung; None where it has ended, or the trunk diverged."""
        branch, step = self.branch(task.run, rung), self.checkpoint(task.run, rung)
        if branch.finished() or step is None:
            return None
        label = f"{task.label}, branch of {self.place(rung)}"
        if branch.exists():
            return Task(label, branch, [self.program, "resume", branch.folder])
        settings = (f"train.{self.length.unit}={rung.length}", f"lr_schedule.decay={rung.length - rung.at} {self.length.unit}")
        command = [self.program, "resume", task.run.folder, "--from", str(step), "--run-dir", branch.folder, *config_overrides(settings)]
        return Task(label, branch, command)

    def place(self, rung):
        return f"rung {rung.number} of {len(self.rungs)} ({rung.at} {self.length.unit})"

    def run(self, tasks, work):
        """Works through the rungs; returns those of the tasks, {point name: [Task of each seed]}, that are left to be trained to the end.

        work(tasks): trains them; throws SweepError where one fails.
        """
        for rung in self.rungs:
            work([trunk for task in by_seed(tasks) if (trunk := self.trunk_task(task, rung))])
            work([branch for task in by_seed(tasks) if (branch := self.branch_task(task, rung))])
            losses = {name: [self.branch(task.run, rung).loss() for task in ours] for name, ours in tasks.items()}
            if all(None in one for one in losses.values()):
                raise SweepError(f"at {self.place(rung)} no point has a loss: all diverged, or there is no held-out text", DIVERGED)
            left = chosen(losses, survivors(len(tasks), 1))
            say(f"{self.place(rung)}: {', '.join(left)} of {len(tasks)} points go on")
            tasks = {name: tasks[name] for name in left}
        return tasks

    def table(self, runs):
        """Text: the mean loss of each point's branches at each rung; - where it did not come so far."""
        points = {}
        for run in runs:
            points.setdefault(run.point, []).append(run)
        lines = []
        for name, ours in points.items():
            losses = [[self.branch(run, rung).loss() for run in ours] for rung in self.rungs]
            means = [None if None in seeds else statistics.fmean(seeds) for seeds in losses]
            lines.append(([mean is None for mean in reversed(means)], [mean or 0 for mean in reversed(means)], name, means))
        heads = ["point", "rungs"] + [f"at {rung.length} {self.length.unit}" for rung in self.rungs]
        rows = [[name, str(sum(mean is not None for mean in means)), *("-" if mean is None else f"{mean:.4f}" for mean in means)]
                for _, _, name, means in sorted(lines)]
        return aligned([heads, *rows])
