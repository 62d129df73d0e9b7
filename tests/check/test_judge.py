"""
The judging of reports, with reports made by hand: what is as expected passes, and each thing that
is not is told. And the comments of all pairs are such that a report can be judged.
"""
import pathlib
import tempfile
import unittest

import judge
import run

HERE = pathlib.Path(__file__).resolve().parent

SOURCE = """/* check: race */
/* What it is about. */
    if (WRONG)
        CALL(aclrtRecordEvent(event, stream)); /* check: missing names */
    void *memory = NEW_MEMORY(BYTES);          /* check: memory allocated */
    /* check: written by */
    CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, stream));
    /* check: (read|used) by */
    CALL(aclrtMemcpyAsync(host, BYTES, memory, BYTES, KIND, other));
    /* check: missing must wait for an event that is recorded after the write */
    /* check: text forward */
    end_device();
"""

REPORT = """what the program says
npud check: race: write and read of device memory without an order between them
  written by  aclrtMemsetAsync, stream 2 of process 4711 (a), 3rd task, prog.c:7, in range "forward"
  read by     aclrtMemcpyAsync, stream 1 of process 4712 (consumer), 1st task, prog.c:9
  memory      4,096 bytes at 0xb0000 (allocated by process 4711 at prog.c:5, imported by 4712 at
              other.c:60)
  missing     stream 1 of process 4712 must wait for an event that is recorded after the write.
              It waits for IPC event 1 (prog.c:8), but that was recorded before the write
              (prog.c:4).
npud check: 1 finding in 2 processes: race 1
"""

LEAK = """npud check: leak: a stream was not destroyed
  made by     aclrtCreateStream, process 4711 (prog), prog.c:5
"""

WRITES = """npud check: race: two writes of device memory without an order between them
  written by  aclrtMemsetAsync, stream 2 of process 4711 (prog), 1st task, prog.c:2
  written by  acl.rt.memset_async, stream 3 of process 4711 (prog), 1st task, prog.c:4
npud check: 1 finding in 1 process: race 1
"""

WRITES_SOURCE = """/* check: race */
CALL(aclrtMemsetAsync(memory, BYTES, 1, BYTES, first)); /* check: written by */
/* check: written by */
CALL(aclrtMemsetAsync(memory, BYTES, 2, BYTES, second));
"""


def judge_report(report, source=SOURCE):
    return judge.judge_wrong(judge.read_pair("prog.c", source, {}), report)


