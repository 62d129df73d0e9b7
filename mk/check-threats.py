#!/usr/bin/env python3
"""Checks the tests that the tables of docs/security.md name.

In a table whose last column is "test", each row names one test or more in backticks: a file below
tests/ without test_ and .c, and behind a colon a test of it, or how the name of a row of its table
begins. Prints a line for each that does not exist, and for each row without a test.
"""
import glob
import re
import sys

DOCUMENT = "docs/security.md"
NAMED = re.compile(r"`([^`]+)`")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def rows():
    """(number of the line, last cell) of each row of a table whose last column is "test"."""
    within = False
    for number, line in enumerate(read(DOCUMENT).splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            within = False
        elif cells[-1] == "test":
            within = True
        elif within and not set(cells[-1]) <= set("-:"):
            yield number, cells[-1]


def fault(name):
    """What is wrong with the name of a test; None: nothing."""
    stem, _, test = name.partition(":")
    files = glob.glob(f"tests/*/test_{stem}.c") + glob.glob(f"tests/*/{stem}.c")
    if not files:
        return f"there is no test_{stem}.c below tests/"
    words = re.compile(rf"(?<!\w){re.escape(test.strip())}(?!\w)")
    if not any(words.search(read(path)) for path in files):
        return f"there is no \"{test.strip()}\" in {', '.join(files)}"
    return None


faults = []
count = 0
for line, cell in rows():
    names = NAMED.findall(cell)
    count += len(names)
    if not names:
        faults.append(f"{DOCUMENT}:{line}: the row names no test")
    faults += [f"{DOCUMENT}:{line}: {why}" for why in map(fault, names) if why]
if count == 0:
    faults.append(f"{DOCUMENT}: no table names a test")
print("\n".join(faults), end="\n" if faults else "")
sys.exit(1 if faults else 0)
