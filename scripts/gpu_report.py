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
AGAINST_COMPILE, AGAINST_TRAINER, FIRST_STEP_SECONDS, TIMES_SOONER = 1.1, 1.5, 3.0, 10
SCREEN_LINES, SCREEN_WIDTH = 40, 200
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

    def take(self, rows):
        """The rows of all parts of the call, anew."""
        if rows != self.rows:
            self.rows = rows
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
        loop = next((name for name in ("loop", "compile") if name in measured), None)
        if loop:
            pairs = list(zip(best["losses"], measured[loop]["losses"]))
            largest = max((abs(a - b) for a, b in pairs), default=None)
            judge(f"losses against {loop}", None if largest is None else largest <= LOSS_TOLERANCE, largest_difference=largest, tolerance=LOSS_TOLERANCE)
    return judged + goals(rows)


def goals(rows):
    """Of the first steps with new weights and of the times to a loss."""
    judged = []
    for row in rows:
        seconds, sooner = row.get("first_step_seconds"), row.get("times_sooner")
        if row["section"] == "first-step" and seconds is not None and not row.get("whole_seconds"):
            judged.append((row, "first step", seconds <= FIRST_STEP_SECONDS, {"seconds": seconds, "wanted": FIRST_STEP_SECONDS}))
        if row["section"] == "time-to-loss" and row["result"] == "measured":
            judged.append((row, "sooner than HF Trainer", (sooner or 0) >= TIMES_SOONER, {"times": sooner, "wanted": TIMES_SOONER}))
    return [{"section": row["section"], "name": f"{row['name']}: {name}", "result": "pass" if passed else "fail", "of": "lmtrain", **numbers}
            for row, name, passed, numbers in judged]


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
    print(counts_of(rows))
    if left:
        print("not begun or stopped: " + " ".join(left))


def counts_of(rows):
    count = {result: sum(row["result"] == result for row in rows + verdicts(rows)) for result in ("pass", "fail", "skip", "stopped", "measured")}
    return "; ".join(f"{number} {result}" for result, number in count.items())


def screen(machine, rows, left, path, seconds):
    """What came out of a call, at most SCREEN_LINES lines: counts, what failed, what was left out, and the figures that matter."""
    everything = rows + verdicts(rows)
    failed = [line_of(row) for row in everything if row["result"] == "fail"]
    others = [line_of(row) for row in everything if row["result"] in ("skip", "stopped")]
    head = [f"== {machine['gpus'][0]}; lmtrain {machine['commit'][:12]}; torch {machine['torch']}; {seconds:.0f} s; tests: {tests_of(rows)}", counts_of(rows)]
    tail = ["not begun or stopped, for want of time; the next call goes on with: " + " ".join(left)] if left else []
    tail.append(f"{'FAIL' if failed else 'PASS'}; report: {path}")
    figures = figures_of(rows)
    room = SCREEN_LINES - len(head) - len(tail)
    figures = figures[: room - 6]
    failures = at_most(failed, room - len(figures) - min(len(others), 4))
    lines = head + failures + at_most(others, room - len(figures) - len(failures)) + figures
    return "\n".join([cut(line) for line in lines] + tail)


def at_most(lines, count):
    return lines if len(lines) <= count else lines[: max(0, count - 1)] + [f"... and {len(lines) - max(0, count - 1)} more"][: max(0, count)]


def cut(line):
    line = " ".join(line.split())
    return line if len(line) <= SCREEN_WIDTH else line[: SCREEN_WIDTH - 3] + "..."


def tests_of(rows):
    ran, skipped = (sum(row.get(key) or 0 for row in rows) for key in ("ran", "skipped"))
    return f"{ran} ran, {skipped} skipped"


def figures_of(rows):
    """A line for each benchmark, first step, time to a loss, soak, and for all kernels."""
    lines = []
    sections = list(dict.fromkeys(row["section"] for row in rows))
    for section in sections:
        measured = [row for row in rows if row["section"] == section]
        steps = [row for row in measured if "step_seconds" in row]
        if steps:
            lines.append(f"{section}: " + "; ".join(step_text(row, steps[0]) for row in steps))
        elif section == "first-step":
            lines += [f"first step {row['name']}: {start_text(row)}" for row in measured if row.get("first_step_seconds") is not None]
        elif section == "time-to-loss":
            lines += [f"time to loss {row['name']}: {sooner_text(row)}" for row in measured if row.get("peer_seconds") is not None]
        elif section == "soak":
            lines += [f"soak {row['name']}: {row['in_use_bytes'] / 1e9:.1f} GB in use, grown {row['grown_since']} bytes since step {row['settled_after']}"
                      for row in measured if "grown_since" in row]
        elif section == "kernels":
            kernels = [f"{row['name']} {row.get('device_microseconds') or row['microseconds']:.0f} us" + (f" {row['gigabytes_per_second'] / 1000:.1f} TB/s" if row.get("gigabytes_per_second") else "")
                       + f" {row['speedup']:.1f}x" for row in measured if row.get("speedup") and row.get("microseconds")]
            lines += [f"kernels: {'; '.join(kernels[i : i + 4])}" for i in range(0, len(kernels), 4)]
    differences = [row for row in rows if row.get("largest_difference") is not None and "cpu" in row["name"]]
    if differences:
        worst = max(differences, key=lambda row: row["largest_difference"] / row["tolerance"])
        lines.append(f"training: {len(differences)} comparisons with the CPU; nearest to its tolerance: {worst['name']}, "
                     f"{worst['largest_difference']:.2g} of {worst['tolerance']:g}")
    return lines


def step_text(row, base):
    text = f"{row['name']} {1e3 * row['step_seconds']:.1f} ms"
    if row is not base:
        text += f" ({row['step_seconds'] / base['step_seconds']:.2f})"
    if row.get("mfu"):
        text += f" {100 * row['mfu']:.1f} %"
    text += f" {row['peak_bytes'] / 1e9:.1f} GB"
    start = row.get("start_seconds") or row.get("first_step_seconds")
    return text + (f" start {start:.1f} s" if start else "")


def start_text(row):
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in (row.get("phases") or {}).items() if seconds >= 0.01)
    whole = f", whole run {row['whole_seconds']:.1f} s" if row.get("whole_seconds") else ""
    return f"{row['first_step_seconds']:.2f} s{whole}" + (f" ({parts})" if parts else "")


def sooner_text(row):
    text = f"HF Trainer {row['peer_loss']:.3f} after {row['peer_seconds']:.1f} s (lr {row['peer_lr']:g}); lmtrain "
    if row.get("reached_after"):
        text += f"has it after {row['reached_after']:.1f} s, {row['times_sooner']:.1f} times sooner"
    else:
        text += "does not reach it"
    if row.get("end_sooner"):
        text += f"; by a schedule of {row['end_tokens'] / 1e6:.3g}M tokens {row['end_sooner']:.1f} times"
    return text + f"; whole run {row['lmtrain_loss']:.3f} after {row['lmtrain_seconds']:.1f} s"
