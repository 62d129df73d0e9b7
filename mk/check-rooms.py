#!/usr/bin/env python3
"""Checks the tree against the table of rooms in docs/architecture.md (the block ```rooms), and the
tests against that in docs/testing.md (the block ```test-rooms).

usage: check-rooms.py            fails with a line for each fault
       check-rooms.py --figures  prints what the tree measures

Checked: includes go along the table; include cycles have at most CYCLE_MAX files; no .c or .h of
the product is longer than LINES_MAX; a header has two includers, or is the contract of a module (a
.c of its name) or in proto/ or daemon/kept/; a file name is in daemon/ and in client/ only if both
are halves of one thing (the block ```halves); only the files of TOUCHES reach device memory; the
library lifts each descriptor that it makes (proto/util/lift_fd.h).
"""
import os
import re
import sys

CYCLE_MAX = 3
LINES_MAX = 900
TABLE = "docs/architecture.md"
TEST_TABLE = "docs/testing.md"
OPEN = ("proto/", "include/", "acl/")  # to every room of daemon/ and client/
# Where device memory may be reached: a pattern, the folders in which it is searched for, the one
# file that may have it, and what is wrong elsewhere.
TOUCHES = (
    (r"\b(?:mem(?:cpy|move|set)|copy_large)\([^;]*?(?:->|\.)address\b"
     r"|[=(]\s*\*\s*\w+(?:->|\.)address\b",
     ("client/",), "client/memory/direct.c", "reads or writes where a place is"),
    (r"\bstruct backend_memory\s*\{", ("daemon/memory/", "daemon/engine/", "daemon/control/"), "",
     "defines struct backend_memory"),
    (r"\bmmap\((?!.*(?:ring_fd|page_fd))",
     ("daemon/memory/", "daemon/engine/", "daemon/control/", "daemon/backend/"),
     "daemon/backend/mapped.c", "maps memory"),
)
# What makes a descriptor, without lift_fd() around it; not "eventfd(2)" in a comment.
UNLIFTED = re.compile(r"(?<!lift_fd\()\b(?:open|openat|fopen|opendir|socket|socketpair|accept4?|"
                      r"dup|memfd_create|timerfd_create|eventfd|epoll_create1?|signalfd|"
                      r"pidfd_open|inotify_init1?|pipe2?|mkostemp)\((?!2\))|F_DUPFD_CLOEXEC, 0")
# Tools occupy 0 to 2.
UNLIFTED_EXCEPT = ("client/tools/",)
# Headers that programs include, like those of include/: no code of npud's.
FOR_PROGRAMS = "client/toolkit/tikcfw"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def block(name, table=TABLE):
    found = re.search(r"^```%s\n(.*?)^```" % name, read(table), re.M | re.S)
    return found.group(1).splitlines() if found else []


def rooms_of_table():
    """room -> all rooms (or single modules) that it may include, itself first."""
    direct = {}
    for line in block("rooms"):
        if line.strip():
            room, _, below = line.partition(":")
            direct[room.strip()] = below.split()

    def closure(room, seen):
        for below in direct.get(room, []):
            if below not in seen:
                seen.append(below)
                closure(below, seen)
        return seen

    return {room: closure(room, [room]) for room in direct}


def test_faults():
    """Includes of tests that go against their table, and of .c files."""
    allowed = {}
    for line in block("test-rooms", TEST_TABLE):
        room, _, below = line.partition(":")
        allowed[room.strip()] = below.split()
    for folder, _, names in sorted(os.walk("tests")):
        for name in sorted(names):
            if not name.endswith((".c", ".h", ".cpp")):
                continue
            path = os.path.join(folder, name)
            if folder not in allowed:
                yield f"{path}: the table in {TEST_TABLE} has no room {folder}"
                continue
            for target in INCLUDE.findall(read(path)):
                if target.endswith(".c"):
                    yield f"{path}: may not include {target}, a file that is compiled"
                elif "/" in target and not any(
                        target.startswith((room + "/", room + "."))
                        for room in [folder, "acl", *allowed[folder]]):
                    yield f"{path}: may not include {target}"


def product_files():
    """All sources but the headers of the toolkit tree, which programs with kernels include."""
    for top in ("proto", "daemon", "client"):
        for folder, _, names in sorted(os.walk(top)):
            if folder.startswith(FOR_PROGRAMS):
                continue
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    yield os.path.join(folder, name)