class Reports(unittest.TestCase):
    def test_as_expected(self):
        self.assertEqual(judge_report(REPORT), [])

    def test_each_difference_is_told(self):
        for there, instead in (
                ("check: race: write", "check: uninitialised: write"),
                ("written by", "freed by"),
                ("  written by  aclrtMemsetAsync", "  written by  aclrtMemset"),
                ("prog.c:7", "prog.c:8"),
                ("prog.c:7", "proc.c:7"),
                ("prog.c:7", "prog.c:71"),
                ("prog.c:9", "prog.c:8"),
                ("  read by     aclrtMemcpyAsync", "  read by     aclrtMemcpy2dAsync"),
                ("at prog.c:5", "at prog.c:6"),
                ("allocated by", "imported by"),
                ("  missing ", "  present "),
                ("after the write.", "before the write."),
                ("prog.c:4", "prog.c:3"),
                ("forward", "backward"),
                ("race 1", "race 2"),
                ("1 finding in", "2 findings in"),
                ("npud check: 1 finding in 2 processes: race 1", "")):
            self.assertIn(there, REPORT)
            self.assertNotEqual(judge_report(REPORT.replace(there, instead)), [], instead)

    def test_nothing_told(self):
        self.assertNotEqual(judge_report(""), [])
        self.assertNotEqual(judge_report("npud check: no findings in 2 processes\n"), [])

    def test_more_is_told(self):
        two = REPORT.replace("npud check: 1 finding in 2 processes: race 1",
                             LEAK + "npud check: 2 findings in 2 processes: race 1, leak 1")
        self.assertEqual(judge_report(two), ["leak was told, too"])
        both = SOURCE.replace("/* What it is about. */", "/* check: leak */")
        self.assertEqual(judge_report(two, both), [])
        twice = LEAK + LEAK + "npud check: 2 findings in 1 process: leak 2\n"
        self.assertEqual(judge_report(twice, "/* check: leak */\n"),
                         ["leak was told 2 times, and not once"])

    def test_expectations_of_two_kinds(self):
        source = "/* check: race */\n/* check: leak */\nNEW_X(); /* check: leak: made by */\n" \
            "NEW_X(); /* check: read by */\n"
        pair = judge.read_pair("prog.c", source, {"NEW_X": "aclrtX"})
        self.assertEqual([(e.kind, e.text, e.line) for e in pair.expectations],
                         [("leak", "made by", 3), ("race", "read by", 4)])

    def test_two_writes_are_two_entries(self):
        self.assertEqual(judge_report(WRITES, WRITES_SOURCE), [])
        once = WRITES.replace("prog.c:4", "prog.c:2")
        self.assertEqual(judge_report(once, WRITES_SOURCE),
                         ['no "written by" with aclrtMemsetAsync at prog.c:4'])

    def test_one_entry_is_not_two(self):
        pair = judge.read_pair("prog.c", WRITES_SOURCE, {})
        pair.expectations = [pair.expectations[0]] * 2
        self.assertEqual(judge.judge_wrong(pair, WRITES),
                         ['no "written by" with aclrtMemsetAsync at prog.c:2'])

    def test_anything_missing(self):
        source = "/* check: race */\n/* check: missing */\nend_device();\n"
        self.assertEqual(judge_report(REPORT, source), [])
        self.assertEqual(judge_report(WRITES, source), ["nothing is said to be missing"])

    def test_what_is_behind_another_line_is_not_of_the_finding(self):
        parts = REPORT.split("  missing")
        self.assertNotEqual(judge_report(parts[0] + "the program\n  missing" + parts[1]), [])

    def test_comments_that_cannot_be(self):
        for source in ("end_device();\n", "/* check: race */\n/* check: missing */\n",
                       "/* check: race */\nend_device(); /* check: read by */\n"):
            with self.assertRaises(ValueError):
                judge.read_pair("prog.c", source, {})

    def test_right_program(self):
        self.assertEqual(judge.judge_right("what the program says\n"), [])
        self.assertEqual(judge.judge_right("npud check: no findings in 2 processes\n"), [])
        self.assertEqual(judge.judge_right("npud check: 0 findings in 1 process\n"), [])
        self.assertNotEqual(judge.judge_right(REPORT), [])
        self.assertNotEqual(judge.judge_right("npud check: 1 finding in 1 process: leak 1\n"), [])


# In place of npu-run: says what the environment has for the variant, and ends with its status.
NPU_RUN = """#!/bin/sh
case "$*" in *--check*) ;; *) exit 0 ;; esac
for variant; do :; done
case "$*" in *--check-host=seen*) variant=${variant}_seen ;; esac
eval "printf %s \\"\\$REPORT_$variant\\"" >&2
eval "exit \\${STATUS_$variant:-99}"
"""

UNINITIALISED = """npud check: uninitialised: a task reads memory that nothing has written
  read by     aclrtMemcpyAsync, stream 2 of process 4711 (python3), 1st task, py_uninitialised.py:13
  memory      4,096 bytes at 0xb0000 (allocated by process 4711 at py_uninitialised.py:8)
npud check: 1 finding in 1 process: uninitialised 1
"""

QUEUE = """npud check: race: write and read of device memory without an order between them
  written by  aclrtMemsetAsync, stream 2 of process 4711 (python3), 1st task, py_queue.py:{}
  read by     aclrtMemcpy, the calling thread 4711 of process 4711 (python3), py_queue.py:{}
  missing     thread 4711 of process 4711 (python3) must synchronise stream 2.
npud check: 1 finding in 1 process: race 1
"""


