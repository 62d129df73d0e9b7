"""Holds `npuctl metrics --listen`: real scrapes, and clients that mean no good.

usage: scrape.py serve NPUCTL        starts servers of its own, for the npud of $NPUD_ADMIN_SOCKET
       scrape.py await SOCKET VALUE  until npud_up is that at a server that runs
"""
import http.client
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

from prometheus_client import parser
from prometheus_client.openmetrics.parser import text_string_to_metric_families

GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
PEERS = 64  # connections that the server has
TIME = 5  # seconds for one
FEW = 12  # descriptors for a server
LIMIT = 300  # seconds: against hanging only


def connect(where):
    family = socket.AF_UNIX if isinstance(where, str) else (
        socket.AF_INET6 if ":" in where[0] else socket.AF_INET)
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(LIMIT)
    s.connect(where)
    return s


def read_all(s):
    got = b""
    while chunk := s.recv(65536):
        got += chunk
    return got


def ask(where, request):
    with connect(where) as s:
        s.sendall(request)
        head, _, body = read_all(s).partition(b"\r\n\r\n")
        return head.decode() + "\r\n", body


def parse(body):
    """The samples of what was answered."""
    families = text_string_to_metric_families(body.decode())
    return {sample.name: sample.value for f in families for sample in f.samples}


def status(where, request):
    return int(ask(where, request)[0].split()[1])


def is_refused(where, request):
    """By a status, or by the end of the connection: versions of the library differ."""
    try:
        head, _ = ask(where, request)
    except ConnectionResetError:
        return True
    return head == "\r\n" or int(head.split()[1]) >= 400


class Server:
    def __init__(self, npuctl, *address, **more):
        self.process = subprocess.Popen([npuctl, "metrics", *address], stdout=subprocess.PIPE,
                                        text=True, **more)
        line = self.process.stdout.readline()
        self.place = line.removeprefix("npuctl: listens at ").strip()
        assert self.place != line.strip(), line
        host, _, port = self.place.rpartition(":")
        self.where = self.place if host == "" else (host.strip("[]"), int(port))

    def end(self, by=signal.SIGTERM):
        self.process.send_signal(by)
        assert self.process.wait(LIMIT) == 0
        self.process.stdout.close()


OPEN = "application/openmetrics-text"
TEXT = "text/plain"


def check_accept(where):
    """What a scraper would rather have; OpenMetrics if it does not care."""
    for accept, form in (
            (b"", OPEN), (b"Accept: */*\r\n", OPEN), (b"Accept: text/plain\r\n", TEXT),
            (b"accept:text/plain;version=0.0.4;q=1,*/*;q=0.1\r\n", TEXT),
            (b"Accept: application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
             b"version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n", OPEN),
            (b"Accept: application/openmetrics-text;q=0.4, text/plain ; q=0.5\r\n", TEXT),
            (b"Accept: text/*\r\n", TEXT), (b"Accept: TEXT/PLAIN\r\n", TEXT),
            (b"Accept: image/png\r\nAccept: text/plain\r\n", TEXT),
            (b"Accept: image/png\r\n", OPEN), (b"Accept: ,,;q=,\t\r\n", OPEN),
            (b"Accept: application/openmetrics-text;q=0, */*\r\n", TEXT),
            (b"X-Accept: text/plain\r\n", OPEN), (b"Accept: text/plainly\r\n", OPEN)):
        head, body = ask(where, GET[:-2] + accept + b"\r\n")
        assert f"\r\nContent-Type: {form};" in head, (accept, head)
        assert f"\r\nContent-Length: {len(body)}\r\n" in head and b"npud_up 1\n" in body, head
        assert (b"\n# EOF\n" in body) == (form == OPEN), (accept, body)
        if form == TEXT:
            families = list(parser.text_string_to_metric_families(body.decode()))
            assert all(f.type in ("gauge", "counter", "histogram") for f in families), families


def check_answers(where):
    connection = http.client.HTTPConnection(*where, timeout=LIMIT)
    connection.request("GET", "/metrics?x=1")
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200 and answer.headers["Connection"] == "close"
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert parse(body)["npud_up"] == 1 and "npud_sessions" in parse(body)
    check_accept(where)
    head, body = ask(where, GET.replace(b"GET", b"HEAD"))
    assert " 200 " in head and body == b"" and "Content-Length: 0" not in head, head
    head, _ = ask(where, b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
    assert " 405 " in head and "\r\nAllow: GET, HEAD\r\n" in head, head
    for target in b"/", b"/metricsx", b"/metric", b"*", b"/../metrics":
        assert status(where, GET.replace(b"/metrics", target)) == 404, target
    for bad in (b"GET /metrics\r\n\r\n", b"GET /metrics HTTP/2.0\r\n\r\n",
                b"GET /metrics HTTP/1.1 x\r\nHost: x\r\n\r\n", b"GET /metrics HTTP/1.1\r\n\r\n",
                b"GET /metrics HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
                b"GET /metrics HTTP/1.1\r\nHost: x\r\nname\r\n\r\n",
                b"GET /metrics HTTP/1.1\r\nHost : x\r\n\r\n", b"x" * 16384,
                GET[:-2] + b"A: " + b"x" * 16384 + b"\r\n\r\n"):
        assert is_refused(where, bad), bad
    largest = GET[:-2] + b"A: " + b"x" * (8192 - len(GET) - 5) + b"\r\n\r\n"
    assert len(largest) == 8192 and status(where, largest) == 200
    assert status(where, b"GET /metrics HTTP/1.0\r\n\r\n") == 200


def check_pieces(where):
    with connect(where) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(GET)):
            s.sendall(GET[i:i + 1])
        assert read_all(s).startswith(b"HTTP/1.1 200")


