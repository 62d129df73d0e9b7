#!/usr/bin/python3
"""
What people and type checkers are told about the module acl: docstrings, as a header for module.c,
and stubs, as the package acl-stubs. All of it is said once elsewhere: functions and their usage in
functions.inc, structs in dict_layout.c, units and errors in the comments of include/acl, and what
the library does not export in client/abi/unsupported.inc.
usage: describe.py HEADER STUBS_FOLDER (from the root of the tree)
"""
import glob
import os
import re
import sys
import textwrap

MODULES = {"top": "acl", "rt": "acl.rt", "tdt": "acl.tdt", "util": "acl.util", "npud": "acl.npud"}

# Letters of invoke.h. What functions take for a number has __index__; they give ints.
DEFAULTS = {"s": "''", "F": "None"}
NUMBERS = "list[int] | list[SupportsIndex]"
TAKES = {"P": "SupportsIndex", "i": "SupportsIndex", "u": "SupportsIndex", "m": "SupportsIndex",
         "k": "SupportsIndex", "s": "str", "b": "bytes", "e": "bytes", "O": "Any",
         "l": NUMBERS, "h": NUMBERS, "n": NUMBERS,
         "f": "Callable[..., Any]", "F": "Callable[..., Any] | None"}
GIVES = {"P": "int", "i": "int", "u": "int", "q": "int", "f": "float", "t": "str | None",
         "k": "str", "e": "bytes", "y": "bytes", "o": "Any"}
# Objects that functions give, for which there is one letter.
OBJECTS = {"get_queue_attr": "str | int", "get_dims_from_item": "list[int]",
           "ptr_to_bytes": "bytes", "view": "memoryview",
           "event_future": "Future[int]"}

OWN = '''\
class Error(RuntimeError):
    """A call of acl.npud.own failed."""
    ret: int

class own:
    def __init__(self, function: Callable[..., Any], /, *args: Any) -> None: ...
    def __enter__(self) -> own: ...
    def __exit__(self, *args: object) -> None: ...
    def __index__(self) -> int: ...
    def __int__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def close(self) -> None: ...
    def detach(self) -> int: ...
'''


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def text_of(literals):
    """C string literals that stand one after the other."""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals)).replace('\\"', '"')


# --- what the tables say ---

class Function:
    def __init__(self, row):
        self.module, self.name, self.takes, self.gives, self.flags, self.c_name, usage = row
        self.usage = text_of(usage)
        names = re.search(r"\((.*?)\)", self.usage).group(1)
        self.arguments = [a.strip(" []") for a in names.split(",") if a.strip()]
        letters = self.takes.replace("|", "")
        if len(letters) != len(self.arguments):
            sys.exit(f"describe.py: {self.path()}: {self.usage} has not the arguments of "
                     f"{self.takes!r}")

    def path(self):
        return f"{MODULES[self.module]}.{self.name}"

    def parameters(self, type_of):
        """As Python writes them; type_of: a letter, to ': type' or nothing."""
        required = self.takes.split("|")[0]
        letters = self.takes.replace("|", "")
        given = [name + type_of(letter) + (f" = {DEFAULTS[letter]}" if i >= len(required) else "")
                 for i, (name, letter) in enumerate(zip(self.arguments, letters))]
        return ", ".join(given + ["/"] if given else [])


def functions():
    row = re.compile(r'^ROW\((\w+), (\w+), "([^"]*)", "([^"]*)", ([\w| ]+),\s+(\w+),(.*?)\)$',
                     re.DOTALL | re.MULTILINE)
    missing = set(re.findall(r"^(?:STATUS|DESTRUCTOR)\((\w+)|^VALUE\([^,]+, [^,]+, (\w+)",
                             read("client/abi/unsupported.inc"), re.MULTILINE))
    missing = {name for pair in missing for name in pair}
    table = read("client/python/functions.inc")
    found = []
    for match in row.finditer(table):
        usage = re.search(r'((?:"(?:[^"\\]|\\.)*"\s*)+)$', match.group(7)).group(1)
        found.append(Function(match.groups()[:6] + (usage,)))
    if len(found) != len(re.findall(r"^ROW\(", table, re.MULTILINE)):
        sys.exit("describe.py: a row of functions.inc is not understood")
    return [f for f in found if f.c_name not in missing]


