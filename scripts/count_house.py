#!/usr/bin/env python3
"""Counts the parts of the source tree, so that a change of its structure can be compared with what was before. Prints a Markdown table.

    scripts/count_house.py                    this tree
    scripts/count_house.py BEFORE [AFTER]     two trees side by side: folders, or commits of this repository

A room is a folder of src that holds sources. A header has one user when at most one file of src besides its own source includes it; the next
row leaves out those that a test or a benchmark includes. Pronoun chains are the lines of headers that say "those of", "that of", "none where", "as many" or "of which". Standard library only.
"""

import argparse
import io
import os
import re
import subprocess
import tarfile
import tempfile

REPO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
SOURCES = (".h", ".cpp", ".cu", ".cuh", ".js", ".css")
# A room of src/rooms.cmake is a library, but cli, which is the program; older trees list their libraries.
LIBRARY = re.compile(r"^(?:\s*lmtrain_(?:torch_)?library\(\s*(?!kernels_)[a-z_]+(?! SOURCES)|lmtrain_room\((?!cli\b))", re.MULTILINE)
CHAINS = re.compile(r"those of|that of|none where|as many|of which", re.IGNORECASE)


def files_below(folder, endings):
    return sorted(os.path.join(place, name) for place, _, names in os.walk(folder) for name in names if name.endswith(endings))


def lines_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()


def headers_with_one_user(src, sources):
    """The headers that at most one file besides their own source includes."""
    users = {}
    for path in sources:
        for line in lines_of(path):
            if match := re.match(r'\s*#include "([^"]+)"', line):
                users.setdefault(match[1], set()).add(os.path.relpath(path, src))
    found = []
    for path in sources:
        name = os.path.relpath(path, src)
        stem, ending = os.path.splitext(name)
        if ending in (".h", ".cuh"):
            others = {user for user in users.get(name, ()) if os.path.splitext(user)[0] != stem}
            if len(others) <= 1:
                found.append(name)
    return found


def included_by(folder):
    """The headers that the sources below a folder include."""
    found = set()
    for path in files_below(folder, SOURCES):
        found.update(match[1] for line in lines_of(path) if (match := re.match(r'\s*#include "([^"]+)"', line)))
    return found


def count(root):
    src, docs = os.path.join(root, "src"), os.path.join(root, "docs")
    sources = files_below(src, SOURCES)
    headers = [path for path in sources if path.endswith((".h", ".cuh"))]
    cmake = ["\n".join(lines_of(path)) for path in files_below(src, ("CMakeLists.txt", "rooms.cmake"))]
    pages = files_below(docs, (".md",))
    one_user = headers_with_one_user(src, sources)
    tested = included_by(os.path.join(root, "tests")) | included_by(os.path.join(root, "bench"))
    return {
        "rooms": len({os.path.dirname(path) for path in sources}),
        "libraries": sum(len(LIBRARY.findall(text)) for text in cmake),
        "files in src": len(files_below(src, "")),
        "lines in src": sum(len(lines_of(path)) for path in sources),
        "headers with one user": len(one_user),
        "... that no test needs": len(set(one_user) - tested),
        "pages of docs": len(pages),
        "lines of docs": sum(len(lines_of(path)) for path in pages),
        "pronoun chains in headers": sum(bool(CHAINS.search(line)) for path in headers for line in lines_of(path)),
    }


def counts_of(tree):
    if os.path.isdir(tree):
        return count(tree)
    archive = subprocess.run(["git", "-C", REPO, "archive", tree, "src", "docs", "tests", "bench"], stdout=subprocess.PIPE, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder)
        return count(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", metavar="TREE", help="folder or commit; default: this tree")
    parser.add_argument("--headers", action="store_true", help="name the headers with one user of the (first) tree, which must be a folder")
    arguments = parser.parse_args()
    trees = arguments.trees or [REPO]
    if arguments.headers:
        src = os.path.join(trees[0], "src")
        print("\n".join(headers_with_one_user(src, files_below(src, SOURCES))))
        return
    counted = [counts_of(tree) for tree in trees]
    names = arguments.trees or ["this tree"]
    print("| | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for row in counted[0]:
        print(f"| {row} | " + " | ".join(str(counts[row]) for counts in counted) + " |")


if __name__ == "__main__":
    main()
