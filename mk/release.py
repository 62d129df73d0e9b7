#!/usr/bin/env python3
"""The releases, as CHANGELOG.md names them: a section each, the latest first, whose heading is

    ## 0.9.0, commit 1cf363f5a2b7

The commit is the one that was released. What is not released yet is in the section "Unreleased",
above them.

usage: release.py           prints version and commit of the last release; fails if there is none
       release.py --check   fails with a line for each fault
"""
import os
import re
import subprocess
import sys

RELEASE = re.compile(r"^## (\d+)\.(\d+)\.(\d+), commit ([0-9a-f]{7,40})$")


def sections():
    with open("CHANGELOG.md", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file if line.startswith("## ")]


def releases():
    found = (RELEASE.match(line) for line in sections())
    return [(tuple(int(n) for n in m.groups()[:3]), m.group(4)) for m in found if m]


def is_in_history(commit):
    """Of what is checked out. With no history (an exported tree), or a part of it only, that cannot
    be told."""
    if not os.path.exists(".git") or os.path.exists(".git/shallow"):
        return True
    done = subprocess.run(["git", "merge-base", "--is-ancestor", commit, "HEAD"],
                          capture_output=True, check=False)
    return done.returncode == 0


def faults():
    lines = sections()
    if lines[:1] != ["## Unreleased"]:
        yield 'the first section is not "## Unreleased"'
    for line in lines[1:]:
        if not RELEASE.match(line):
            yield f'"{line}" is no release: "## 1.2.3, commit 0123456789ab"'
    known = releases()
    for later, earlier in zip(known, known[1:]):
        if later[0] <= earlier[0]:
            yield f"release {later[0]} stands above {earlier[0]}"
    for version, commit in known:
        if not is_in_history(commit):
            yield f"release {version}: commit {commit} is not in the history"


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    if sys.argv[1:] == ["--check"]:
        found = list(faults())
        for fault in found:
            print(f"CHANGELOG.md: {fault}")
        return len(found) > 0
    known = releases()
    if not known:
        return 1
    version, commit = known[0]
    print(".".join(str(n) for n in version), commit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
