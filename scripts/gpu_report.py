"""Reports of scripts/gpu_check.py: rows in a file that is complete after each, what they mean together, and several joined.

A row has a section, a name, a result and numbers. Where it says that an item was stopped or could not be made, it names that `item`.
Results:
    pass, fail   a check that was made; `measured`: a number that no check judges by itself
    skip         a check that cannot be made here; `reason` says why
    stopped      the time of the call ended in the middle of it
Verdicts are computed from all rows of a file: a benchmark's contestants may have been measured in several calls.
"""

import json
import os
import sys
import time

# Section: size, length; the MFU (6N + 12LDT against the data sheet) that is wanted.
BENCHMARKS = {
    "bench-124m-1024": ("124m", 1024, 0.52),
    "bench-1.1b-2048": ("1.1b", 2048, 0.58),
    "bench-350m-2048": ("350m", 2048, 0.55),
    "bench-1.1b-8192": ("1.1b", 8192, 0.52),  # within 10 % of the shorter length's
}
AGAINST_COMPILE, AGAINST_TRAINER, FIRST_STEP_SECONDS = 1.1, 1.5, 3.0
LOSS_TOLERANCE = 0.05  # of any step, against the plain loop in bf16


class Report:
    """The rows of one call."""

    def __init__(self, path, machine):
        self.path, self.machine, self.rows, self.section = path, machine, [], ""
        self.begun, self.ended, self.not_begun = [], [], []  # items, as SECTION/NAME
        try:
            with open(path, "x", encoding="utf-8"):
                pass
            self.write()  # before an hour of checks
        except FileExistsError:
            sys.exit(f"{path} is there already, and a call has a report of its own: give another --report, and join them with --join")
        except OSError as error:
            sys.exit(f"{path} cannot be the report: {error.strerror}; give another name")

    def add(self, name, result, **numbers):
        """result: of the head of this file, or True, False, and None for a check that could not be made."""
        result = {True: "pass", False: "fail", None: "skip"}.get(result, result)
        self.rows.append({"section": self.section, "name": name, "result": result, **numbers})
        print(line_of(self.rows[-1]), flush=True)
        self.write()

    def write(self):
        write_document(self.path, {"calls": [self.machine | {"begun": self.begun, "ended": self.ended, "not_begun": self.not_begun}], "rows": self.rows})

    def failed(self):
        return has_failed(self.rows)


def has_failed(rows):
    return any(row["result"] == "fail" for row in rows + verdicts(rows))


def write_document(path, document):
    result = "fail" if has_failed(document["rows"]) else "pass"
    head = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "result": result}
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(head | document | {"verdicts": verdicts(document["rows"])}, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)


def line_of(row):
    """A row as people read it."""
    numbers = {key: value for key, value in row.items() if key not in ("section", "name", "result", "item")}
    details = ", ".join(f"{key} {short(value)}" for key, value in numbers.items() if value is not None and not isinstance(value, (dict, list)))
    return f"{row['result'].upper():8} {row['section']}: {row['name']}" + (f": {details}" if details else "")


def short(value):
    return f"{value:.4g}" if isinstance(value, float) else value


def verdicts(rows):
    """What a benchmark's rows say together: its MFU, and its speed beside the others."""
    judged = []
    for section, (_, _, wanted_mfu) in BENCHMARKS.items():
        measured = {row["name"]: row for row in rows if row["section"] == section and "step_seconds" in row}
        ours = [name for name in ("lmtrain", "lmtrain-graph") if name in measured]
        if not ours:
            continue
        best = measured[min(ours, key=lambda name: measured[name]["step_seconds"])]

        def judge(name, passed, **numbers):
            result = {True: "pass", False: "fail", None: "skip"}[passed]
            judged.append({"section": section, "name": name, "result": result, "of": best["name"], **numbers})

        mfu = best.get("mfu")
        judge("MFU", None if mfu is None else mfu >= wanted_mfu, mfu=mfu, wanted=wanted_mfu)
        for peer, wanted in (("compile", AGAINST_COMPILE), ("trainer", AGAINST_TRAINER)):
            if peer in measured:
                ratio = measured[peer]["step_seconds"] / best["step_seconds"]
                judge(f"speed against {peer}", ratio >= wanted, ratio=ratio, wanted=wanted)
        judge("first step", best["first_step_seconds"] <= FIRST_STEP_SECONDS, seconds=best["first_step_seconds"], wanted=FIRST_STEP_SECONDS)
        if "loop" in measured:
            pairs = list(zip(best["losses"], measured["loop"]["losses"]))
            largest = max((abs(a - b) for a, b in pairs), default=None)
            judge("losses against loop", None if largest is None else largest <= LOSS_TOLERANCE, largest_difference=largest, tolerance=LOSS_TOLERANCE)
    return judged


def join(paths, into):
    """One report of several calls of one program; returns whether something failed. Of a row that several have, the last one that was made
    counts; that an item was stopped or failed counts no more where a later call has ended it."""
    reports = []
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
            reports.append((max(call["begun_at"] for call in report["calls"]), path, report["calls"], report["rows"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.exit(f"{path} is no report of gpu_check.sh: {error}")
    reports.sort(key=lambda report: report[0])
    programs = {call["program"]: path for _, path, calls, _ in reports for call in calls}
    if len(programs) > 1:
        sys.exit(f"the reports are of several programs, and their figures say nothing together: {', '.join(programs.values())}")
    calls, rows = [], {}
    for _, _, calls_of, rows_of in reports:
        calls += calls_of
        ended = {item for call in calls_of for item in call["ended"]}
        rows = {key: row for key, row in rows.items() if row.get("item") not in ended}
        for row in rows_of:
            key = row["section"], row["name"]
            if key not in rows or row["result"] not in ("skip", "stopped") or rows[key]["result"] in ("skip", "stopped"):
                rows[key] = row
    left = {item for call in calls for item in call["begun"] + call["not_begun"]} - {item for call in calls for item in call["ended"]}
    document = {"calls": calls, "rows": list(rows.values())}
    write_document(into, document)
    print_report(document["rows"], sorted(left))
    print(f"report: {into}")
    return has_failed(document["rows"])


def print_report(rows, left):
    for row in rows + verdicts(rows):
        print(line_of(row))
    count = {result: sum(row["result"] == result for row in rows + verdicts(rows)) for result in ("pass", "fail", "skip", "stopped", "measured")}
    print("; ".join(f"{number} {result}" for result, number in count.items()))
    if left:
        print("not begun or stopped: " + " ".join(left))
