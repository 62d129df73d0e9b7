#!/usr/bin/env python3
"""Judges what npud --check-backend has written.

usage: check_backend.py FILE [NUMBER=ANSWER[|ANSWER]...[:TEXT]]...

The file is one table, all that it says is of the right kind, and `holds` is what its required rows
say. Each row that is named has one of these answers, and TEXT, a regular expression, in its text.
"""
import json
import re
import sys

ANSWERS = ("yes", "no", "differs", "not known")


def check_row(row):
    assert sorted(row) == ["answer", "npud", "number", "required", "text", "values", "what"], row
    assert row["answer"] in ANSWERS, row
    assert isinstance(row["required"], bool) and row["what"], row
    assert row["text"], "a row says something: %s" % row
    assert bool(row["npud"]) == (row["answer"] != "not known"), row
    for value in row["values"].values():
        assert isinstance(value["value"], (int, float)) and isinstance(value["unit"], str), row


def main(path, wanted):
    with open(path, encoding="utf-8") as file:
        table = json.load(file)
    assert sorted(table) == ["backend", "device", "holds", "nesting", "npud", "rows", "seconds"]
    rows = {row["number"]: row for row in table["rows"]}
    assert len(rows) == len(table["rows"])
    for row in rows.values():
        check_row(row)
    assert table["holds"] == all(r["answer"] == "yes" for r in rows.values() if r["required"])
    assert table["seconds"] < 330, table["seconds"]
    failed = 0
    for want in wanted:
        number, _, rest = want.partition("=")
        answers, _, text = rest.partition(":")
        row = rows[int(number)]
        if row["answer"] not in answers.split("|") or not re.search(text, row["text"]):
            print("row %s: wanted %s, got %s: %s" % (number, rest, row["answer"], row["text"]))
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
