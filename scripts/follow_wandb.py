#!/usr/bin/env python3
"""Passes a run of lmtrain on to Weights & Biases, while it trains or afterwards.

    scripts/follow_wandb.py RUN_DIR                    until the run is done or has diverged
    scripts/follow_wandb.py RUN_DIR --once             what is there, such as all of a finished run
    scripts/follow_wandb.py RUN_DIR --mode offline     without network; `wandb sync` sends it later

Needs the package wandb in an environment of your own. Names of curves are those of TensorBoard; the config is the run's config.json,
and the events are a table. W&B takes each step once: of steps that were trained again, after a rollback or a resume with other
settings, it keeps the first values, and this script says how many differ. A script that is started again goes on in the same run of
W&B; offline it records the run from its beginning, in a folder of its own.
"""

import sys

from follow_run import flat, follow, missing, numbers_of, parser, run_there

EVENT_COLUMNS = ["time", "event", "step", "reason"]


class Sender:
    def __init__(self, wandb, run):
        self.wandb, self.run = wandb, run
        self.first = run.starting_step  # W&B has the steps before it
        self.kept = 0                   # steps of which W&B keeps older values
        self.events = []

    def send(self, records):
        for record in records:
            if record.kind == "event":
                self.events.append([record.line.get(column) for column in EVENT_COLUMNS])
                name = f"events/{record.line.get('event')}"
                self.run.summary[name] = (self.run.summary.get(name) or 0) + 1
            elif record.again:
                self.kept += 1
            elif record.line["step"] >= self.first:
                self.run.log(numbers_of(record), step=record.line["step"])

    def finish(self, state):
        self.run.summary["state"] = state
        self.run.log({"events": self.wandb.Table(columns=EVENT_COLUMNS, data=self.events)})
        if self.kept:
            print(f"lines that came again with other values, where W&B keeps the first ones: {self.kept}", file=sys.stderr)
        self.run.finish(exit_code=1 if state in ("diverged", "failed") else 0)


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--mode", choices=["online", "offline"], help="as W&B has it (default: WANDB_MODE, else online)")
    arguments.add_argument("--dir", help="where W&B keeps its files (default: WANDB_DIR, else ./wandb)")
    options = arguments.parse_args()
    try:
        import wandb
    except ImportError:
        missing("wandb", "scripts/follow_wandb.py")
    follower = run_there(options)
    run = wandb.init(project=options.project, name=options.name or follower.name(), id=follower.identity(), resume="allow",
                     mode=options.mode, dir=options.dir, config=flat(follower.config()))
    sender = Sender(wandb, run)
    state = None
    try:
        state = follow(follower, sender.send, options.once, options.seconds)
    except KeyboardInterrupt:
        return 130
    finally:
        sender.finish(state or follower.status().get("state"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
