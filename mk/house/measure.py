#!/usr/bin/env python3
"""Measures the tree as a reader meets it: how much there is, and how often one subject is left.

usage: measure.py [DIR]   prints a line for each figure

product lines     lines of C in daemon/, client/ and proto/ that are no comment and not
                  blank
struct types      names of structs that these define
know a notify     files that name a member or the size of struct notify: they include its header
                  and its name stands in them
registration, records, requests, workers
                  lines of the files that do nothing else: see FILES
promises          lines of the files that a promise to users alone has: see PROMISES; a file counts
                  for the first that names it. What others do for it in passing is not in that
readme words      words of README.md
sentences         comments that name an actor as "who", "whoever", "somebody" or "nobody"
"""
import glob
import os
import re
import sys

PRODUCT = ("daemon", "client", "proto")
FILES = {
    "registration": ("client/memory/registration.*", "client/memory/host_task.*",
                     "client/memory/hold.*", "client/callback/stream_work.c"),
    "records": ("daemon/*/*_record.[ch]", "daemon/kept/*.h", "daemon/recovery/*.[ch]"),
    "requests": ("daemon/control/dispatch.[ch]", "daemon/control/on_*.c", "daemon/core/call.h",
                 "daemon/control/fetch.*", "client/runtime/reply.*", "proto/wire/requests.inc"),
    "workers": ("daemon/base/waker.*", "daemon/base/deferred_close.*", "daemon/base/outbox.*",
                "daemon/control/reload.*",
                "daemon/control/batch_job_lookup.*", "daemon/base/worker.*"),
}
# What would go with a promise that is taken back.
PROMISES = {
    "routes": ("daemon/buffers/rout*.*", "daemon/buffers/relay.*", "daemon/control/on_route.*",
               "client/buffers/route.*"),
    "queues and mbufs": ("daemon/buffers/*.[ch]", "daemon/control/on_queue.*",
                         "daemon/control/on_pool.*", "client/buffers/*.[ch]",
                         "client/runtime/groups.*", "proto/shm/mbuf*.h", "proto/shm/queue_shm.h",
                         "daemon/kept/buffers_record.h"),
    "npud comes back": ("daemon/keeper/*.[ch]", "daemon/kept/*.[ch]", "daemon/recovery/*.[ch]",
                        "daemon/supervisor/*.[ch]", "daemon/*/*_record.[ch]",
                        "daemon/*/*_kept.[ch]", "daemon/engine/restore.*",
                        "daemon/base/*keeper*.[ch]", "daemon/base/supervisor_message.*",
                        "daemon/core/survivor.*", "daemon/core/release.*"),
    "registered memory": ("client/memory/registration.*", "client/memory/host_task.*",
                          "client/memory/hold.*", "client/memory/direct.*",
                          "client/memory/overflow.*", "client/callback/stream_work.*"),
    "IPC events and notifies": ("daemon/core/ipc_*.[ch]", "daemon/core/notify*.[ch]",
                                "daemon/control/on_notify.*", "client/event/ipc_event.*",
                                "client/event/notify.*", "proto/shm/ipc_page.h",
                                "daemon/engine/notify_tasks.*"),
    "value waits told": ("daemon/engine/value.*", "daemon/memory/sharer.*",
                         "daemon/control/session_idle.*", "client/memory/value.*"),
    "who waits for whom": ("daemon/admin/wait_graph.*", "daemon/admin/block*.[ch]",
                           "daemon/admin/own_waits.*", "daemon/admin/report_waits.*",
                           "daemon/admin/queued.*", "client/tools/npuctl/explain.*",
                           "client/tools/npuctl/wait_chain.*", "client/tools/npuctl/who.*",
                           "client/tools/npuctl/process_look.*"),
    "traces": ("daemon/core/trace.*", "daemon/admin/report_trace.*", "daemon/engine/trace_note.*",
               "daemon/control/on_trace.*", "client/core/trace_writer.*",
               "client/runtime/trace_range.*", "client/tools/npuctl/trace_dump.*",
               "proto/shm/trace_ring.h"),
    "Python": ("client/python/*.[ch]",),
    "tools": ("client/tools/**/*.[ch]",),
    "shared and virtual memory": ("client/memory/virtual.*", "client/memory/physical.*",
                                  "client/memory/ipc_memory.*", "client/memory/export*.*",
                                  "client/memory/imports.*", "client/memory/managed.*",
                                  "daemon/memory/export.*", "daemon/core/importers.*",
                                  "daemon/core/export_key.*"),
    "faults on demand": ("daemon/engine/inject.*", "client/tools/npuctl/inject.*"),
}
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')', re.S)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def bare(text):
    """Without comments; strings stay."""
    return COMMENT.sub(lambda m: m.group(1) or "\n" * m.group().count("\n"), text)


def lines(text):
    return sum(1 for line in text.splitlines() if line.strip())


def files(patterns):
    return sorted({f for p in patterns for f in glob.glob(p, recursive=True)})


def promises():
    counted = set()
    for what, patterns in PROMISES.items():
        own = [f for f in files(patterns) if f not in counted]
        counted.update(own)
        print("  %-26s %6d" % (what, sum(lines(bare(read(f))) for f in own)))


def main():
    if len(sys.argv) > 1:
        os.chdir(sys.argv[1])
    product = {}
    for room in PRODUCT:
        for suffix in ("c", "h"):
            for path in glob.glob("%s/**/*.%s" % (room, suffix), recursive=True):
                product[path] = read(path)
    code = {path: bare(text) for path, text in product.items()}
    structs = {name for path, text in code.items()
               for name in re.findall(r"\bstruct (\w+)\s*\{", text)}
    print("product lines    %6d" % sum(lines(text) for text in code.values()))
    for room in PRODUCT:
        print("  %-14s %6d" % (room, sum(lines(t) for p, t in code.items()
                                        if p.startswith(room + "/"))))
    print("struct types     %6d" % len(structs))
    knows = [p for p, t in code.items() if p.startswith("daemon/")
             and re.search(r"\bstruct notify\b", t) and '"daemon/core/notify.h"' in t]
    print("know a notify    %6d  %s" % (len(knows) + 1, "files"))
    for what, patterns in FILES.items():
        print("%-16s %6d" % (what, sum(lines(bare(read(f))) for f in files(patterns))))
    print("promises")
    promises()
    print("readme words     %6d" % len(read("README.md").split()))
    print("sentences        %6d" % sum(
        len(re.findall(r"\b(?:[Ww]hoever|[Ss]omebody|[Nn]obody|[Ww]ho)\b", c.group()))
        for t in product.values() for c in COMMENT.finditer(t) if not c.group(1)))


main()
