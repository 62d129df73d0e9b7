#!/usr/bin/env python3
"""Seeds for the fuzz targets: short histories as honest and other clients have them, to begin
fuzzing with. usage: seeds.py DIRECTORY [CHECKED...]

Writes DIRECTORY/TARGET/seed-NAME; and one for "check" of each directory CHECKED, which npu-run has
kept (--check-keep). What the bytes mean stands in act.c, and in the fuzz_*.c that
read them in their own way.
"""
import os
import struct
import sys

ACTIONS = ("hello request _ packet open admin mute hang_up die task _ poke _ turns rest doorbell "
           "take_record wait refuse poke_later sleep").split()
REQUESTS = ("hello open_device create_stream destroy_stream create_event destroy_event "
            "create_ipc_event export_ipc_event open_ipc_event close_ipc_event explain_record "
            "malloc free mem_info abort_stream set_failure_mode stop_task create_notify "
            "destroy_notify reset_notify export_notify allow_notify import_notify "
            "set_stream_priority streams_left memory_written notify_fd "
            "ipc_event_info create_segment map_segment trim_segment create_queue destroy_queue "
            "grant_queue attach_queue allow_map queue_bell bind_routes unbind_routes "
            "query_routes leave_session own_waits export_memory allow_memory unexport_memory "
            "import_memory fetch_memory get_trace_ring renew_arena "
            "idle_session open_channel close_channel "
            "load_binary look_up_function unload_binary").split()  # as they are numbered
TASKS = ("nop record reset wait_level wait_pos ipc_event_record ipc_event_wait copy set delay "
         "callback notify_record notify_wait count_record count_wait value_write value_wait "
         "reduce graph jump launch").split()  # as they are numbered
BORDERS = [255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097, 8191, 8192, 65535, 65536, 262143,
           262144, 1 << 20,
           0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 1 << 32, 1 << 46, 1 << 62, (1 << 62) + 1,
           1 << 63,
           2**64 - 4096, 2**64 - 4095, 2**64 - 64, 2**64 - 2, 2**64 - 1]


def number(n):
    first = 255 - len(BORDERS)
    if n < first:
        return bytes([n])
    if n in BORDERS:
        return bytes([first + BORDERS.index(n)])
    return b"\xff" + struct.pack("<Q", n)


def act(name, *args):
    return bytes([ACTIONS.index(name), *args])


def request(client, name, *values):
    body = b"".join(v if isinstance(v, bytes) else number(v) for v in values)
    return act("request", client, REQUESTS.index(name)) + body


def task(client, stream, op, obj=0, words=(0, 0, 0, 0), flags=0):
    head = act("task", client, stream, TASKS.index(op), flags)
    return head + b"".join(map(number, (obj, *words)))


def packet(client, fds, data):
    return act("packet", client, fds) + number(len(data)) + data


