"""
What the pairs in Python share, as check.h in C: a program is run twice, with 1 and with 0 as its
first argument. Calls of the library stay in the program, because their lines are told.
"""
import sys

import acl
import acl.rt

WRONG = sys.argv[1] == "1"
SIZE = 4096
SYNC, IPC = 0x1, 0x40  # flags of events
TO_DEVICE, TO_HOST = 1, 2  # kinds of copies


def ok(result):
    """The value of (value, ret), None of ret; ends the program if ret is an error."""
    ret = result[-1] if isinstance(result, tuple) else result
    if ret != 0:
        sys.exit(f"error {ret}: {acl.get_recent_err_msg()}")
    return result[0] if isinstance(result, tuple) else None


def start_device():
    ok(acl.init())
    ok(acl.rt.set_device(0))


def end_device():
    ok(acl.rt.reset_device(0))
    ok(acl.finalize())


def end_streams(*streams):
    """Waits for all that the streams have, which orders it before what the program does next."""
    for stream in streams:
        ok(acl.rt.synchronize_stream(stream))
    for stream in streams:
        ok(acl.rt.destroy_stream(stream))