def check_hostile(where):
    """More that say nothing than the server has places: the oldest go, and nobody else waits."""
    begin = time.monotonic()
    idle = [connect(where) for _ in range(3 * PEERS)]
    for s in idle[::7]:
        s.sendall(b"GET /met")
    assert status(where, GET) == 200
    for _ in range(200):  # these ask and do not wait for the answer
        with connect(where) as s:
            s.sendall(GET)
    unread = [connect(where) for _ in range(PEERS // 2)]
    for s in unread:
        s.sendall(GET * 50)
    assert status(where, GET) == 200
    assert time.monotonic() - begin < TIME, "one that asks waits for those that do not"
    with connect(where) as slow:  # has its time, and no more
        slow.sendall(b"GET")
        begin = time.monotonic()
        assert read_all(slow) == b"" and TIME - 1 < time.monotonic() - begin < LIMIT / 2
    for s in idle + unread:
        s.close()


def check_refusals(npuctl):
    for address in ("1.2.3.4", "localhost:1", "::1:80", "[::1]", "127.0.0.1:65536", "127.0.0.1:",
                    "127.0.0.1:-1", ":1", "[]:1", "/" + "x" * 200):
        r = subprocess.run([npuctl, "metrics", "--listen", address], capture_output=True,
                           text=True, timeout=LIMIT, check=False)
        assert r.returncode == 2 and "--listen wants" in r.stderr, (address, r)
    for words in (["status", "--listen"], ["metrics", "--listen", "-w"],
                  ["metrics", "--listen=127.0.0.1:0", "127.0.0.1:0"],
                  ["metrics", "127.0.0.1:0"]):
        r = subprocess.run([npuctl, *words], capture_output=True, timeout=LIMIT, check=False)
        assert r.returncode == 2, words


def check_file(npuctl, path):
    """What is no socket is not the server's to remove: not a file, nor what a link leads to."""
    with open(path, "w", encoding="ascii") as f:
        f.write("precious")
    os.symlink(path, path + "l")
    for name in path, path + "l":
        r = subprocess.run([npuctl, "metrics", "--listen", name], capture_output=True, text=True,
                           timeout=LIMIT, check=False)
        assert r.returncode == 1 and "File exists" in r.stderr, r
        assert os.path.getsize(name) == len("precious")


def start_few(npuctl):
    """A server with descriptors for few connections, and more of them than these."""
    server = Server(npuctl, "--listen", "127.0.0.1:0", preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_NOFILE, (FEW, FEW)))
    return server, [connect(server.where) for _ in range(2 * FEW)]


def check_few(server, idle):
    """It sleeps until one ends, and goes on."""
    assert read_all(idle[0]) == b""
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as f:
        ticks = sum(map(int, f.read().rpartition(")")[2].split()[11:13]))
    assert ticks < TIME * os.sysconf("SC_CLK_TCK") / 4, "it asks again and again"
    for s in idle:
        s.close()
    assert status(server.where, GET) == 200
    server.end()


def serve(npuctl):
    server = Server(npuctl, "--listen", "127.0.0.1:0")
    check_answers(server.where)
    check_pieces(server.where)
    few = start_few(npuctl)
    check_hostile(server.where)
    check_few(*few)
    r = subprocess.run([npuctl, "metrics", "--listen", server.place], capture_output=True,
                       text=True, timeout=LIMIT, check=False)
    assert r.returncode == 1 and "Address already in use" in r.stderr, r
    fds = f"/proc/{server.process.pid}/fd"
    with connect(server.where) as s:
        assert len(os.listdir(fds)) < 10, "connections that have ended are still open"
        s.sendall(b"GET")
        server.end(signal.SIGINT)
    if os.path.exists("/proc/net/if_inet6") and socket.has_ipv6:
        server = Server(npuctl, "--listen=[::1]:0")
        assert server.place.startswith("[::1]:") and status(server.where, GET) == 200
        server.end()
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/s"
        server = Server(npuctl, "--listen", path)
        assert status(path, GET) == 200
        server.process.kill()
        server.process.wait()
        assert os.path.exists(path)
        server.process.stdout.close()
        server = Server(npuctl, "--listen", path)
        r = subprocess.run([npuctl, "metrics", "--listen", path], capture_output=True,
                           timeout=LIMIT, check=False)
        assert r.returncode == 1 and status(path, GET) == 200
        server.end()
        assert not os.path.exists(path)
        check_file(npuctl, path)
    check_refusals(npuctl)


def await_value(path, value):
    """The server asks npud at most once in a second."""
    end = time.monotonic() + LIMIT
    while True:
        head, body = ask(path, GET)
        samples = parse(body)
        assert " 200 " in head and samples["npud_up"] == 1 or len(samples) == 1, samples
        if samples["npud_up"] == value:
            break
        assert time.monotonic() < end, samples


if sys.argv[1] == "serve":
    serve(sys.argv[2])
else:
    await_value(sys.argv[2], float(sys.argv[3]))
