#!/usr/bin/env python3
"""The lists of places in CONTRIBUTING.md against patches that add one of each kind.

usage: contributing.py PATCH...

A patch begins with "kind: " and the heading of its list. It touches only files that are places of
the list, and of each place one at least. A place is the first path of a numbered item; a whole half
of the tree, `client/`, is that of new files. "If" at the beginning: some need it; `make x`: that
writes it, and no patch does. An item that names another list as "(above)" may need the places of
that list as well. Prints "ok" and "not ok".
"""
import fnmatch
import re
import sys

failed = 0


def report(good, name, *faults):
    global failed
    print("ok" if good else "not ok", name)
    for fault in faults:
        print("    " + fault)
    failed |= not good


class Item:
    def __init__(self, text):
        self.text = text
        paths = re.findall(r"`([\w.*/-]+/[\w.*-]*)`", text)
        self.place = paths[0] if paths else None
        self.made = "`make " in text
        self.optional = text.startswith("If ") or self.made

    def has(self, path, new):
        if self.place is None or self.made:
            return False
        if self.place.endswith("/"):
            return path.startswith(self.place) and (new or self.place.count("/") > 1)
        return fnmatch.fnmatchcase(path, self.place)


def read_lists(path):
    """The items by heading: a bold line, and numbered paragraphs below it."""
    lists, heading = {}, None
    for line in open(path, encoding="utf-8"):
        line = line.rstrip("\n")
        if line.startswith("#"):
            heading = None
        elif re.fullmatch(r"\*\*[^*]+\*\*", line):
            heading = line.strip("*").replace("`", "")
            lists[heading] = []
        elif heading and re.match(r"\d+\. ", line):
            lists[heading].append(line.split(". ", 1)[1])
        elif heading and line.startswith("   ") and lists[heading]:
            lists[heading][-1] += " " + line.strip()
    return {h: [Item(t) for t in items] for h, items in lists.items()}


def short(heading):
    """As other lists name it: "a request" and "requests", "a function of the API"."""
    return re.sub(r"^A (kind of )?", "", heading).split(" of npuctl")[0]


def with_others(lists, heading, seen=()):
    """Items of the lists that this one names as "(above)", and of those that these name."""
    others = []
    for item in lists[heading]:
        for other in lists:
            if other not in (heading, *seen) and \
                    re.search(short(other) + r"s? \(above\)", item.text):
                others += lists[other] + with_others(lists, other, (heading, *seen))
    return others


def check(lists, patch):
    text = open(patch, encoding="utf-8").read()
    kind = re.match(r"kind: (.*)\n", text)
    files = re.findall(r"^diff --git a/\S+ b/(\S+)\n(new file)?", text, re.M)
    if not kind or kind.group(1) not in lists:
        report(False, patch + ": CONTRIBUTING.md has a list of its kind")
        return None
    heading = kind.group(1)
    places = lists[heading] + with_others(lists, heading)
    faults = ["%s is no place" % f[0] for f in files if not any(i.has(*f) for i in places)]
    faults += ["%s is not touched" % i.place for i in lists[heading]
               if not i.optional and i.place and not any(i.has(*f) for f in files)]
    report(not faults, "CONTRIBUTING.md names all places of: " + heading, *faults)
    return heading


def main():
    lists = read_lists("CONTRIBUTING.md")
    tried = [check(lists, patch) for patch in sys.argv[1:]]
    report(set(tried) == set(lists), "each list of CONTRIBUTING.md has a patch",
           *["none: " + h for h in lists if h not in tried])
    return failed


sys.exit(main())
