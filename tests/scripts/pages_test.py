#!/usr/bin/env python3
"""The commands of docs/tutorial.md and docs/howto/*.md run, with the built program (LMTRAIN), and print what the pages show.

The blocks of a page run in the order of the page, those of the tutorial first, all in one temporary folder, in which scripts/,
configs/, data/ and docs/ are those of the repository. Before a block stands a comment that no reader of the page sees:
    <!-- test: run -->                    commands that must end with 0
    <!-- test: run; exit 2 -->            ... with that code
    <!-- test: run; set train.tokens=8K; set eval.every=50% -->   `train`, `plan` and `prepare` get these settings too, to be quick
    <!-- test: run; interrupt at step 5 -->   Ctrl-C as soon as a line begins so
    <!-- test: parse; needs a GPU -->     not run: options, commands and settings must exist
    <!-- test: file own.json -->          the block becomes that file
    <!-- test: python; needs transformers -->   run where LMTRAIN_PYTHON names a Python that has it, else compiled
    <!-- test: not compared; why -->      output that differs from machine to machine
A block ```text shows lines of what the commands before it print. Each must come, in that order; numbers, durations and the folder
may be others, "..." stands for any lines, and at the end of a line for its rest. Each block ```sh needs a comment.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME_OF_PAGES = "/home/me/lmtrain"
PORT_OF_PAGES = "MASTER_PORT=29517"
SECONDS_OF_A_BLOCK = 300
LANGUAGES = {"sh", "text", "json", "jsonc", "python", "ini"}
# A stand-in on PATH under the program's name, which adds the settings of a mark.
WRAPPER = """#!/bin/bash
more=()
case "${1:-}" in
  train | plan | prepare) while IFS= read -r setting; do [ -z "$setting" ] || more+=(--set "$setting"); done <<<"${PAGES_SETTINGS:-}" ;;
esac
exec "$PAGES_PROGRAM" "$@" "${more[@]}"
"""


class PageError(Exception):
    pass


class Block:
    def __init__(self, line, language, mark):
        self.line, self.language, self.text = line, language, ""
        words = [part.strip() for part in mark.split(";")] if mark else [""]
        self.verb, _, self.name = words[0].partition(" ")
        if self.verb == "not":  # not compared
            self.name = ""
        self.settings = [word[4:] for word in words[1:] if word.startswith("set ")]
        self.exit = next((int(word[5:]) for word in words[1:] if word.startswith("exit ")), 0)
        self.interrupt = next((word[13:] for word in words[1:] if word.startswith("interrupt at ")), "")


def blocks_of(text):
    """The fenced blocks of a page with their marks."""
    blocks, mark, block = [], "", None
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.fullmatch(r"```(\S*)", line)
        if block is not None:
            if fence:
                blocks.append(block)
                block = None
            else:
                block.text += line + "\n"
        elif fence:
            if fence[1] not in LANGUAGES:
                raise PageError(f"line {number}: a block in the language {fence[1]!r}; known are {sorted(LANGUAGES)}")
            block, mark = Block(number, fence[1], mark), ""
        elif found := re.fullmatch(r"<!-- test: (.*) -->", line):
            mark = found[1]
        elif mark and line.strip():
            raise PageError(f"line {number}: a mark for a test that is before no block")
        elif "```" in line and line.lstrip().startswith("```"):
            raise PageError(f"line {number}: a fence that does not begin its line")
    if block is not None:
        raise PageError(f"line {block.line}: a block without end")
    return blocks


def alike(line, folder):
    """A line without what may differ: the folder, numbers with their units, durations, the processor."""
    line = line.replace(str(folder), HOME_OF_PAGES).strip()
    line = re.sub(r"^compute .*", "compute", line)
    line = re.sub(r"step_\d+", "step_#", line)
    line = re.sub(r"\b(\d+(\.\d+)?(ms|h|m|s))+\b", "#", line)
    line = re.sub(r"[+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?( ?[KMGT]i?B\b|[KMGT]\b| bytes\b| ?%)?", "#", line)
    line = re.sub(r"# of length #(, # of length #)*", "# of length #", line)
    return re.sub(r"\s+", " ", line)


def missing_line(shown, printed, folder):
    """The first line of `shown` that does not come in `printed` after those before it; nothing when all come."""
    lines = iter([alike(line, folder) for line in printed])
    for wanted in shown.splitlines():
        if wanted.strip() in ("", "..."):
            continue
        pattern = alike(wanted, folder)
        is_begin = pattern.endswith("...")
        pattern = pattern.removesuffix("...").rstrip()
        if not any(line.startswith(pattern) if is_begin else line == pattern for line in lines):
            return wanted
    return None


@contextlib.contextmanager
def reserved_port():
    """A port that nobody else is given, and that a listener with SO_REUSEADDR, such as c10d's, may take."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