def poke(client, region, index, offset, value):
    return act("poke", client, region | index << 3) + struct.pack("<H", offset // 8) + number(value)


REST = act("rest")
SHARE = (act("hello", 0) + request(0, "create_ipc_event", 0) + request(0, "export_ipc_event", 0)
         + act("hello", 1)
         + act("open", 1, 0))
STREAMS = (act("hello", 0) + request(0, "open_device", 0) + request(0, "open_device", 1)
           + b"".join(request(0, "create_stream", i & 1, 0, 0) for i in range(3)))

# Two queues, rings 1 and 2, whose takers may map segment 1.
QUEUES = (act("hello", 0) + request(0, "create_queue", b"\x01q", 4)
          + request(0, "create_queue", b"\x00", 2)
          + request(0, "create_segment", 128, 16) + request(0, "allow_map", 1, 1)
          + request(0, "allow_map", 2, 1))
PUT, TAKE, SEGMENT, HEADS, SLOTS = 0, 2, 1, 12288, 256


def shared(kind, offset, value):
    return poke(0, 5, kind, offset, value)


def put_message(slot, position, words=(1, 3, 1, 1)):
    """Buffer in slot of segment 1, with this word, as the message at position in ring 1."""
    generation, state, a, b = words
    return (shared(SEGMENT, HEADS + 192 * slot, generation << 36 | state << 32 | a << 16 | b)
            + shared(PUT, SLOTS + 64 * position, (position + 1) << 32 | 1 << 16 | slot)
            + shared(PUT, 0, position + 1))


REQUEST_SEEDS = {
    "queues": QUEUES + request(0, "map_segment", 1) + request(0, "trim_segment", 1)
    + request(0, "attach_queue", 0)
    + request(0, "destroy_queue", 1),
    "queues-admin": QUEUES + put_message(0, 0)
    + b"".join(act("admin", 0, 0) + bytes([i]) + number(1) * 8 for i in (210, 211, 212))
    + act("die", 0),
    "queue-grant": QUEUES + act("hello", 1) + request(0, "grant_queue", 0, 1, 7)
    + request(1, "attach_queue", 0)
    + request(0, "grant_queue", 0, 1, 2) + request(0, "grant_queue", 0, 1, 0),
    "messages": QUEUES + put_message(0, 0) + put_message(1, 1, (1, 2, 1, 0))
    + put_message(2, 2, (1, 4, 1, 0)) + act("die", 0),
    "messages-freed": QUEUES + put_message(0, 0) + put_message(200, 1)
    + request(0, "destroy_queue", 0),
    "chain-in-circle": QUEUES + put_message(0, 0) + shared(SEGMENT, HEADS + 44, 1 << 16 | 1)
    + put_message(1, 1, (1, 4, 1, 0))
    + shared(SEGMENT, HEADS + 192 + 40, (1 << 16 | 1) << 32) + act("hang_up", 0),
    "held-by-npud": QUEUES + put_message(0, 0, (1, 2, 0, 0)) + put_message(1, 1, (1, 3, 0, 1))
    + act("die", 0),
    "routes": QUEUES + request(0, "bind_routes", b"\x01", 0, 1, 0) + request(0, "queue_bell", 1)
    + put_message(0, 0) + put_message(1, 1)
    + REST + request(0, "query_routes", 0, 0, 0) + request(0, "unbind_routes", b"\x01", 0, 1, 0)
    + act("die", 0),
    "routes-to-many": QUEUES + request(0, "create_queue", b"\x00", 2)
    + request(0, "bind_routes", b"\x02", 0, 1, 0, 0, 2, 0)
    + put_message(0, 0) + put_message(1, 1) + put_message(2, 2) + put_message(3, 3) + REST
    + request(0, "destroy_queue", 2) + REST + act("die", 0),
    "channels": act("hello", 0) + act("hello", 1) + request(0, "open_channel", 0, b"\x01c", 4)
    + request(1, "open_channel", 0, b"\x01c", 2) + request(0, "open_channel", 1, b"\x01c", 4)
    + request(1, "close_channel", 0) + REST + request(1, "open_channel", 0, b"\x01c", 4)
    + request(0, "close_channel", 1) + request(0, "close_channel", 0)
    + request(0, "open_channel", 0, b"\x00", 4) + request(1, "close_channel", 0) + act("die", 1),
    "hello": act("hello", 0),
    "hello-twice": act("hello", 0) * 2,
    "no-hello": request(0, "open_device", 0),
    "old-protocol": request(0, "hello", 0, b"\x04test"),
    "garbage": packet(0, 0, b"\xff\xff\xff"),
    "too-long": act("packet", 0, 0) + number(1 << 20),
    "descriptors": act("hello", 0) + packet(0, 4, b"\x08\x01"),
    "streams": STREAMS + REST + request(0, "destroy_stream", 1) + request(0, "abort_stream", 0),
    "events": STREAMS + request(0, "create_event", 1, 0) + task(0, 0, "delay", 0, (255, 0, 0, 0))
    + request(0, "destroy_event", 0, b"\x02", 0, 1, 1, 5, 0) + REST,
    "all-streams": STREAMS + request(0, "create_event", 1, 0)
    + task(0, 0, "delay", 0, (255, 0, 0, 0))
    + request(0, "destroy_event", 0, b"\x00", 1) + REST,
    "fences": STREAMS + request(0, "create_event", 1, 0) + request(0, "destroy_event", 0, b"\xff"),
    "ipc": SHARE + act("take_record", 0, 0, 0) + request(1, "explain_record", 0, 1)
    + request(1, "close_ipc_event", 0, b"\x00", 0)
    + act("hang_up", 0),
    "linger": SHARE + request(1, "close_ipc_event", 0, b"\x00", 0)
    + request(0, "close_ipc_event", 0, b"\x00", 0)
    + act("open", 1, 0) + act("die", 0),
    "forged": SHARE + act("open", 1, 8, 30, 1) + act("open", 1, 24, 30, 1) + act("open", 1, 32, 63),
    "memory": act("hello", 0) + request(0, "open_device", 0) + request(0, "malloc", 0, 0, 4097)
    + request(0, "malloc", 1, 0, 65536)
    + request(0, "mem_info", 0) + request(0, "free", 0),
    "mute": act("mute", 0) + act("hello", 0) + request(0, "mem_info", 0) * 40,
    "admin": SHARE + STREAMS + b"".join(act("admin", 0, i) + bytes([1, 1, i]) for i in range(8)),
    "others": act("hello", 4) + SHARE + act("open", 4, 0),
    "exhausted": act("refuse", 3) + act("hello", 0) + act("refuse", 2)
    + request(0, "open_device", 0) + act("refuse", 1)
    + request(0, "create_stream", 0, 0, 0),
}

WAITS = act("admin", 0, 7) + bytes([1, 1, 7, 0])

RING_SEEDS = {
    "nop": task(0, 0, "nop") * 3 + REST,
    "position": task(0, 1, "wait_pos", 0, (1, 0, 0, 0)) + REST + task(0, 0, "nop") + REST,
    "timeout": task(0, 1, "wait_pos", 0, (1, 1023, 0, 0)) + REST,
    "level": task(0, 0, "wait_level", 1) + act("turns", 20) + task(0, 1, "record", 1, flags=7)
    + REST + task(0, 2, "reset", 1) + REST,
    "ipc": act("take_record", 0, 0, 0) + task(1, 0, "ipc_event_wait", 0, (1, 0, 0, 0)) + REST,
    "death": task(0, 0, "wait_pos", 1, (9, 0, 0, 0)) + act("take_record", 0, 0, 0)
    + task(1, 0, "ipc_event_wait", 0, (1, 0, 0, 0)) + REST
    + act("die", 0) + REST,
    "copy": task(0, 0, "set", 1, (0, 262144, 7, 0)) + task(0, 0, "copy", 0, (0, 0, 4096, 1)) + REST,
    "freed": task(0, 0, "set", 1, (0, 262144, 7, 0)) + act("turns", 4) + request(0, "free", 1)
    + REST,
    "value": task(0, 0, "value_wait", 0, (8, 5, 0, 0), 1)
    + task(0, 1, "value_wait", 0, (8, 5, 0, 0)) + REST + WAITS
    + task(0, 2, "value_write", 0, (8, 4, 0, 0)) + REST + task(0, 2, "value_write", 0, (8, 5, 0, 0))
    + REST,
    "value-free": task(0, 0, "value_wait", 0, (0, 5, 0, 0), 1) + REST + request(0, "free", 0)
    + REST,
    "value-abort": task(0, 0, "value_wait", 0, (0, 5, 0, 0), 1) + REST
    + request(0, "abort_stream", 0) + REST,
    "value-host": task(0, 0, "value_wait", 0, (0, 0, 0, 0), 2) + REST
    + request(0, "memory_written", 0, 0, 0, 8) + act("die", 0),
    "value-late": act("poke_later", 0, 6, 0, 0) + number(1)
    + task(0, 0, "value_wait", 0, (0, 1, 0, 0), 1) + REST,
    "value-copy": task(0, 0, "value_wait", 1, (4096, 1, 0, 0), 2) + REST
    + task(0, 1, "set", 1, (0, 1 << 20, 1, 0)) + act("turns", 4)
    + request(0, "free", 1) + REST,
    "reduce": task(0, 0, "reduce", 1, (0, 4096, 8192, 1)) + bytes([10, 1])
    + task(0, 1, "reduce", 1, (1, 2, 3, 1)) + bytes([12, 29])
    + task(0, 2, "reduce", 0, (0, 0, 2**64 - 1, 0)) + bytes([10, 0]) + REST,
    "delay": task(0, 0, "delay", 0, (65536, 0x7fffffff, 0, 0)) + REST,
    "tail": poke(0, 6, 0, 0, 2**64 - 1) + request(0, "abort_stream", 0) + REST,
    "sequence": poke(0, 7, 0, 0, 1) + poke(0, 0, 0, 64, 1) + poke(0, 0, 0, 128, 1)
    + act("doorbell", 0, 0, 0) + REST,
    "page": task(1, 0, "ipc_event_wait", 0, (5, 0, 0, 0))
    + poke(0, 4, 0, 128 + 40, 5 << 32 | 1 << 16 | 1)
    + task(1, 1, "ipc_event_wait", 0, (5, 0, 0, 0)) + REST
    + request(1, "close_ipc_event", 0, b"\x00", 0) + REST,
    "latest": poke(0, 4, 0, 0, 2**64 - 1) + act("take_record", 1, 0, 0) + REST + act("hang_up", 0),
    "late": act("poke_later", 0, 3 | 0 << 3, 0, 0) + number(3) + task(0, 0, "wait_level", 0) + REST,
    "late-ipc": act("take_record", 0, 3, 0) + act("poke_later", 0, 4, 16 + 1, 0) + number(1 << 32)
    + task(1, 0, "ipc_event_wait", 0, (1, 0, 0, 0)) + REST,
    "timers": b"".join(task(0, i, "wait_pos", 3 - i, (99, 4096 - 1024 * i + i, 0, 0))
                       for i in range(4)) + REST,
    "reports": task(0, 0, "wait_pos", 1, (9, 0, 0, 0)) + task(0, 1, "wait_level", 0)
    + task(0, 2, "ipc_event_wait", 0, (0, 0, 0, 0))
    + task(0, 3, "delay", 0, (65536, 0, 0, 0)) + act("turns", 20) + act("turns", 21)
    + act("admin", 0, 3) + bytes([1, 1, 3]) + REST,
    "circle": task(0, 0, "wait_pos", 1, (1, 0, 0, 0)) + task(0, 1, "wait_pos", 0, (1, 0, 0, 0))
    + REST + WAITS,
    "sleepers": act("take_record", 0, 0, 1) + act("sleep", 1, 0, 2, 0, 1, 1, 0, 0)
    + act("sleep", 0, 1, 2, 0, 2, 1, 0, 0)
    + task(0, 2, "wait_level", 1) + REST + WAITS + act("wait") + number(1 << 20) + WAITS,
    "owed": act("sleep", 0, 0, 2, 0, 1, 1, 0, 0) + task(1, 0, "ipc_event_wait", 0, (1, 0, 0, 0))
    + act("take_record", 0, 0x0f, 0) + REST + WAITS,
    "callback": task(0, 0, "callback", 0, (1, 1 << 32, 0, 0)) + task(0, 0, "nop") + REST + WAITS
    + poke(0, 6, 0, 16, 1)
    + act("doorbell", 0, 0, 0) + REST + task(0, 0, "callback", 0, (2, 2047, 0, 0))
    + task(0, 0, "callback", 0, (3, 2048, 0, 0)) + REST,
    "ended": act("admin", 0, 0) + bytes([1, 1, 0, 1]) + REST,
    "slices": task(0, 0, "set", 1, (0, 1 << 20, 7, 0)) + task(0, 2, "set", 1, (0, 1 << 20, 8, 0))
    + REST,
    "destroyed": task(0, 0, "delay", 0, (255, 0, 0, 0)) + request(0, "destroy_event", 0, b"\x00", 1)
    + act("turns", 3)
    + request(0, "destroy_stream", 0) + REST,
}



def field(tag, value):
    if isinstance(value, int):
        return varint(tag << 3) + varint(value)
    return varint(tag << 3 | 2) + varint(len(value)) + value


def varint(n):
    out = b""
    while n > 0x7f:
        out += bytes([n & 0x7f | 0x80])
        n >>= 7
    return out + bytes([n])


def message(*values):
    return b"".join(field(i + 1, v) for i, v in enumerate(values))


HANDLE_SEEDS = {
    "genuine": bytes([1, 2]),
    "gone": bytes([3]),
    "raw": bytes([4]) + b"NPUH\x01\x00\x01\x00" + bytes(56),
    "damaged": bytes([9, 34, 1, 9, 0, 1, 9, 60, 8]),
    "mended": bytes([25, 34, 1, 25, 24, 1, 26, 8, 1, 27, 16, 1, 25, 16, 9]),
    "short": bytes([33, 63]),
}

PACKET_SEEDS = {
    "request": b"\x00\x01" + number(6) + field(1, 1) + field(2, field(1, 1)),
    "reply": b"\x01\x11" + number(10) + field(1, 1) + field(2, 107000) + field(3, b"no"),
    "admin": b"\x02\x00" + number(6) + message(1, 1, 2),
    "surplus": b"\x00\x05" + number(4) + b"abcd",
    "empty": b"\x00\x02" + number(0),
    "over-long": b"\x00\x00" + number(16385),
    "longest": b"\x00\x40" + number(16384),
}

KEYS = ("npud.socket=/tmp/s npud.admin_socket=/tmp/a npud.access_group=* npud.admin_group= "
        "npud.backend=sim sim.devices=16 sim.memory=1M sim.soc_name=X engine.spin_us=0 "
        "stream.depth=64 ipc.scope=any ipc.linger_max=0 limits.sessions=1 limits.streams=2K "
        "limits.events=3G limits.ipc_events=4T limits.device_memory=5 limits.host_memory=6 "
        "limits.fds=7").split()

CONFIG_SEEDS = {key.split("=")[0]: b"\x00" + key.encode() for key in KEYS} | {
    "file-" + key.split("=")[0]: b"\x01[" + key.replace(".", "]\n", 1).encode() + b" ; text"
    for key in KEYS} | {
    "wrong": b"\x01[stream]\ndepth = 65\n",
    "continued": b"\x01[npud]\nsocket = a\n  b\n[limits\nfds : 18446744073709551615\n",
}

REPORT_SEEDS = {
    "status": field(1, message(b"1.0", 7, b"sim", 1, 2, 3, 4, 5, 6, 7, 8, 9)),
    "devices": field(2, message(0, b"Sim", 1 << 33, 5, 1, 2, 3, 4, 1)) * 2,
    "sessions": field(3, message(1, 100, 0, b"\x1b[31m\xc3\xa4\xff", 1, 2, 3, 4, 5)),
    "streams": field(4, message(1, 100, 0, 3, 0, 9, 8, b"waiting", b"record 3 of IPC event 4")),
    "events": field(5, message(1, 100, b"ipc", 0, 4, 5, b"done", 2))
    + field(5, message(0, 0, b"plain", 0, 4, 5, b"", 1)),
    "memory": field(6, message(1, 100, b"host", 0, 4096)),
    "waits": field(8, message(1, 100, b"p", b"stream 1", b"record 1", b"process 2", 5, b"waiting"))
    + field(9, message(1, b"certain", 2, b"a -> b")),
    "limits": field(7, message(0, b"streams", 0, 65536)),
}

# As in check_files.c: what is behind the head of each kind of record, and of each task.
CHECK_FORMS = (" 888t 44f 8t _ _ 84444 844 8844 844 44844 44844 448884444 448884444 448884444 "
               "44888 44888 88 88 844 844 8T 84488u 888 888 888 84488 84488 88 888 888 88 88 "
               "44844 88 88 88888 88 t _ t 844 88").split(" ")
TASK_FORMS = {7: "88844", 8: "884", 9: "84", 10: "844", 11: "8", 12: "8", 13: "8411", 14: "8411",
              15: "88", 16: "88", 17: "88844"}
CHUNK = 65536


class CheckFile:
    """The small numbers in place of the handles and addresses of a run."""

    def __init__(self):
        self.names = {}

    def put(self, value):
        if value >= 1 << 24 and value < (1 << 64) - 8:
            value = self.names.setdefault(value, 1 + len(self.names) % 200)
        return number(value)

    def numbers(self, data, at, form):
        out = b""
        for c in form:
            out += self.put(int.from_bytes(data[at:at + int(c)], "little"))
            at += int(c)
        return out, at

    def record(self, data):
        """The bytes of check_files.c for one record."""
        kind, _, length, place = struct.unpack_from("<BBHI", data)
        out, at = bytes([kind, min(place, 255), 1]), 16
        for c in CHECK_FORMS[kind].strip("_"):
            if c == "t":
                out += bytes([min(length, 255)]) + data[at:at + min(length, 255)]
            elif c == "f":
                part, at = self.numbers(data, at, "8" * struct.unpack_from("<I", data, 16)[0])
                out += part
            elif c == "u":
                part, at = self.numbers(data, at, "448844" * struct.unpack_from("<I", data, 24)[0])
                out += part
            elif c == "T":
                sequence, op, flags, _, slot, generation = struct.unpack_from("<QBBHII", data, at)
                out += (number(sequence) + number(op) + bytes([flags]) + number(slot)
                        + number(generation))
                out += self.numbers(data, at + 24, TASK_FORMS.get(op, ""))[0]
            else:
                part, at = self.numbers(data, at, c)
                out += part
        return out

    def chunk(self, data):
        """All records of a chunk."""
        out, at = b"", 16
        while at + 16 <= len(data) and data[at]:
            out += self.record(data[at:at + 8 * data[at + 1]])
            at += 8 * data[at + 1]
        return out


def checked_seed(directory):
    """What processes have written in a directory, as the bytes of check_files.c."""
    out, convert = b"\x00", CheckFile()
    for i, name in enumerate(sorted(os.listdir(directory))):
        with open(os.path.join(directory, name), "rb") as f:
            data = f.read()
        out += (bytes([len(CHECK_FORMS)]) if i else b"") + b"\x01"
        for j, at in enumerate(range(CHUNK, len(data), CHUNK)):
            writer = bytes([data[at + 12]])
            out += writer if j == 0 else bytes([len(CHECK_FORMS) + 1]) + writer
            out += convert.chunk(data[at:at + CHUNK])
    return out


SUPPRESS_SEEDS = {
    "all": b"a{\nname\n*\n}\n# a comment\n",
    "frames": b"a{\nname\nrace\nfirst\nfun:*a*b\n...\nobj:x\nsecond\nsrc:[a-z]?:12\n}\n",
    "wrong": b"a{\nname\nrain\n}\n",
    "open": b"a{\nname\nleak\n   ...\n",
}

SEEDS = {
    "request": {k: b"\x00" + v for k, v in REQUEST_SEEDS.items()}
    | {"poor-" + k: b"\x06" + v for k, v in REQUEST_SEEDS.items()},
    "ring": {k: b"\x00" + v for k, v in RING_SEEDS.items()}
    | {"slow-" + k: b"\x30" + v for k, v in RING_SEEDS.items()},
    "handle": HANDLE_SEEDS,
    "packet": PACKET_SEEDS,
    "config": CONFIG_SEEDS,
    "report": REPORT_SEEDS,
    "suppress": SUPPRESS_SEEDS,
}


def main():
    SEEDS["check"] = {os.path.basename(d): checked_seed(d) for d in sys.argv[2:]}
    for target, seeds in SEEDS.items():
        directory = os.path.join(sys.argv[1], target)
        os.makedirs(directory, exist_ok=True)
        for name, data in seeds.items():
            with open(os.path.join(directory, "seed-" + name), "wb") as f:
                f.write(data)


if __name__ == "__main__":
    main()
