"""What test-trace.sh asks of a trace.

usage: trace.py schema|arrows|text|calls|perfetto|stats|findings FILE...
"""
import collections
import json
import sys


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def check_schema(schema, path):
    import jsonschema
    validator = jsonschema.Draft7Validator(load(schema))
    faults = [f"{list(e.path)}: {e.message[:200]}" for e in validator.iter_errors(load(path))]
    print("\n".join(faults[:10]))
    return not faults


class Trace:
    def __init__(self, path):
        self.events = load(path)["traceEvents"]
        self.slices = [e for e in self.events if e["ph"] == "X"]
        self.process = {e["pid"]: e["args"]["name"] for e in self.events
                        if e["ph"] == "M" and e["name"] == "process_name"}

    def around(self, end):
        """The slices of that thread at that time; times have three digits."""
        return [s for s in self.slices if (s["pid"], s["tid"]) == (end["pid"], end["tid"]) and
                s["ts"] - 0.001 <= end["ts"] <= s["ts"] + s["dur"] + 0.001]

    def arrows(self):
        ends = collections.defaultdict(dict)
        for e in self.events:
            if e["ph"] in "sf":
                ends[e["cat"], e["id"]][e["ph"]] = e
        return [(e["s"], e["f"]) for e in ends.values() if len(e) == 2]


def check_arrows(path):
    """From the record of one process to the wait of another that it let go, as often as it did."""
    trace = Trace(path)
    n = 0
    for begin, end in trace.arrows():
        names = {s["name"] for s in trace.around(begin)}, {s["name"] for s in trace.around(end)}
        if begin["pid"] != end["pid"] and "IPC record" in names[0] and "IPC wait" in names[1]:
            n += 1
    print(f"{n} arrows")
    waits = [s for s in trace.slices if s["name"] == "IPC wait"]
    return n == 3 and all(w["dur"] > 10000 for w in waits)


def check_findings(path):
    """What npu-check has found is an arrow from the fill to the copy, and marked at both."""
    trace = Trace(path)
    marks = [e for e in trace.events if e.get("cat") == "finding"]
    arrows = [(b, e) for b, e in trace.arrows() if b["cat"] == "missing"]
    # The next task may begin in the nanosecond in which the arrow's ends.
    names = [[{s["name"] for s in trace.around(end)} for end in arrow] for arrow in arrows]
    print(names, marks)
    return (len(names) == 1 and "set" in names[0][0] and "copy" in names[0][1] and
            len(marks) == 2 and
            all(m["name"].startswith("race: write and read") for m in marks))


def check_text(path):
    """Names of processes, ranges, marks; when tasks were submitted, and how long they queued."""
    trace = Trace(path)
    ranges = [s for s in trace.slices if s["cat"] == "range"]
    marks = [e for e in trace.events if e.get("cat") == "mark"]
    tasks = [s for s in trace.slices if s["cat"] == "task"]
    return (len(ranges) == 3 and {r["name"] for r in ranges} == {"consume </script>"} and
            len(marks) == 3 and {m["name"] for m in marks} == {'round "done"'} and
            len(tasks) == 9 and all(t["args"]["queued_us"] >= 0 for t in tasks) and
            sum("trace_program (pid " in name for name in trace.process.values()) == 2)


def check_calls(path):
    """The thread was in a call when it submitted a task; queues are empty at the end. A record
    waits behind its delay; that the other process has tasks that wait depends on who is faster."""
    trace = Trace(path)
    submits = [(b, e) for b, e in trace.arrows() if b["cat"] == "submit"]
    calls = {"delay": "aclnpudLaunchDelay", "IPC record": "aclrtRecordEvent",
             "IPC wait": "aclrtStreamWaitEvent"}
    wrong = [(b, e) for b, e in submits
             if not any(calls[t["name"]] == c["name"] for c in trace.around(b)
                        for t in trace.around(e) if t["cat"] == "task")]
    counters = {}
    for e in trace.events:
        if e["ph"] == "C":
            counters[e["pid"], e["name"]] = list(e["args"].values())[0]
    threads = {(e["pid"], e["tid"]) for e in trace.events if e["name"] == "thread_name"}
    print(wrong, counters)
    return (len(submits) == 9 and not wrong and counters and
            not any(counters.values()) and
            all((s["pid"], s["tid"]) in threads for s in trace.slices))


class Importer:
    """How Perfetto's trace processor (v55) reads slices and arrows of Chrome's format: events in
    the order of their times; of slices of a thread that overlap it drops one; an arrow ends or
    begins in the slice that was begun last, unless another one has begun when that was over; and
    it begins where the slice that has begun first is."""

    def __init__(self, trace):
        self.stacks, self.tails = collections.defaultdict(list), {}
        self.arrows, self.wrong = collections.Counter(), []
        for e in sorted((e for e in trace.events if e["ph"] in "Xisf"), key=lambda e: e["ts"]):
            stack = self.stacks[e["pid"], e["tid"]]
            if e["ph"] in "Xi":
                self.add_slice(stack, e)
            elif not stack or (e["ph"] == "s") == ((e["cat"], e["id"]) in self.tails):
                self.wrong.append(e)
            else:
                self.add_end(stack[-1][1], e)

    def add_slice(self, stack, e):
        end = round(e["ts"] + e.get("dur", 0), 3)
        while stack and stack[-1][0] <= e["ts"]:
            stack.pop()
        if stack and stack[-1][0] < end:
            self.wrong.append(e)
        else:
            stack.append((end, e))

    def add_end(self, there, e):
        if e["ph"] == "s":
            self.tails[e["cat"], e["id"]] = there
            return
        tail = self.tails[e["cat"], e["id"]]
        self.arrows[tail["name"], there["name"]] += 1
        if tail["ts"] > there["ts"]:
            self.wrong.append(e)


def check_perfetto(path):
    """It drops nothing, and turns no arrow round."""
    trace = Trace(path)
    read = Importer(trace)
    print(read.wrong, read.arrows)
    return (not read.wrong and read.arrows["IPC record", "release"] == 3 and
            sum(read.arrows.values()) == len(trace.arrows()) == 12)


def check_stats(path, stats):
    """What npuctl has counted is what Python counts."""
    groups = collections.defaultdict(list)
    for s in Trace(path).slices:
        if s["cat"] != "engine" and "unfinished" not in s["args"]:
            n = s["args"].get("times", 1)
            groups[s["cat"], s["name"]] += [s["dur"] / n] * n
    rows = {(r["kind"], r["name"]): r for r in load(stats)["stats"]}
    return (rows.keys() == groups.keys() and all(
        rows[g]["count"] == len(times) and abs(rows[g]["total_us"] - sum(times)) < 0.01 and
        rows[g]["median_us"] == sorted(times)[(len(times) + 1) // 2 - 1] and
        rows[g]["p99_us"] == max(times) for g, times in groups.items()))


def main():
    checks = {"schema": check_schema, "arrows": check_arrows, "text": check_text,
              "findings": check_findings, "calls": check_calls, "stats": check_stats,
              "perfetto": check_perfetto}
    return 0 if checks[sys.argv[1]](*sys.argv[2:]) else 1


sys.exit(main())
