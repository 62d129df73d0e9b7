#!/usr/bin/env python3
"""What test-upgrade.sh does once both builds are there: under npu-run of the release, whose npud is
replaced by that of the tree and back while clients go on.

usage: upgrade.py FOLDER OLD NEW [WITHOUT...]
    FOLDER/bin: what is installed, at first the release. OLD, NEW: build folders. FOLDER/old and
    FOLDER/new have upgrade_client, linked with the library of the build; WITHOUT: its arguments.
"""
import json
import os
import select
import shutil
import signal
import subprocess
import sys

PROGRAMS = ("npud", "npud-supervisor", "npud-keeper")
GUARD_S = 300  # against hanging

folder, old, new = sys.argv[1:4]
without = sys.argv[4:]
installed = os.path.join(folder, "bin")
failed = False


def report(good, name):
    global failed
    print("ok" if good else "not ok", name, flush=True)
    failed = failed or not good


def npuctl(build, *arguments):
    return subprocess.run([os.path.join(build, "npuctl"), *arguments], capture_output=True,
                          text=True, timeout=GUARD_S * 4, check=False)


def status(build):
    return json.loads(npuctl(build, "--json", "status").stdout)["status"]


def serves(build):
    """Is it the npud of that build?"""
    return os.path.samefile(f"/proc/{status(build)['pid']}/exe", os.path.join(installed, "npud"))


def install(build):
    """As a package does: new files, renamed over the old ones."""
    for name in PROGRAMS:
        path = os.path.join(installed, name)
        shutil.copy(os.path.join(build, name), path + ".new")
        os.rename(path + ".new", path)


def client_of(build):
    return os.path.join(folder, "old" if build == old else "new", "upgrade_client")


class Client:
    def __init__(self, name, build, beside=None):
        self.name = name
        more = ["beside", client_of(beside), beside] if beside else []
        self.process = subprocess.Popen(
            [client_of(build), *without, *more],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=dict(os.environ, LD_LIBRARY_PATH=build))

    def goes_on(self, when):
        """Rounds that begin after what was done last."""
        try:
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        out = self.process.stdout
        line = out.readline() if select.select([out], [], [], GUARD_S)[0] else b"nothing"
        report(line.startswith(b"rounds"), f"{when}: {self.name} goes on "
               f"({line.decode().strip() or 'it has ended'})")

    def ends(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            code = self.process.wait(GUARD_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = "hangs"
        report(code == 0, f"{self.name} ends, and all sums were right")


def all_go_on(clients, when):
    for client in clients:
        client.goes_on(when)


def upgrade(build, to, clients, when):
    before = status(build)["pid"]
    install(to)
    done = npuctl(build, "upgrade")
    report(done.returncode == 0, f"{when}: npuctl upgrade: {(done.stdout + done.stderr).strip()}")
    report(status(build)["pid"] != before and serves(build), f"{when}: the installed npud serves")
    all_go_on(clients, when)


def kill_server(build, clients, when):
    os.kill(status(build)["pid"], signal.SIGKILL)
    all_go_on(clients, when)


def main():
    clients = [Client("a program of the release", old), Client("two that share", old, old)]
    all_go_on(clients, "before")
    kill_server(old, clients, "kill -9 of the release")
    upgrade(new, new, clients, "upgrade")
    clients.append(Client("a later program of the release", old))
    of_tree = [Client("a program of the release beside one of the tree", old, new),
               Client("one of the tree beside one of the release", new, old)]
    all_go_on(clients[-1:] + of_tree, "upgrade")
    kill_server(new, clients + of_tree, "kill -9 of the tree")
    for client in of_tree:  # no npud of before is promised to them
        client.ends()
    upgrade(old, old, clients, "back")
    kill_server(old, clients, "kill -9 after going back")
    for client in clients:
        client.ends()
    left = status(old)
    report(left["sessions"] == 0 and left["streams"] == 0 and left["events"] == 0,
           "nothing is left of them")
    return failed


sys.exit(main())
