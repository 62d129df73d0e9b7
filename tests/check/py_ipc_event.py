# check: race
"""Two processes: the consumer has the producer's event, and its stream does not wait for it."""
import subprocess
import sys

import acl
from pair import IPC, SIZE, TO_HOST, WRONG, end_device, end_streams, ok, start_device


def produce():
    start_device()
    stream = ok(acl.rt.create_stream())
    event = ok(acl.rt.create_event_ex_with_flag(IPC))
    memory = ok(acl.rt.malloc(SIZE, 0))
    ok(acl.rt.memset(memory, SIZE, 0, SIZE))
    key = ok(acl.rt.ipc_mem_get_export_key(memory, SIZE, 65, 1))
    ok(acl.rt.memset_async(memory, SIZE, 1, SIZE, stream))  # check: written by
    ok(acl.rt.record_event(event, stream))
    print(key, ok(acl.rt.ipc_get_event_handle(event)).hex(), flush=True)
    sys.stdin.readline()
    end_streams(stream)
    ok(acl.rt.ipc_mem_close(key))
    ok(acl.rt.free(memory))
    ok(acl.rt.destroy_event(event))
    end_device()


def consume():
    command = [sys.executable, *sys.argv, "produce"]
    producer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    start_device()
    stream, host = ok(acl.rt.create_stream()), ok(acl.rt.malloc_host(SIZE))
    key, handle = producer.stdout.readline().split()
    memory = ok(acl.rt.ipc_mem_import_by_key(key, 0))
    event = ok(acl.rt.ipc_open_event_handle(bytes.fromhex(handle)))
    if not WRONG:
        ok(acl.rt.stream_wait_event(stream, event))
    ok(acl.rt.memcpy_async(host, SIZE, memory, SIZE, TO_HOST, stream))  # check: read by
    # check: missing must wait for an event that is recorded after the write
    end_streams(stream)
    ok(acl.rt.destroy_event(event))
    ok(acl.rt.ipc_mem_close(key))
    producer.communicate("through\n")
    ok(acl.rt.free_host(host))
    end_device()
    sys.exit(producer.returncode)


if len(sys.argv) > 2:
    produce()
else:
    consume()
