"""
What both programs share: checked calls, lines that name the program, and the two ways in which
processes reach each other here. They are the same as in ../common/example.h, so that one of the two
may be the C program: a handle travels in a file; "now" travels through a FIFO, so that neither
process has to look again and again.
"""
import os
import sys

import acl
import acl.rt

IPC = 0x40  # flag of an event
TO_DEVICE, TO_HOST = 1, 2  # kinds of copies


def say(name, text):
    print(f"{name}: {text}", flush=True)


def check(result):
    """The value of (value, ret), None of ret; ends the program if ret is an error."""
    ret = result[-1] if isinstance(result, tuple) else result
    if ret != 0:
        sys.exit(f"error {ret}: {acl.get_recent_err_msg()}")
    return result[0] if isinstance(result, tuple) else None


def expect_complete(name, event, what):
    status = check(acl.rt.query_event_status(event))
    if status != 1:
        sys.exit(f"{name}: {what}: status {status} where 1 was expected")
    say(name, f"{what}: status {status}")


def handle_write(directory, handle):
    """Under its name, the file is always whole: it gets the name when it is written."""
    temporary = os.path.join(directory, "handle.-1")
    with open(temporary, "wb") as f:
        f.write(handle)
    os.rename(temporary, os.path.join(directory, "handle.0"))


def handle_read(directory):
    with open(os.path.join(directory, "handle.0"), "rb") as f:
        return f.read(64)


def fifo_open(directory, name, mode):
    """The process that comes first makes the FIFO. Opening it waits for the other side."""
    path = os.path.join(directory, name + ".0")
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        pass
    return open(path, mode)


def signal_send(directory, name):
    with fifo_open(directory, name, "wb") as f:
        f.write(b"!")


def signal_wait(directory, name):
    with fifo_open(directory, name, "rb") as f:
        if f.read(1) != b"!":
            sys.exit(f"{name}: the other process has gone")
