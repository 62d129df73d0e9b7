#!/usr/bin/env python3
"""Checks what README.md, CONTRIBUTING.md and docs/*.md refer to in the tree.

Prints a line for each fault: a relative link to no file, an anchor that names no heading, and a
path in backticks (`daemon/main.c`, `tests/e2e/`, also with * or {a,b}) that does not exist.
"""
import glob
import os
import re
import sys

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
TOPS = ("proto", "daemon", "client", "include", "tests", "docs", "mk", "examples", "systemd", ".ci")
PATH = re.compile(r"(?:%s)/[\w.*{},/+-]*\Z" % "|".join(map(re.escape, TOPS)))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def anchors(text):
    """The names that a forge gives to the headings of a document."""
    found = {}
    for heading in re.findall(r"^#+\s+(.*?)\s*#*$", FENCE.sub("", text), re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
        if found[name]:
            found[f"{name}-{found[name]}"] = 0
    return set(found) | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def alternatives(path):
    """a{b,c} -> ab, ac"""
    brace = re.search(r"\{([^{}]*)\}", path)
    if not brace:
        return [path]
    return [full for part in brace.group(1).split(",")
            for full in alternatives(path[:brace.start()] + part + path[brace.end():])]


def exists(path):
    """A file, or what is built from one: tests/e2e/test_x of tests/e2e/test_x.c."""
    return all(glob.glob(one) or glob.glob(one + ".*") for one in alternatives(path))


def check(document):
    text = read(document)
    for match in LINK.finditer(FENCE.sub("", text)):
        target, _, anchor = match.group(1).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        path = os.path.normpath(os.path.join(os.path.dirname(document), target)) if target \
            else document
        if not os.path.exists(path):
            yield f"{document}: there is no {target}"
        elif anchor and path.endswith(".md") and anchor not in anchors(read(path)):
            yield f"{document}: {path} has no heading #{anchor}"
    for match in CODE.finditer(FENCE.sub("", text)):
        for word in match.group(1).split():
            if PATH.match(word) and not exists(word):
                yield f"{document}: there is no {word}"


faults = [fault for document in ["README.md", "CONTRIBUTING.md", *sorted(glob.glob("docs/*.md"))]
          if os.path.exists(document) for fault in check(document)]
print("\n".join(faults), end="\n" if faults else "")
sys.exit(1 if faults else 0)
