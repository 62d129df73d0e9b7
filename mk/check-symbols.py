#!/usr/bin/env python3
"""Checks the objects against the table of rooms in docs/architecture.md (the block ```rooms), as
mk/check-rooms.py checks the sources: a room calls what it may include.

usage: check-symbols.py [--figures] BUILD OBJECT...
           fails with a line for each fault; --figures also prints what was measured

Checked: what an object takes from another one is defined in a room that its own may include, in
the public interface (include/), or named by a contract (the block ```contracts): a header whose
functions are defined in a room above it. A header declares no function that is defined in a room
which its own may not include, but for contracts. Files that take from each other in a circle are
at most as many as CIRCLE_MAX says. What daemon/base names is no struct of a room above it. Each
member of struct upcalls (client/core/upcall.h) is filled in.
"""
import glob
import importlib.util
import os
import re
import subprocess
import sys

CIRCLE_MAX = {"client": 10, "daemon": 38, "proto": 1}
# Room: what it may not name, by a forward declaration either, is defined in rooms above it.
BLIND = "daemon/base"
UPCALLS, UPCALLS_TABLE = "client/core/upcall.h", "client/parts.c"
PUBLIC = re.compile(r"acl[a-z]*[A-Z]\w*$")  # include/: to every room of client/
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
PROTOTYPE = re.compile(r"^(?:\w[\w \t]*[ \t]\**)(\w+)\([^;{}]*\)(?:\s*__attribute__\(\(.*?\)\))?;",
                       re.M)

_spec = importlib.util.spec_from_file_location(
    "check_rooms", os.path.join(os.path.dirname(__file__), "check-rooms.py"))
rooms = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rooms)


def bare(path):
    return COMMENT.sub(" ", rooms.read(path))


def read_objects(build, objects):
    """(symbol -> the files that define it, file -> the symbols that it takes from others)"""
    defined, taken = {}, {}
    for path in objects:
        file = re.sub(r"(?:\.pic)?\.o$", "", os.path.relpath(path, build))
        if file.endswith(".pb-c"):
            continue  # generated
        out = subprocess.run(["nm", "-P", path], check=True, capture_output=True, text=True).stdout
        for line in out.splitlines():
            name, kind = line.split()[:2]
            if kind in "Uw":
                taken.setdefault(file, set()).add(name)
            elif kind.isupper():
                defined.setdefault(name, set()).add(file)
    return defined, taken


def contracts():
    """header -> (the room that defines what it declares, the names that it declares)"""
    found = {}
    for line in rooms.block("contracts"):
        header, _, room = line.partition(":")
        if not header.strip():
            continue
        found[header.strip()] = room.strip(), set(PROTOTYPE.findall(bare(header.strip())))
    return found


def is_allowed(file, target, allowed):
    room = allowed.get(os.path.dirname(file), [])
    return (os.path.dirname(target) in room or target in room
            or target.startswith("proto/") and not file.startswith("proto/"))


def call_faults(defined, taken, allowed, exempt):
    for file in sorted(taken):
        for name in sorted(taken[file]):
            targets = {t for t in defined.get(name, ())
                       if t.startswith((file.split("/")[0], "proto/"))}
            if (not targets or file in targets
                    or any(is_allowed(file, target, allowed) for target in targets)
                    or file.startswith("client/") and PUBLIC.match(name)):
                continue
            if any(name in names and is_allowed(file, os.path.splitext(header)[0], allowed)
                   for header, (_, names) in exempt.items()):
                continue
            yield f"{file}.c: may not use {name} of {' '.join(sorted(targets))}.c"


def prototype_faults(defined, allowed, exempt):
    for top in ("proto", "daemon", "client"):
        for header in sorted(glob.glob(f"{top}/**/*.h", recursive=True)):
            room = os.path.dirname(header)
            for name in PROTOTYPE.findall(bare(header)):
                targets = {t for t in defined.get(name, ()) if t.startswith(top)}
                below = [t for t in targets if is_allowed(header, t, allowed)]
                contract = exempt.get(header, (None, ()))
                if targets and not below and not all(
                        os.path.dirname(t) == contract[0] for t in targets):
                    yield (f"{header}: declares {name}, which {' '.join(sorted(targets))}.c "
                           f"defines, above {room}")


def blind_faults(allowed):
    """Structs that BLIND names, although they are defined in rooms above it only."""
    above, here = {}, set()
    for path in rooms.product_files():
        if not path.startswith(("daemon/", "proto/")):
            continue
        for name in re.findall(r"\bstruct (\w+) \{", rooms.read(path)):
            if os.path.dirname(path) in allowed[BLIND] or path.startswith("proto/"):
                here.add(name)
            else:
                above.setdefault(name, path)
    for path in sorted(glob.glob(f"{BLIND}/*.[ch]")):
        text = bare(path)
        for name in sorted(set(re.findall(r"\bstruct (\w+)\b", text)) - here):
            if name in above and not (name == "event" and "<event2/" in text):
                yield f"{path}: names struct {name}, which {above[name]} defines, above {BLIND}"


def upcall_faults():
    body = re.search(r"^struct upcalls \{\n(.*?)^\};", bare(UPCALLS), re.M | re.S).group(1)
    members = set(re.findall(r"\(\*(\w+)\)\(", body)) | {"parts"}
    for name in sorted(members - set(re.findall(r"^    \.(\w+) = ", bare(UPCALLS_TABLE), re.M))):
        yield f"{UPCALLS_TABLE}: does not fill in {name} of struct upcalls"


def main():
    figures = "--figures" in sys.argv
    args = [a for a in sys.argv[1:] if a != "--figures"]
    allowed = rooms.rooms_of_table()
    exempt = contracts()
    defined, taken = read_objects(args[0], args[1:])
    faults = list(call_faults(defined, taken, allowed, exempt))
    faults += prototype_faults(defined, allowed, exempt)
    faults += blind_faults(allowed)
    faults += upcall_faults()

    for top, most in CIRCLE_MAX.items():
        graph = {file: {t for name in names if not PUBLIC.match(name)
                        for t in defined.get(name, ()) if t.startswith(top) and t != file}
                 for file, names in taken.items() if file.startswith(top)}
        circle = rooms.largest_circle(graph)
        if figures:
            print(f"{top}: the largest circle by calls has {len(circle)} of {len(graph)} files")
        if len(circle) > most:
            faults.append(f"{top}: {len(circle)} files call each other in a circle, {most} may: "
                          + " ".join(sorted(circle)))
    for fault in faults:
        print(fault)
    return 1 if faults else 0


sys.setrecursionlimit(10000)
sys.exit(main())
