#!/usr/bin/env python3
"""Prints docs/coverage.md: for each function of the interface, whether it works.

It reads tests/abi/abi.tsv, tests/abi/subjects.tsv and client/abi/unsupported.inc, in the current
folder. A function without a subject and a subject without its reason are errors.
"""
import re
import sys
import textwrap


def rows(path, kinds):
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = line.rstrip("\n").split("\t")
            if row[0] in kinds:
                yield row


with open("client/abi/unsupported.inc", encoding="utf-8") as file:
    table = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
unsupported = set(re.findall(r"^(?:STATUS|DESTRUCTOR)\((\w+)", table, re.M))
unsupported |= set(re.findall(r"^VALUE\([^,]*,[^,]*,\s*(\w+)", table, re.M))
functions = [row[1] for row in rows("tests/abi/abi.tsv", ["function"])]
refuses = {row[1]: row[2] for row in rows("tests/abi/subjects.tsv", ["refuses"])}
subjects = {row[1]: {"pattern": re.compile(row[2]), "reason": row[3] if len(row) > 3 else "",
                     "functions": []}
            for row in rows("tests/abi/subjects.tsv", ["subject"])}

faults = [f"client/abi/unsupported.inc has {f}, which is not in abi.tsv"
          for f in sorted(unsupported - set(functions))]
faults += [f"subjects.tsv: {f} cannot refuse: it is not in abi.tsv, or has no code"
           for f in refuses if f not in functions or f in unsupported]
for function in functions:
    for subject in subjects.values():
        if subject["pattern"].match(function):
            subject["functions"].append(function)
            break
    else:
        faults.append(f"subjects.tsv has no subject for {function}")
for name, subject in subjects.items():
    missing = unsupported.intersection(subject["functions"])
    if not subject["functions"]:
        faults.append(f"subjects.tsv: no function is about: {name}")
    if missing and not subject["reason"]:
        faults.append(f"subjects.tsv: say why these do not work: {' '.join(sorted(missing))}")
    if subject["reason"] and not missing:
        faults.append(f"subjects.tsv: delete the reason, because all works now: {name}")
if faults:
    sys.exit("\n".join(faults))


def state(function):
    if function in unsupported:
        return "not supported"
    return f"refuses: {refuses[function]}" if function in refuses else "works"


works = len(functions) - len(refuses) - len(unsupported)
summary = f"""The interface has {len(functions)} functions, and all can be linked. {works} work.
{len(refuses)} refuse: they check their arguments as the reference says, and then answer
`ACL_ERROR_RT_FEATURE_NOT_SUPPORT` (207000) with a sentence. {len(unsupported)} are not supported:
they answer the same code, or what their type has for "nothing", and their sentence names them.
The headers in `include/acl/` describe each function. What npud adds, `aclnpud*`, is in
[programming.md](programming.md#what-npud-adds-to-the-api)."""
print(f"""# What works

{textwrap.fill(summary, 100)}

`make coverage` writes this page from `client/abi/unsupported.inc` and `tests/abi/subjects.tsv`.

## Subjects

| subject | work | refuse | not supported | because |
|---|---|---|---|---|""")
for name, subject in subjects.items():
    counts = [sum(state(f).startswith(word) for f in subject["functions"])
              for word in ("works", "refuses", "not")]
    print(f"| {name} | {' | '.join(str(n or '') for n in counts)} | {subject['reason']} |")
print("""
## Functions

| subject | function | |
|---|---|---|""")
for name, subject in subjects.items():
    for function in subject["functions"]:
        print(f"| {name} | `{function}` | {state(function)} |")
