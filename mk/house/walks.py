#!/usr/bin/env python3
"""How often the walk of a task, or of a request, through the code returns to a file it had left.

usage: walks.py [--show WALK] [DIR]   DIR: a tree, which is built in DIR/build-walks

A walk is all that client and npud do from the call of the program until npud is idle again: their
functions, in the order in which they are entered for the first time, as a reader meets them. It
goes to another file with a function of that file, and returns if it was there before. Functions
in headers are words of a language to some readers, and places to go to for others: both counts.
--show prints the way of the walk whose name contains WALK.
"""
import glob
import os
import re
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = "build-walks"
FLAGS = "CFLAGS=-O0 -g1 -finstrument-functions"


def build(work):
    subprocess.run(["make", "-s", "BUILD=" + BUILD, FLAGS, "PYTHON=no", "programs"], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", HERE + "/walk_log.c", "-o",
                    work + "/walk_log.so"], check=True)
    subprocess.run(["gcc", "-Iinclude", HERE + "/walk_program.c", "-o", work + "/walk_program",
                    "-L" + BUILD, "-laclclient", "-Wl,-rpath," + os.path.abspath(BUILD)],
                   check=True)


def run(work):
    """The walks: name, begin and end."""
    env = dict(os.environ, WALK_DIR=work, LD_PRELOAD=work + "/walk_log.so")
    out = subprocess.run([BUILD + "/npu-run", "--", work + "/walk_program"], env=env, check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    return [(name, int(begun), int(ended))
            for name, begun, ended in (line.split("\t") for line in out.splitlines())]


class Process:
    def __init__(self, log):
        with open(log, "rb") as file:
            data = file.read()
        n = min(struct.unpack_from("<Q", data)[0], (len(data) - 8) // 16)
        self.entries = [struct.unpack_from("<QQ", data, 8 + 16 * i) for i in range(n)]
        self.maps, self.base = [], {}
        for line in open(log[:-3] + "maps", encoding="utf-8"):
            field = line.split()
            if len(field) == 6 and "/" + BUILD + "/" in field[5]:
                first, last = (int(x, 16) for x in field[0].split("-"))
                self.base.setdefault(field[5], first)
                self.maps.append((first, last, field[5]))

    def name(self, addresses):
        """Of each address (file, function)."""
        names = {}
        for path, base in self.base.items():
            here = [a for a in addresses
                    if any(f <= a < l and p == path for f, l, p in self.maps)]
            command = ["addr2line", "-f", "-e", path] + ["%x" % (a - base) for a in here]
            out = subprocess.run(command, stdout=subprocess.PIPE, text=True,
                                 check=True).stdout.splitlines()
            for i, address in enumerate(here if len(out) >= 2 * len(here) else []):
                file = os.path.relpath(out[2 * i + 1].split(":")[0])
                names[address] = (file, out[2 * i])
        return names


def walk_of(processes, begun, ended):
    entries = []
    for p in processes:
        inside = [e for e in p.entries if begun <= e[0] <= ended]
        names = p.name({e[1] for e in inside})
        entries += [(ns, names[f]) for ns, f in inside if f in names]
    return list(dict.fromkeys(name for _, name in sorted(entries)))


def returns(files):
    seen, last, n = set(), None, 0
    for file in files:
        n += file != last and file in seen
        seen.add(file)
        last = file
    return n, len(seen)


def show(walk):
    last = None
    for file, function in walk:
        if file != last:
            print("\n    %-40s" % file, end="")
        print(" " + function, end="")
        last = file
    print()


def main():
    args = sys.argv[1:]
    wanted = args.pop(args.index("--show") + 1) if "--show" in args else None
    dirs = [a for a in args if a != "--show"]
    if dirs:
        os.chdir(dirs[0])
    with tempfile.TemporaryDirectory() as work:
        build(work)
        walks = run(work)
        processes = [Process(log) for log in glob.glob(work + "/*.log")]
    print("%-28s %9s %7s %6s   %7s %6s" % ("", "functions", "returns", "files", "in *.c", "files"))
    for name, begun, ended in walks:
        walk = walk_of(processes, begun, ended)
        files = [file for file, _ in walk]
        print("%-28s %9d %7d %6d   %7d %6d" % ((name, len(walk)) + returns(files)
                                               + returns([f for f in files if f.endswith(".c")])))
        if wanted and re.search(re.escape(wanted), name):
            show(walk)


main()
