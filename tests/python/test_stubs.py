"""What people and type checkers are told about the module: docstrings, and the stubs beside it."""
import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

import acl
from support import main

MODULES = {"__init__": acl, "rt": acl.rt, "tdt": acl.tdt, "util": acl.util, "npud": acl.npud}
STUBS = os.path.join(os.path.dirname(acl.__file__), "acl-stubs")
# Those that are no function of the library: their usage says it all.
USAGE_ONLY = {*vars(acl.util), "view", "event_future"}

RIGHT = """
import asyncio
import acl, acl.rt
stream, ret = acl.rt.create_stream()
acl.rt.record_event(5, stream)
acl.init()
acl.init("/etc/acl.json")
usage, ret = acl.rt.get_mem_usage_info(0)
size: int = usage[0]["curMemSize"]
acl.rt.mem_set_access(0, 4096, [{"flags": 1, "location": {"id": 0, "type": 1}}])
pids: list[int] = [1]
acl.rt.ipc_mem_set_import_pid("key", pids)
with acl.npud.own(acl.rt.create_event) as event:
    acl.rt.record_event(event, stream)
async def wait() -> int:
    return await acl.npud.event_future(event)
text: str | None = acl.get_recent_err_msg()
"""
# Each line is wrong by itself.
WRONG = """\
acl.rt.create_event(1)
acl.rt.record_event("event", 0)
acl.rt.no_such_function()
acl.rt.record_event(event=1, stream=2)
stream, ret, more = acl.rt.create_stream()
acl.rt.mem_set_access(0, 4096, [{"flag": 1}])
acl.rt.ipc_open_event_handle("text")
acl.get_recent_err_msg().upper()
"""


def functions(module):
    return {name: f for name, f in vars(module).items()
            if isinstance(f, types.BuiltinFunctionType)}


def stub(name):
    with open(os.path.join(STUBS, name + ".pyi"), encoding="utf-8") as f:
        return ast.parse(f.read())


class Stubs(unittest.TestCase):
    def test_each_function_has_one_and_no_other(self):
        for name, module in MODULES.items():
            of = {node.name: node for node in stub(name).body if isinstance(node, ast.FunctionDef)}
            self.assertEqual(set(of), set(functions(module)))
            for function, node in of.items():
                with self.subTest(function=function):
                    signature = inspect.signature(getattr(module, function))
                    parameters = signature.parameters.values()
                    self.assertEqual([a.arg for a in node.args.posonlyargs],
                                     [p.name for p in parameters])
                    self.assertEqual(len(node.args.defaults),
                                     sum(p.default is not p.empty for p in parameters))
                    self.assertTrue(all(a.annotation for a in node.args.posonlyargs))
                    self.assertIsNotNone(node.returns)
                    self.assertFalse(node.args.args or node.args.kwonlyargs)

    def test_classes(self):
        classes = {node.name: node for node in stub("npud").body if isinstance(node, ast.ClassDef)}
        self.assertEqual(set(classes), {n for n, c in vars(acl.npud).items() if type(c) is type})
        methods = {m.name for m in classes["own"].body if isinstance(m, ast.FunctionDef)}
        self.assertEqual({m for m in methods if not m.startswith("__")},
                         {m for m in vars(acl.npud.own) if not m.startswith("__")})

    def test_structs_are_those_that_functions_give(self):
        """The keys of a dict from the library, and of one for it, are those of the stub."""
        structs = {node.name: {f.target.id for f in node.body}
                   for node in stub("_structs").body if isinstance(node, ast.ClassDef)}
        attributes, _ = acl.rt.pointer_get_attributes(0)
        self.assertEqual(set(attributes), structs["aclrtPtrAttributes"])
        self.assertEqual(set(attributes["location"]), structs["aclrtMemLocation"])
        prop = {key: {} if key == "location" else 0 for key in structs["aclrtPhysicalMemProp"]}
        acl.rt.malloc_physical(0, prop, 0)
        for key in structs["aclrtMemcpyBatchAttr"]:
            acl.rt.memcpy_batch([1], [1], [1], [1], [{key: {}}], [0])

    def check(self, text):
        """The output of mypy about a program."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "program.py"), "w", encoding="utf-8") as f:
                f.write(text)
            os.symlink(STUBS, os.path.join(folder, "acl-stubs"))
            return subprocess.run(["/usr/bin/mypy", "--strict", "--cache-dir", os.devnull,
                                   "program.py"],
                                  cwd=folder, env={**os.environ, "MYPYPATH": folder},
                                  text=True, stdout=subprocess.PIPE, check=False).stdout

    @unittest.skipUnless(shutil.which("/usr/bin/mypy"), "SKIPPED: needs the package mypy")
    def test_mypy(self):
        self.assertIn("Success: no issues found", self.check(RIGHT))
        text = self.check("import acl\n" + WRONG)
        wrong = {int(line) for line in re.findall(r"^program\.py:(\d+): error", text, re.MULTILINE)}
        self.assertEqual(wrong, set(range(2, 2 + len(WRONG.splitlines()))), text)


class Docstrings(unittest.TestCase):
    def test_each_begins_with_its_usage(self):
        for module in MODULES.values():
            for name, function in functions(module).items():
                with self.subTest(function=name):
                    arguments = list(inspect.signature(function).parameters)
                    usage = re.match(r"(?:[\w, ]+ = )?([\w.]+)\((.*?)\)", inspect.getdoc(function),
                                     re.DOTALL)
                    self.assertEqual(usage[1], f"{module.__name__}.{name}")
                    self.assertEqual(re.findall(r"\w+", usage[2]), arguments)

    def test_units_and_errors_come_from_the_headers(self):
        for function, words in (
                (acl.rt.create_event, "Errors: NULL 100000; 107002; 207001."),
                (acl.rt.synchronize_event_with_timeout,
                 "As acl.rt.synchronize_event: the same with a limit in milliseconds; -1"),
                (acl.rt.event_elapsed_time, "illiseconds"),
                (acl.npud.launch_delay, "microseconds (an hour)")):
            self.assertIn(words, inspect.getdoc(function).replace("\n", " "))
        texts = [inspect.getdoc(f) for m in MODULES.values() for f in functions(m).values()]
        self.assertEqual([t for t in texts if "\n\n" not in t
                          and re.search(r"(\w+)\(", t)[1] not in USAGE_ONLY], [])
        self.assertEqual([t for t in texts if re.search(r"\baclrt(Create|Record)Event\b", t)], [])


if __name__ == "__main__":
    main()
