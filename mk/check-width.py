#!/usr/bin/env python3
"""Prints each line of a tracked text source that is wider than 100 columns.

Not looked at: patches and what fuzzers are fed, tables in documents, and lines that are wide
because of a URL.
"""
import re
import subprocess
import sys

WIDTH = 100
SOURCE = re.compile(
    r"(\.(c|h|inc|cpp|hpp|py|sh|mk|md|proto|map|in|[1-8])|/?Makefile|^\.ci/\w[\w-]*)$")
SKIPPED = re.compile(r"^tests/(fuzz/corpus|mutants/.*\.patch|abi/abi\.tsv)")

faults = 0
for path in subprocess.check_output(["git", "ls-files", "-z"], text=True).split("\0"):
    if not SOURCE.search(path) or SKIPPED.match(path):
        continue
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n").expandtabs(4 if path.endswith((".mk", "Makefile")) else 8)
            if len(line) <= WIDTH or "://" in line or path.endswith(".md") and line.startswith("|"):
                continue
            print(f"{path}:{number}: {len(line)} columns")
            faults += 1
sys.exit(1 if faults else 0)
