#!/usr/bin/env python3
"""Passes a run of lmtrain on to Trackio, while it trains or afterwards.

    scripts/follow_trackio.py RUN_DIR                      until the run is done or has diverged, into Trackio's folder on this machine
    scripts/follow_trackio.py RUN_DIR --once               what is there, such as all of a finished run
    scripts/follow_trackio.py RUN_DIR --space USER/SPACE   into a Space of the Hugging Face hub

Needs the package trackio in an environment of your own; `trackio show --project lmtrain` shows the curves. Their names are those of
TensorBoard; the config is the run's config.json, and skips, spikes and rollbacks are counts. Trackio knows a run by its name, so the
name has the first digits of the run's identity. A script that is started again goes on in the same run of Trackio, after the last step
that is there. Steps that were trained again with another loss have both values.
"""

import collections
import sys

from follow_run import flat, follow, missing, numbers_of, parser, run_there

COUNTED = ("skip", "spike", "rollback", "oom_fit", "save_failed")
IDENTITY_DIGITS = 8


class Sender:
    def __init__(self, run):
        self.run = run
        # Trackio has the steps before this one; it says so in no public way.
        self.first = getattr(run, "_next_step", 0)
        self.counts = collections.Counter()

    def send(self, records):
        for record in records:
            step = record.line.get("step", 0)
            if record.kind == "event":
                numbers = self.event_numbers(record.line)
            else:
                numbers = numbers_of(record)
            if numbers and (step >= self.first or record.again):
                self.run.log(numbers, step=step)

    def event_numbers(self, event):
        """How many of its kind there were so far."""
        kind = event.get("event")
        self.counts[kind] += 1
        return {f"events/{kind}": self.counts[kind]} if kind in COUNTED else {}


def run_name(follower):
    """The folder's name with the beginning of the run's identity, so that two runs of one name stay apart."""
    identity = (follower.config().get("identity") or {}).get("run") or ""
    return "-".join(filter(None, (follower.name(), identity[:IDENTITY_DIGITS])))


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--space", help="of the Hugging Face hub (default: TRACKIO_SPACE_ID, else none: on this machine)")
    options = arguments.parse_args()
    try:
        import trackio
    except ImportError:
        missing("trackio", "scripts/follow_trackio.py")
    follower = run_there(options)
    run = trackio.init(project=options.project, name=options.name or run_name(follower), space_id=options.space, resume="allow",
                       config=flat(follower.config()))
    sender = Sender(run)
    try:
        follow(follower, sender.send, options.once, options.seconds)
    except KeyboardInterrupt:
        return 130
    finally:
        trackio.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