class Runs(unittest.TestCase):
    """The runner, with a program in place of npu-run."""

    def run_pair(self, name, answers, plain=False):
        with tempfile.TemporaryDirectory() as build:
            path = pathlib.Path(build)
            (path / "npu-run").write_text(NPU_RUN)
            (path / "npu-run").chmod(0o755)
            runner = run.Runner(path, path, [], plain)
            for variant, (status, report) in answers.items():
                runner.environment[f"STATUS_{variant}"] = str(status)
                runner.environment[f"REPORT_{variant}"] = report
            return runner.run_pair(HERE / name, {})

    def test_as_expected(self):
        self.assertEqual(
            self.run_pair("py_uninitialised.py", {"0": (0, ""), "1": (86, UNINITIALISED)}),
            (["ok py_uninitialised.py (right)", "ok py_uninitialised.py (wrong)"], True))

    def test_failures_show_the_report(self):
        for right, wrong in (((0, ""), (0, UNINITIALISED)), ((0, ""), (86, "")),
                             ((86, UNINITIALISED), (86, UNINITIALISED)),
                             ((0, UNINITIALISED), (86, UNINITIALISED)),
                             ((1, "died\n"), (86, UNINITIALISED))):
            lines, well = self.run_pair("py_uninitialised.py", {"0": right, "1": wrong})
            self.assertFalse(well)
            report = (right if right != (0, "") else wrong)[1]
            self.assertTrue(all(f"    {line}" in lines for line in report.splitlines()), lines)

    def test_options(self):
        source = (HERE / "py_queue.py").read_text()
        self.assertIn("--check-host=seen", source)
        lines = [n for n, line in enumerate(source.splitlines(), 1) if line.endswith(" by")]
        report = QUEUE.format(*lines)
        answers = {"0_seen": (0, ""), "1_seen": (86, report), "1": (0, "")}
        self.assertEqual(self.run_pair("py_queue.py", answers)[1], True)
        self.assertEqual(len(self.run_pair("py_queue.py", answers)[0]), 3)
        for variant in answers:
            other = (0, "") if variant == "1_seen" else (86, report)
            self.assertFalse(self.run_pair("py_queue.py", {**answers, variant: other})[1], variant)

    def test_plain(self):
        answers = {"0": (86, ""), "1": (86, "")}
        self.assertTrue(self.run_pair("py_uninitialised.py", answers, plain=True)[1])


class Sources(unittest.TestCase):
    def setUp(self):
        self.macros = judge.read_macros((HERE / "check.h").read_text())
        self.pairs = {}
        for path in sorted(HERE.glob("*.c")) + sorted(HERE.glob("*.cpp")) + \
                sorted(HERE.glob("py_*.py")):
            self.pairs[path] = judge.read_pair(path.name, path.read_text(), self.macros)

    def test_macros(self):
        self.assertEqual(judge.find_function("s = NEW_STREAM();", self.macros), "aclrtCreateStream")
        self.assertEqual(judge.find_function("a = NEW(aclrtNotify, aclrtCreateNotify, 0);", {}),
                         "aclrtCreateNotify")
        self.assertEqual(judge.find_function("ok(acl.rt.free(memory))", {}), "acl.rt.free")

    def test_as_many_as_there_must_be(self):
        self.assertGreaterEqual(len(self.pairs), 60)
        for kind in judge.KINDS:
            self.assertTrue(any(kind in pair.kinds for pair in self.pairs.values()), kind)

    def test_no_comment_is_overlooked(self):
        for path in self.pairs:
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if "check: " in line:
                    self.assertTrue(judge.COMMENT.search(line), f"{path.name}:{number}")

    def test_races_have_all_that_must_be_told(self):
        for path, pair in self.pairs.items():
            for kind in pair.kinds:
                whats = [e.what for e in pair.expectations if e.kind == kind]
                self.assertIn("label", whats, path.name)
                if kind == "race":
                    self.assertEqual(whats.count("label"), 2, path.name)
                    self.assertIn("missing", whats, path.name)

    def test_variants_differ(self):
        for path in self.pairs:
            self.assertIn("WRONG", path.read_text().replace("import", ""), path.name)


if __name__ == "__main__":
    unittest.main()
