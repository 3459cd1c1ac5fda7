"""The example for pandas in docs/formats/run_folder.md tells updates from evaluations.

It runs as it stands on the page, with a stand-in for pandas, on the lines of metrics.jsonl that the page shows and on half a line,
as a power cut leaves it.
"""

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import types
import unittest
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats" / "run_folder.md"


class Column(list):
    def tail(self):
        return Column(self[-5:])


class DataFrame:
    """As much of pandas.DataFrame as the example takes."""

    def __init__(self, rows):
        self.rows = rows

    def set_index(self, name):
        self.index = [row[name] for row in self.rows]
        return self

    def __getitem__(self, name):
        return Column(row[name] for row in self.rows)


class PandasExample(unittest.TestCase):
    def test_it_makes_a_table_of_updates_and_one_of_evaluations(self):
        page = PAGE.read_text(encoding="utf-8")
        section = page.split("\n## metrics.jsonl\n")[1].split("\n## ")[0]
        lines = "".join(re.findall(r"```json\n(.*?)```", section, re.DOTALL))
        programs = [text for text in re.findall(r"```python\n(.*?)```", section, re.DOTALL) if "import pandas" in text]
        self.assertEqual(len(programs), 1)
        pandas = types.ModuleType("pandas")
        pandas.DataFrame = DataFrame
        sys.modules["pandas"] = pandas
        self.addCleanup(sys.modules.pop, "pandas")
        self.addCleanup(os.chdir, os.getcwd())
        names = {}
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            os.makedirs("runs/tiny")
            Path("runs/tiny/metrics.jsonl").write_text(lines + '{"step":21,"tok', encoding="utf-8")
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(programs[0], str(PAGE), "exec"), names)
            os.chdir("/")
        written = [json.loads(line) for line in lines.splitlines()]
        self.assertEqual(names["steps"].index, [line["step"] for line in written if "loss" in line])
        self.assertEqual(names["evaluations"]["eval_loss"], [line["eval_loss"] for line in written if "eval_loss" in line])
        self.assertEqual(len(names["steps"].rows) + len(names["evaluations"].rows), len(written))


if __name__ == "__main__":
    unittest.main()
