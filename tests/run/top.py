"""Holds `npuctl top`: as JSON, as text, and on a screen that changes its size. The calling test has
a session with a stream that waits, one that works, and a queue with a message.

usage: top.py NPUCTL
"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

LIMIT = 300  # seconds: against hanging only
UP, DOWN, ESCAPE = "\x1bOA", "\x1bOB", "\x1b"
npuctl = sys.argv[1]


def run(*words, status=0, **more):
    r = subprocess.run([npuctl, *words], capture_output=True, text=True, timeout=LIMIT, check=False,
                       **more)
    assert r.returncode == status, (words, r)
    return r.stdout + r.stderr


class Screen:
    """A terminal: what was written to it, not what it looks like."""

    def __init__(self, term="xterm"):
        self.master, slave = pty.openpty()
        self.size(24, 100)
        self.process = subprocess.Popen([npuctl, "top"], stdin=slave, stdout=slave, stderr=slave,
                                        env={**os.environ, "TERM": term}, start_new_session=True)
        os.close(slave)
        self.text = ""

    def size(self, lines, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self):
        try:
            return os.read(self.master, 65536).decode(errors="replace")
        except OSError:  # nobody has it open any more
            return ""

    def redraw(self, lines, columns):
        """All that stands on a screen of another size."""
        self.size(lines, columns)
        os.killpg(self.process.pid, signal.SIGWINCH)
        return self.await_text(r"(?s)\x1b\[2J.*q quit")

    def await_text(self, pattern):
        """What was written until the pattern comes, and not before this call was made."""
        end = time.monotonic() + LIMIT
        while not re.search(pattern, self.text):
            left = end - time.monotonic()
            assert left > 0 and select.select([self.master], [], [], left)[0], (pattern, self.text)
            more = self.read()
            assert more, (pattern, self.text)
            self.text += more
        text, self.text = self.text, ""
        return text

    def press(self, keys):
        os.write(self.master, keys.encode())

    def end(self, status):
        while more := self.read():
            self.text += more
        assert self.process.wait(LIMIT) == status, self.text
        os.close(self.master)
        return self.text


def check_json():
    top = json.loads(run("--json", "-i", "0.5", "top", "--once"))
    assert list(top) == ["devices", "sessions", "blocked", "queues"]
    assert [d["device"] for d in top["devices"]] == [0, 1]
    rates = [d["tasks_per_s"] for d in top["devices"]]
    assert any(rates) and all(0 <= d["busy_percent"] <= 100 for d in top["devices"]), top
    session, = top["sessions"]
    assert abs(sum(rates) - session["tasks_per_s"]) <= sum(rates) / 2, top
    assert session["blocked"] == 1 and session["tasks_per_s"] > 0 and session["streams"] >= 2, top
    assert session["memory_bytes"] >= 4096 and session["uid"] == os.getuid()
    blocked, = top["blocked"]
    assert blocked["state"] == "waiting" and blocked["waits_for"]
    assert blocked["session"] == session["session"] and blocked["pid"] == session["pid"]
    queue, = top["queues"]
    assert queue["fill"] == 1 and queue["depth"] > 0 and queue["messages_per_s"] == 0
    return session["program"]


def obey(screen, keys, typed=""):
    """Until these keys were obeyed: what comes of the later ones for a filter shows it."""
    screen.press(keys + "/")
    screen.await_text("filter:")
    screen.press(typed + "\n")
    screen.await_text("q quit")


def scroll(screen, key):
    """By far more lines than there are."""
    obey(screen, key * 50)


def check_scrolling(screen):
    """The last line is that of the queue. Where all lines have room, nothing moves."""
    scroll(screen, DOWN)
    assert "DEVICE" in screen.redraw(50, 120)
    screen.redraw(8, 120)
    scroll(screen, DOWN)
    text = screen.redraw(7, 120)
    assert "MESSAGES/S" in text and "DEVICE" not in text, text
    scroll(screen, UP)
    assert "DEVICE" in screen.redraw(8, 120)


def check_screen(program):
    screen = Screen()
    screen.await_text("q quit")
    # The last line is the twelfth: the cursor goes there, or the lines are written one by one.
    text = screen.redraw(12, 60)
    assert "\x1b[12;1H" in text or "\x1b[12d" in text, repr(text)
    obey(screen, "", "zzz")
    text = screen.redraw(40, 120)
    assert program not in text and "DEVICE" in text and "showing zzz only" in text, text
    screen.press(ESCAPE)
    screen.await_text("q quit")
    text = screen.redraw(41, 120)
    assert program in text and "showing" not in text, text
    screen.press("/")
    screen.await_text("filter:")
    screen.press("zzz" + ESCAPE)
    screen.await_text("q quit")
    text = screen.redraw(40, 120)
    assert program in text and "showing" not in text, text
    obey(screen, "", program[:3])
    assert program in screen.redraw(41, 120)
    check_scrolling(screen)
    for key in (*"stbm", DOWN, UP):
        screen.press(key)
    screen.press("q")
    text = screen.end(0)
    assert "\x1b[?1049l" in text, repr(text)  # the screen from before is back


name = check_json()
said = run("top", "--once")
for word in ("DEVICE", "TASKS/S", "SESSION", "WAITS-FOR", "MESSAGES/S", name):
    assert word in said, said
check_screen(name)
lost = Screen(term="nonesuch")
assert "is not known" in lost.end(1)
assert "top needs a terminal" in run("top", status=2, stdin=subprocess.DEVNULL)
assert "top needs" in run("--json", "top", status=2)
assert "--once goes with top" in run("status", "--once", status=2)
assert "no npud" in run("-s", "/nowhere", "top", "--once", status=3)
