"""The run of a point and a seed, as its folder tells it. Nothing here writes."""

import fcntl
import glob
import os

from run_files import evaluations, json_lines, read_object

FINISHED = ("done", "diverged")  # runs that a sweep does not touch again


class Run:
    """One run folder, DIR/POINT/seed_N or DIR/POINT/run, and the log of its last process beside it."""

    def __init__(self, folder):
        self.folder = folder
        self.log = folder + ".log"
        self.point = os.path.basename(os.path.dirname(folder))
        self.seed = os.path.basename(folder).replace("seed_", "")

    def exists(self):
        return os.path.exists(os.path.join(self.folder, "config.json"))

    def status(self):
        return read_object(os.path.join(self.folder, "status.json"))

    def config(self):
        return read_object(os.path.join(self.folder, "config.json"))

    def state(self):
        """The state in status.json; "killed" where it says running and nobody trains; "refused" where no run began."""
        state = self.status().get("state", "refused")
        return "killed" if state == "running" and not self.locked() else state

    def finished(self):
        return self.status().get("state") in FINISHED

    def loss(self):
        """Held-out loss of a run that is done; None of any other, and where there is no held-out text."""
        status = self.status()
        return status.get("eval_loss") if status.get("state") == "done" else None

    def locked(self):
        """Whether a process trains in the folder. Looking takes a shared lock for an instant, as no run of another folder does."""
        try:
            descriptor = os.open(os.path.join(self.folder, ".lock"), os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except OSError:
            return True
        finally:
            os.close(descriptor)

    def evaluations(self):
        return evaluations(self.folder) if os.path.exists(os.path.join(self.folder, "metrics.jsonl")) else []

    def seconds(self):
        """Seconds of training; 0 before the first update."""
        path = os.path.join(self.folder, "metrics.jsonl")
        rows = json_lines(path) if os.path.exists(path) else ()
        return max((row["elapsed"] for row in rows if row.get("elapsed") is not None), default=0.0)

    def checkpoint_steps(self):
        names = glob.glob(os.path.join(self.folder, "checkpoints", "step_*"))
        return sorted(int(name.rsplit("_", 1)[-1]) for name in names if name.rsplit("_", 1)[-1].isdigit())

    def checkpoint(self, step):
        return os.path.join(self.folder, "checkpoints", f"step_{step:08d}")

    def checkpoint_tokens(self, step):
        """Targets that the weights of a checkpoint were trained on; None where it is being removed."""
        return read_object(os.path.join(self.checkpoint(step), "state.json")).get("tokens")

    def state_bytes(self):
        """Size of the optimizer's state in the newest checkpoint; None where there is none."""
        for step in reversed(self.checkpoint_steps()):
            try:
                return os.path.getsize(os.path.join(self.checkpoint(step), "optimizer.safetensors"))
            except OSError:
                continue
        return None

    def last_words(self):
        """The last line of the log: the error, where there was one."""
        try:
            with open(self.log, encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""


def run_of(out, point, seed):
    return Run(os.path.join(out, point.name, f"seed_{seed}" if seed else "run"))


def runs_in(out):
    """All runs that were begun in DIR, by this command or another."""
    return [Run(log[: -len(".log")]) for log in sorted(glob.glob(os.path.join(glob.escape(out), "*", "*.log")))]
