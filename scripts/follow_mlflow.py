#!/usr/bin/env python3
"""Passes a run of lmtrain on to MLflow, while it trains or afterwards.

    scripts/follow_mlflow.py RUN_DIR                               until the run is done or has diverged, to MLFLOW_TRACKING_URI
    scripts/follow_mlflow.py RUN_DIR --once                        what is there, such as all of a finished run
    scripts/follow_mlflow.py RUN_DIR --store sqlite:///mlflow.db   a file instead of a server
    scripts/follow_mlflow.py RUN_DIR --store file:mlruns           a folder; MLflow 3.17 wants MLFLOW_ALLOW_FILE_STORE=true for it

Needs the package mlflow in an environment of your own; mlflow-skinny does for servers and folders. Names of curves are those of
TensorBoard; parameters are the settings of the run's config.json, and config.json and events.jsonl are artifacts. Steps that were
trained again with another loss, after a rollback or a resume with other settings, have both values in MLflow, the newer one with the
later time. A script that is started again goes on in the same run of MLflow, and sends nothing twice.
"""

import collections
import os
import sys
import time

from follow_run import as_float, flat, follow, missing, numbers_of, parser, run_there

AT_ONCE = {"metrics": 1000, "params": 100}  # what MLflow takes in one call
LONGEST_VALUE = 6000                        # of a parameter, in characters
COUNTED = ("skip", "spike", "rollback", "oom_fit", "save_failed")
RUN_TAG, EVENTS_TAG = "lmtrain.run", "lmtrain.events"


class Sender:
    def __init__(self, mlflow, client, run_id, follower):
        self.mlflow, self.client, self.run_id = mlflow, client, run_id
        self.counts = collections.Counter()
        self.events = 0
        self.events_there = int(client.get_run(run_id).data.tags.get(EVENTS_TAG, 0))
        for name, take in (("train/loss", follower.took_update), ("eval/loss", follower.took_evaluation)):
            for metric in client.get_metric_history(run_id, name):  # those logged last come last
                take(metric.step, metric.value)

    def send(self, records):
        metrics = []
        for record in records:
            numbers = self.event_numbers(record.line) if record.kind == "event" else numbers_of(record)
            now = int(1000 * time.time())
            metrics += [self.mlflow.entities.Metric(name, as_float(value), now, record.line.get("step", 0)) for name, value in numbers.items()]
            if len(metrics) >= AT_ONCE["metrics"]:
                self.log("metrics", metrics)
                metrics = []
        self.log("metrics", metrics)
        if self.events > self.events_there:
            self.client.set_tag(self.run_id, EVENTS_TAG, str(self.events))
            self.events_there = self.events

    def event_numbers(self, event):
        """How many of its kind there were so far, at its step; nothing for an event that MLflow has already."""
        self.events += 1
        kind = event.get("event")
        self.counts[kind] += 1
        return {f"events/{kind}": self.counts[kind]} if kind in COUNTED and self.events > self.events_there else {}

    def log(self, what, entries):
        for i in range(0, len(entries), AT_ONCE[what]):
            self.client.log_batch(self.run_id, **{what: entries[i : i + AT_ONCE[what]]})

    def finish(self, folder, state):
        for name in ("config.json", "events.jsonl"):
            path = os.path.join(folder, name)
            if os.path.exists(path):
                self.client.log_artifact(self.run_id, path)
        self.client.set_tag(self.run_id, "lmtrain.state", str(state))
        status = {"done": "FINISHED", "diverged": "FAILED", "failed": "FAILED", "stopped": "KILLED"}.get(state)
        if status:
            self.client.set_terminated(self.run_id, status)


def open_run(mlflow, client, options, follower):
    """Id of the MLflow run of this run of lmtrain: the one there is, else a new one with the settings as parameters."""
    experiment = client.get_experiment_by_name(options.project)
    experiment_id = experiment.experiment_id if experiment else client.create_experiment(options.project)
    known = client.search_runs([experiment_id], f"tags.`{RUN_TAG}` = '{follower.identity()}'", max_results=1)
    if known:
        client.update_run(known[0].info.run_id, status="RUNNING")
        return known[0].info.run_id
    config = follower.config()
    run_id = client.create_run(experiment_id, run_name=options.name or follower.name(), tags={RUN_TAG: follower.identity()}).info.run_id
    params = [mlflow.entities.Param(key, str(value)[:LONGEST_VALUE]) for key, value in flat(config).items()]
    for i in range(0, len(params), AT_ONCE["params"]):
        client.log_batch(run_id, params=params[i : i + AT_ONCE["params"]])
    return run_id


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--store", help="tracking URI (default: MLFLOW_TRACKING_URI, else MLflow's own default)")
    options = arguments.parse_args()
    try:
        import mlflow
        import mlflow.entities
        import mlflow.exceptions
    except ImportError:
        missing("mlflow", "scripts/follow_mlflow.py")
    follower = run_there(options)
    try:
        client = mlflow.MlflowClient(tracking_uri=options.store)
        sender = Sender(mlflow, client, open_run(mlflow, client, options, follower), follower)
        state = None
        try:
            state = follow(follower, sender.send, options.once, options.seconds)
        except KeyboardInterrupt:
            return 130
        finally:
            sender.finish(options.run_dir, state or follower.status().get("state"))
    except mlflow.exceptions.MlflowException as error:
        print(f"MLflow refuses: {error}", file=sys.stderr)
        return 5
    return 0


if __name__ == "__main__":
    sys.exit(main())
