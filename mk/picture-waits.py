"""Pictures of `npuctl top` and `npuctl explain` as text: a consumer waits for a stopped producer.

usage: picture-waits.py NPUCTL DIRECTORY    (under npu-run, with the module acl)
       picture-waits.py producer|consumer    (which the first starts)
"""
import os
import signal
import subprocess
import sys

import acl
import acl.rt

SYNC, IPC = 1, 0x40


def check(result):
    value, error = result if isinstance(result, tuple) else (None, result)
    if error != 0:
        sys.exit(f"error {error}: {acl.get_recent_err_msg()}")
    return value


def begin():
    check(acl.init())
    check(acl.rt.set_device(0))
    return check(acl.rt.create_stream())


def produce():
    """Its stream waits for a record that it does not submit any more."""
    stream = begin()
    gate = check(acl.rt.create_event_with_flag(SYNC))
    check(acl.rt.stream_wait_event(stream, gate))
    event = check(acl.rt.create_event_ex_with_flag(IPC))
    check(acl.rt.record_event(event, stream))
    os.write(1, check(acl.rt.ipc_get_event_handle(event)))
    os.kill(os.getpid(), signal.SIGSTOP)


def consume():
    stream = begin()
    event = check(acl.rt.ipc_open_event_handle(os.read(0, 4096)))
    check(acl.rt.stream_wait_event(stream, event))
    check(acl.rt.synchronize_stream(stream))


def start(name, **files):
    """Under this name, by which npud knows it."""
    return subprocess.Popen([name, __file__, name], executable=sys.executable, **files)


def show(npuctl, directory):
    reader, writer = os.pipe()
    children = [start("producer", stdout=writer)]
    os.waitpid(children[0].pid, os.WUNTRACED)
    children.append(start("consumer", stdin=reader))
    with subprocess.Popen([npuctl, "--watch=0.05", "--json", "waits"], stdout=subprocess.PIPE,
                          text=True) as watch:
        for line in watch.stdout:
            if "synchronize" in line.lower():
                break
        watch.kill()
    for words in ["top", "--once"], ["explain"]:
        with open(f"{directory}/{words[0]}.txt", "w", encoding="utf-8") as file:
            subprocess.run([npuctl, *words], stdout=file, check=True)
    for child in children:
        child.kill()


if sys.argv[1:] == ["producer"]:
    produce()
elif sys.argv[1:] == ["consumer"]:
    consume()
else:
    show(*sys.argv[1:])