class Runner:
    """Runs blocks in a folder."""

    def __init__(self, folder, program):
        self.folder, self.program = Path(folder).resolve(), program
        (self.folder / "build").mkdir()
        wrapper = self.folder / "build" / "lmtrain"
        wrapper.write_text(WRAPPER, encoding="utf-8")
        wrapper.chmod(0o755)
        for name in ("scripts", "configs", "data", "src", "README.md"):
            (self.folder / name).symlink_to(ROOT / name)
        shutil.copytree(ROOT / "docs", self.folder / "docs")  # the text of the tutorial, which must not change under a run
        # One thread, since two wait for each other where other programs want the processors too.
        self.environment = {
            **os.environ, "OMP_NUM_THREADS": "1", "PAGES_PROGRAM": program, "LMTRAIN": str(wrapper), "LC_ALL": "C.UTF-8",
            "PATH": f"{wrapper.parent}:{os.environ['PATH']}"}
        self.printed = None
        self.helps = {}

    def page(self, text):
        """Runs a page; PageError names the line of the first block that fails."""
        self.printed = None
        for block in blocks_of(text):
            try:
                self.block(block)
            except PageError as error:
                raise PageError(f"line {block.line}: {error}") from None

    def block(self, block):
        if block.verb == "file":
            path = self.folder / block.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.verb == "run":
            self.run(block)
        elif block.verb == "parse":
            self.parse(block)
        elif block.verb == "python":
            self.python(block)
        elif block.language == "sh":
            raise PageError("a block of commands without a mark that says whether it is run")
        elif block.language == "text" and block.verb != "not":
            if self.printed is None:
                raise PageError("a block of output without commands before it")
            missing = missing_line(block.text, self.printed, self.folder)
            if missing is not None:
                raise PageError(f"this line is not printed (in this place): {missing}\nprinted was:\n" + "\n".join(self.printed))

    def run(self, block):
        environment = {**self.environment, "PAGES_SETTINGS": "\n".join(block.settings)}
        with reserved_port() as port:
            text = block.text.replace(PORT_OF_PAGES, f"MASTER_PORT={port}")
            self.execute(["bash", "-c", "set -euo pipefail\n" + text], environment, block)

    def execute(self, command, environment, block):
        process = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", start_new_session=True)
        clock = threading.Timer(SECONDS_OF_A_BLOCK, lambda: os.killpg(process.pid, signal.SIGKILL))
        clock.start()
        self.printed, waits = [], bool(block.interrupt)
        try:
            for line in process.stdout:
                self.printed.append(line.rstrip("\n"))
                if waits and line.startswith(block.interrupt):
                    os.killpg(process.pid, signal.SIGINT)
                    waits = False
            code = process.wait()
        finally:
            clock.cancel()
            process.stdout.close()
        code = 128 - code if code < 0 else code
        if waits:
            raise PageError(f"no line begins with {block.interrupt!r}:\n" + "\n".join(self.printed))
        if code != block.exit:
            raise PageError(f"exit code {code}, not {block.exit}:\n" + "\n".join(self.printed))

    def python(self, block):
        compile(block.text, "page", "exec")
        self.printed = None
        interpreter = os.environ.get("LMTRAIN_PYTHON")
        if interpreter:
            self.execute([interpreter, "-c", block.text], self.environment, block)

    def parse(self, block):
        """Commands, options and settings of lmtrain in a block that is not run."""
        self.printed = None
        if block.language == "sh":
            done = subprocess.run(["bash", "-n", "-c", block.text], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise PageError(done.stderr)
        for line in block.text.replace("\\\n", " ").splitlines():
            line = re.sub(r"^\w+=(?=/|%|lmtrain)", "", line)  # ExecStart=... of a unit
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = list(lexer)
            for i, word in enumerate(words):
                program = os.path.basename(word)
                if program == "lmtrain":
                    self.parse_command(words[i + 1:])
                elif program == "slurm_train.sh" and words[i + 1:i + 2] != ["--help"]:
                    self.parse_command(["train", *words[i + 1:]])

    def parse_command(self, words):
        if not words or words[0].startswith("-"):
            return
        command = words[0]
        if command not in self.helps:
            done = subprocess.run([self.program, command, "--help"], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise PageError(f"there is no command {command}")
            self.helps[command] = set(re.findall(r"--[a-z-]+", done.stdout))
        settings, configs = [], []
        for before, word in zip(words, words[1:]):
            if re.fullmatch(r"[|&;<>()]+", word):
                break
            if word.startswith("--") and word.split("=")[0] not in self.helps[command]:
                raise PageError(f"lmtrain {command} has no option {word}")
            if before == "--set":
                settings += ["--set", word]
            if word.endswith(".json") and (self.folder / word).is_file():
                configs.append(word)
        config = configs[0] if configs else "configs/tiny.json"
        done = subprocess.run(
            [self.program, "config", "show", config, *settings], cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PageError(done.stderr)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp(prefix="lmtrain-pages-")
        self.addCleanup(shutil.rmtree, folder, True)
        self.runner = Runner(folder, os.environ["LMTRAIN"])


class Pages(Folder):
    def test_each_command_of_the_pages_runs_and_prints_what_they_show(self):
        howto = sorted((ROOT / "docs" / "howto").glob("*.md"))
        self.assertGreater(len(howto), 5)
        for page in [ROOT / "docs" / "tutorial.md", *howto]:
            try:
                self.runner.page(page.read_text(encoding="utf-8"))
            except PageError as error:
                self.fail(f"{page.relative_to(ROOT)}: {error}")

    def test_each_page_is_in_the_table_of_contents(self):
        contents = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
        linked = set(re.findall(r"\]\(([^)#]+\.md)", contents))
        docs = ROOT / "docs"
        for page in [*docs.glob("*.md"), *(docs / "howto").glob("*.md"), *(docs / "formats").glob("*.md")]:
            if page.name != "README.md":
                self.assertIn(str(page.relative_to(docs)), linked)

    def test_the_messages_of_troubleshooting_are_those_of_the_sources(self):
        sources = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.cpp")))
        sources = re.sub(r'"\s*\n\s*"', "", sources).replace('\\"', '"')  # literals that the compiler joins
        page = (ROOT / "docs" / "howto" / "troubleshooting.md").read_text(encoding="utf-8")
        messages = [" ".join(message.split()) for message in re.findall(r"\*\*`(.*?)`\*\*", page, re.DOTALL)]
        self.assertGreaterEqual(len(messages), 20)
        for message in messages:
            for part in filter(None, (part.strip() for part in message.split("..."))):
                self.assertTrue(part in sources, f"docs/howto/troubleshooting.md: {message}")


class Faults(Folder):
    """What is wrong with a page is noticed."""

    def faulty(self, page, message):
        with self.assertRaises(PageError) as caught:
            self.runner.page(page)
        self.assertIn(message, str(caught.exception))

    def block(self, mark, text, language="sh"):
        return f"words\n\n<!-- test: {mark} -->\n```{language}\n{text}\n```\n"

    def shown(self, text):
        return f"\n```text\n{text}\n```\n"

    def test_commands(self):
        self.runner.page(self.block("run", "true"))
        self.runner.page(self.block("run; exit 3", "exit 3"))
        self.faulty(self.block("run", "false\ntrue"), "exit code 1")
        self.faulty(self.block("run; exit 2", "true"), "exit code 0")
        self.faulty("```sh\ntrue\n```\n", "without a mark")
        self.faulty("<!-- test: run -->\nwords\n", "before no block")
        self.faulty(self.block("run", "true", "bash"), "language")
        self.faulty(self.block("run", "lmtrain train nowhere.json"), "nowhere.json")

    def test_output(self):
        page = self.block("run", f"echo 'step 5/10  2m03s left, {self.runner.folder}/runs'; echo other; echo last")
        self.runner.page(page + self.shown("step 7/245  45s left, /home/me/lmtrain/runs\n...\nlast"))
        self.runner.page(page + self.shown("oth..."))
        self.faulty(page + self.shown("last\nother"), "not printed (in this place): other")
        self.faulty(page + self.shown("step 5/10  2m03s gone, /home/me/lmtrain/runs"), "not printed")
        self.faulty(page + self.shown("oth"), "not printed")
        self.faulty(self.shown("lines"), "without commands")
        self.runner.page("<!-- test: not compared; others -->" + self.shown("lines"))

    def test_commands_that_are_not_run(self):
        self.runner.page(self.block("parse; needs a GPU", "torchrun --no-python lmtrain train own.json --set device=cuda && next --x"))
        self.faulty(self.block("parse; needs a GPU", "lmtrain train own.json --contine"), "no option --contine")
        self.faulty(self.block("parse; needs a GPU", "lmtrain trian own.json"), "no command trian")
        self.faulty(self.block("parse; needs a GPU", "lmtrain train own.json --set batch.tokns=4K"), "batch.tokns")
        self.faulty(self.block("parse; needs a GPU", "lmtrain train own.json --set compile=fast"), "compile")
        self.faulty(self.block("parse; needs Slurm", "sbatch scripts/slurm_train.sh own.json --run_dir a"), "no option")
        self.faulty(self.block("parse; needs Slurm", "if lmtrain train own.json"), "syntax")
        self.faulty(self.block("parse; needs systemd", "ExecStart=/opt/bin/lmtrain train a.json --contineu", "ini"), "no option")

    def test_settings_files_and_interrupts(self):
        self.runner.page(self.block("file a/b.txt", "content", "text") + self.block("run", "cat a/b.txt") + self.shown("content"))
        self.faulty(self.block("run; set batch.tokns=1", "lmtrain plan configs/tiny.json"), "exit code 2")
        self.runner.page(self.block("run; interrupt at ready; exit 130", "echo ready; sleep 60"))
        self.faulty(self.block("run; interrupt at ready", "true"), "no line begins")


if __name__ == "__main__":
    unittest.main()