def touch_faults(files):
    """Device memory that is reached by another file than the one that may."""
    for pattern, folders, allowed, what in TOUCHES:
        for path in files:
            if path.startswith(folders) and path != allowed and re.search(pattern, read(path)):
                yield f"{path}: {what}: only {allowed} may do so"


def lift_faults(files):
    """A descriptor of the library that may become one of 0 to 2."""
    for path in files:
        if path.startswith("client/") and not path.startswith(UNLIFTED_EXCEPT):
            for found in UNLIFTED.finditer(read(path)):
                yield f"{path}: {found.group(0)}...: a descriptor that is not lifted by lift_fd()"


def module(path):
    return os.path.splitext(path)[0]


def largest_circle(graph):
    """The largest set of nodes that reach each other (Tarjan). graph: node -> nodes."""
    index, low, stack, best = {}, {}, [], []

    def visit(node):
        nonlocal best
        index[node] = low[node] = len(index)
        stack.append(node)
        for below in graph.get(node, ()):
            if below not in index:
                visit(below)
                low[node] = min(low[node], low[below])
            elif below in stack:
                low[node] = min(low[node], index[below])
        if low[node] == index[node]:
            part = []
            while True:
                part.append(stack.pop())
                if part[-1] == node:
                    break
            best = max(best, part, key=len)

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return best


def largest_cycle(files, includes):
    """The largest set of modules that include each other in a circle."""
    graph = {}
    for path in files:
        graph.setdefault(module(path), set()).update(
            module(i) for i in includes[path] if i in includes and module(i) != module(path))
    return largest_circle(graph)


def main():
    sys.setrecursionlimit(10000)
    allowed = rooms_of_table()
    files = list(product_files())
    includes = {path: INCLUDE.findall(read(path)) for path in files}
    faults = []
    upward = 0
    for path in files:
        room = os.path.dirname(path)
        if room not in allowed:
            faults.append(f"{path}: the table in {TABLE} has no room {room}")
            continue
        for target in includes[path]:
            if target.startswith(OPEN) and not room.startswith("proto"):
                continue
            if target not in includes:
                continue  # generated, or of the system
            if os.path.dirname(target) in allowed[room] or module(target) in allowed[room]:
                continue
            upward += 1
            faults.append(f"{path}: may not include {target}")

    cycles = {top: largest_cycle([f for f in files if f.startswith(top)], includes)
              for top in ("daemon", "client", "proto")}
    for top, cycle in cycles.items():
        if len(cycle) > CYCLE_MAX:
            faults.append(f"{top}: {len(cycle)} modules include each other in a circle: "
                          + " ".join(sorted(cycle)))

    lines = {path: read(path).count("\n") for path in files}
    for path in files:
        if lines[path] > LINES_MAX:
            faults.append(f"{path}: {lines[path]} lines, {LINES_MAX} are allowed")

    tested = set()
    for folder, _, names in os.walk("tests"):
        for name in names:
            if name.endswith((".c", ".h")):
                tested.update(INCLUDE.findall(read(os.path.join(folder, name))))
    for path in files:
        # What both sides must agree on is open: client and npud, or an npud and the next one.
        if (path.endswith(".h") and not path.startswith(("proto/", "daemon/kept/"))
                and path not in tested):
            users = [f for f in files if path in includes[f]]
            others = [f for f in users if module(f) != module(path)]
            if len(users) < 2 or not others:
                faults.append(f"{path}: has a single includer ({' '.join(users)}): goes into it")

    faults += touch_faults(files)
    faults += lift_faults(files)
    faults += test_faults()

    halves = set(" ".join(block("halves")).split())
    names = {top: {os.path.basename(module(f)) for f in files if f.startswith(top)}
             for top in ("daemon", "client")}
    for name in sorted((names["daemon"] & names["client"]) - halves):
        faults.append(f"{name}: in daemon/ and in client/, and not in the block ```halves of "
                      + TABLE)

    if "--figures" in sys.argv:
        by_room = {}
        for path in files:
            n, total = by_room.get(os.path.dirname(path), (0, 0))
            by_room[os.path.dirname(path)] = n + 1, total + lines[path]
        for room, (n, total) in sorted(by_room.items()):
            print(f"{room:24} {n:4} files {total:6} lines")
        print(f"{'all':24} {len(files):4} files {sum(lines.values()):6} lines")
        print(f"upward includes: {upward}; largest cycle: "
              + ", ".join(f"{top} {len(c)}" for top, c in cycles.items())
              + f"; longest file: {max(lines.values())}")
        return 0
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