def structs():
    """{name: {field: type}}, and {letter: type} for those that functions take or give."""
    source = read("client/python/dict_layout.c")
    tables = dict(re.findall(r"static const struct field (\w+)\[\] = \{(.*?)END,", source,
                             re.DOTALL))
    c_names, fields = {}, {}
    for table, body in tables.items():
        c_names[table] = re.search(r"\((\w+),", body).group(1)
    for table, body in tables.items():
        of = fields.setdefault(c_names[table], {})
        for kind, name, third, alias in re.findall(
                r'(FIELD|NAMED_INNER|NAMED|INNER)\(\w+, ([\w.]+), (\w+)(?:,\s+"(\w+)")?\)', body):
            of[alias or name] = (c_names[third] if kind.endswith("INNER") else
                                 {"TEXT": "str", "VALUE": "int | bytes"}.get(third, "int"))
    letters = {}
    for letter, entry in re.findall(r"^    \['(\w)'\] = (.*?)(?=^    \[|^\})", source,
                                    re.DOTALL | re.MULTILINE):
        table = re.search(r"MANY\(\w+, (\w+)|ONE\(\w+, (\w+)|\.fields = (\w+)", entry)
        name = c_names[next(filter(None, table.groups()))]
        many = entry.startswith("MANY") or ".many = true" in entry
        letters[letter] = (f"list[{name}]" if many else name) + (
            " | None" if ".none = true" in entry else "")
    return fields, letters


# --- docstrings ---

def comments():
    """{C function: the last comment above it in the headers, and the function before it}."""
    token = re.compile(r"/\*(.*?)\*/|^ACL_FUNC_VISIBILITY\s[^(]*?(\w+)\(",
                       re.DOTALL | re.MULTILINE)
    of, comment, previous = {}, None, None
    for header in sorted(glob.glob("include/acl/*.h")):
        for match in token.finditer(read(header)):
            if match.group(1) is not None:
                comment = re.sub(r"^\s*\* ?", "", match.group(1), flags=re.MULTILINE).strip()
            else:
                name = match.group(2)
                if comment and name not in of:
                    of[name] = (comment, previous)
                previous = name
    return of


def doc_text(function, of, python_names):
    comment, before = of.get(function.c_name, ("", None))
    if before in python_names and re.match(r"The same( with| without| in | as a task|,)", comment):
        comment = f"As {before}: t{comment[1:]}"
    # Names of functions as Python has them.
    comment = re.sub(r"\b(acl\w+)(\(\))?", lambda m: python_names.get(m[1], m[0]), comment)
    signature = f"{function.name}({function.parameters(lambda letter: '')})\n--\n\n"
    return signature + "\n\n".join(textwrap.fill(part, 80, break_on_hyphens=False)
                                   for part in (function.usage, *comment.split("\n\n")) if part)


def write_docs(path, rows):
    python_names = {}
    for f in rows:
        python_names.setdefault(f.c_name, f.path())
    of = comments()
    with open(path, "w", encoding="utf-8") as out:
        for f in rows:
            text = doc_text(f, of, python_names)
            text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            print(f'#define DOC_{f.module}_{f.name} "{text}"', file=out)


# --- stubs ---

def stub_of(function, letters):
    takes = {**TAKES, **letters}
    gives = {**GIVES, **letters}
    types = [OBJECTS.get(function.name, "Any") if letter == "o" else gives[letter]
             for letter in function.gives]
    if "BARE" not in function.flags:
        types.append("int")
    result = ("None" if "NOTHING" in function.flags else
              types[0] if len(types) == 1 else f"tuple[{', '.join(types)}]")
    parameters = function.parameters(lambda letter: f": {takes[letter]}")
    return f"def {function.name}({parameters}) -> {result}: ...\n"


def write_stubs(folder, rows):
    fields, letters = structs()
    os.makedirs(folder, exist_ok=True)
    head = "from collections.abc import Callable\nfrom typing import Any, SupportsIndex\n"
    for module in MODULES:
        mine = [stub_of(f, letters) for f in rows if f.module == module]
        name = "__init__" if module == "top" else module
        with open(os.path.join(folder, name + ".pyi"), "w", encoding="utf-8") as out:
            out.write(head + ("from asyncio import Future\n" if module == "npud" else ""))
            if module == "top":
                out.writelines(f"from . import {m} as {m}\n" for m in MODULES if m != "top")
            used = [f for f in fields if any(re.search(rf"\b{f}\b", line) for line in mine)]
            out.write(f"from ._structs import {', '.join(used)}\n\n" if used else "\n")
            out.writelines(mine)
            out.write("\n" + OWN if module == "npud" else "")
    with open(os.path.join(folder, "_structs.pyi"), "w", encoding="utf-8") as out:
        out.write("# The keys of dicts. Those that are left out are 0.\n"
                  "from typing import TypedDict\n")
        for name, of in fields.items():
            out.write(f"\nclass {name}(TypedDict, total=False):\n")
            out.writelines(f"    {field}: {kind}\n" for field, kind in of.items())
    open(os.path.join(folder, "py.typed"), "w", encoding="utf-8").close()


def main(header, stubs):
    rows = functions()
    os.makedirs(os.path.dirname(header), exist_ok=True)
    write_docs(header, rows)
    write_stubs(stubs, rows)


main(*sys.argv[1:])
