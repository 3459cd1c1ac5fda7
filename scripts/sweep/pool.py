"""Processes of lmtrain, several at once, each in a place of its own; stopped by signals, by a time limit, or when one has done enough.

One thread. A process gets a session of its own, so that Ctrl-C reaches the sweep alone, which passes it on once: lmtrain saves at
the first signal, and ends at once at the second. When the sweep is killed, the system sends its processes SIGTERM.
"""

import collections
import ctypes
import dataclasses
import os
import signal
import subprocess
import time
import typing

from sweep.messages import TIME_OVER, SweepError, say
from sweep.runs import Run

PR_SET_PDEATHSIG = 1
POLL_SECONDS = 0.05
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


@dataclasses.dataclass
class Task:
    """One process: a command of lmtrain that works on a run."""

    label: str
    run: Run
    command: list
    enough: typing.Callable[[], bool] = lambda: False  # asked often; True stops the run, which is then done for this task


@dataclasses.dataclass
class Working:
    task: Task
    process: subprocess.Popen
    told: bool = False  # to stop


class Pool:
    def __init__(self, slots, deadline=None):
        """deadline: on the clock of time.monotonic()."""
        self.slots, self.deadline = slots, deadline
        self.working = {}     # place -> Working
        self.signals = []     # in the order in which they came
        self.passed_on = 0    # of them
        self.waited_for = set()
        self.cut_short = False  # by the deadline

    def run(self, tasks, ended):
        """Works through the tasks and calls ended(task, exit code, whether it was told to stop) after each.

        Throws SweepError when a signal came, or when the deadline left something undone.
        """
        waiting = collections.deque(tasks)
        heeded = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]  # nohup ignores SIGHUP
        former = {number: signal.signal(number, lambda number, _: self.signals.append(number)) for number in heeded}
        try:
            while waiting or self.working:
                if self.signals or self.time_is_over():
                    self.cut_short = self.cut_short or bool(waiting)
                    waiting.clear()
                    self.stop_all()
                for place in range(len(self.slots)):
                    if place not in self.working and waiting:
                        self.start_one(place, waiting)
                time.sleep(POLL_SECONDS)
                self.collect(ended)
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
        if self.signals:
            raise SweepError(f"stopped by signal {self.signals[0]}; the same command goes on", 128 + self.signals[0])
        if self.cut_short:
            raise SweepError("the time given is over; the same command goes on", TIME_OVER)

    def time_is_over(self):
        return self.deadline is not None and time.monotonic() >= self.deadline

    def stop_all(self):
        """Passes each signal on once, the first one not to processes that were told to stop before; at the deadline SIGTERM."""
        for number in self.signals[self.passed_on :] if self.signals else [signal.SIGTERM]:
            for one in self.working.values():
                if self.passed_on > 0 or not one.told:
                    kill_group(one.process, number)
                one.told = True
        self.passed_on = len(self.signals)

    def start_one(self, place, waiting):
        """Starts the first task whose run no process of an earlier sweep still works on."""
        for task in list(waiting):
            if task.run.locked():
                if task.run.folder not in self.waited_for:
                    say(f"waiting for process {task.run.status().get('pid')}, which still trains in {task.run.folder}")
                self.waited_for.add(task.run.folder)
                continue
            waiting.remove(task)
            slot = self.slots[place]
            say(task.label + (f", on {slot.name}" if slot.name else ""))
            os.makedirs(os.path.dirname(task.run.folder), exist_ok=True)
            with open(task.run.log, "wb") as log:
                process = subprocess.Popen(
                    task.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                    env=os.environ | slot.environment, start_new_session=True, preexec_fn=die_with(os.getpid()))
            self.working[place] = Working(task, process)
            return

    def collect(self, ended):
        for place, one in list(self.working.items()):
            code = one.process.poll()
            if code is None:
                if not one.told and one.task.enough():
                    one.told = True
                    kill_group(one.process, signal.SIGTERM)
                continue
            del self.working[place]
            self.cut_short = self.cut_short or (code != 0 and self.time_is_over())
            ended(one.task, 128 - code if code < 0 else code, one.told)


def kill_group(process, number):
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass  # it has just ended


def die_with(parent):
    """A function for a new process: when `parent` dies, the process gets SIGTERM; where it has died already, the process ends."""
    prctl = ctypes.CDLL(None).prctl

    def prepare():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(128 + signal.SIGTERM)

    return prepare
