#!/usr/bin/env python3
"""Compares the message ids of npud's log (daemon/base/message_id.h) with the catalogue that
explains them (systemd/npud.catalog): each id has one entry, with a subject and a text, and each
entry an id. Each id is used in the daemon. A line for each fault."""
import pathlib
import re
import sys

DEFINE = re.compile(r'^#define MESSAGE_(\w+) +"([0-9a-f]{32})"$', re.MULTILINE)
ENTRY = re.compile(r"^-- (\w+)\n(.*?)(?=^-- |\Z)", re.MULTILINE | re.DOTALL)
HEADER = re.compile(r"Subject: .+\nDefined-By: npud\nDocumentation: .+\n\n\S")


def faults():
    header = pathlib.Path("daemon/base/message_id.h").read_text(encoding="utf-8")
    catalog = pathlib.Path("systemd/npud.catalog").read_text(encoding="utf-8")
    code = "".join(file.read_text(encoding="utf-8") for file in pathlib.Path("daemon").rglob("*.c"))
    ids = {id: name for name, id in DEFINE.findall(header)}
    entries = ENTRY.findall(catalog)
    explained = [id for id, _ in entries]

    if len(ids) != header.count("#define "):
        yield "message_id.h: an id is there twice, or is not 32 digits"
    for id, name in ids.items():
        if explained.count(id) != 1:
            yield f"npud.catalog: MESSAGE_{name} ({id}) has {explained.count(id)} entries"
        if not re.search(rf"\bMESSAGE_{name}\b", code):
            yield f"message_id.h: MESSAGE_{name} is not used"
    for id, text in entries:
        if id not in ids:
            yield f"npud.catalog: {id} is no id of message_id.h"
        if not HEADER.match(text):
            yield f"npud.catalog: {id} lacks subject, origin, documentation or text"


found = list(faults())
for fault in found:
    print(fault)
sys.exit(1 if found else 0)
