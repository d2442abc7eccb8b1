"""The work `serve`: the daemon, beside jupyter-kernel-gateway, which is what people put before
kernels to reach them over HTTP.

Both are asked by clients that do next to nothing: bytes on a socket here, websocket-client's frames
there (the gateway runs cells over a WebSocket only). Sessions start through REST on both sides.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import uuid

import machine
from sides import expect

READERS = 100
IDLE = 1000
WAIT_S = 120


class Connection:
    """One keep-alive connection to the daemon's Unix socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)  # with a time limit it would not wait for its turn: connect(2)
        self.socket.settimeout(WAIT_S)
        self.buffer = b""

    def send(self, method, path, body=None, accept="application/json"):
        data = b"" if body is None else json.dumps(body).encode()
        head = "%s %s HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\n" % (method, path, accept)
        if body is not None:
            head += "Content-Type: application/json\r\nContent-Length: %d\r\n" % len(data)
        self.socket.sendall(head.encode() + b"\r\n" + data)

    def fill(self):
        more = self.socket.recv(1 << 16)
        expect(more, "the daemon has closed a connection")
        self.buffer += more

    def until(self, mark):
        """What comes up to and with the mark."""
        while mark not in self.buffer:
            self.fill()
        found, _, self.buffer = self.buffer.partition(mark)
        return found

    def ask(self, method, path, body=None):
        self.send(method, path, body)
        head = self.until(b"\r\n\r\n").decode("latin-1")
        expect(int(head.split(" ", 2)[1]) < 300, head)
        size = [int(line.split(":")[1]) for line in head.splitlines()
                if line.lower().startswith("content-length:")]
        while len(self.buffer) < sum(size):
            self.fill()
        data, self.buffer = self.buffer[:sum(size)], self.buffer[sum(size):]
        return json.loads(data) if data else None

    def close(self):
        self.socket.close()


class Daemon:
    """`fumehood serve`, and sessions that are started and ended by it."""

    def __init__(self, fumehood, python):
        self.path, self.python = os.environ["XDG_RUNTIME_DIR"] + "/fumehood/api.sock", python
        self.process = subprocess.Popen(
            [fumehood.build + "/fumehood", "serve", "--max-sessions", "200"],
            env=fumehood.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.connection = _patiently(lambda: Connection(self.path))

    def session(self):
        return DaemonSession(self)

    def stop(self):
        self.connection.close()
        self.process.terminate()
        self.process.wait(WAIT_S)


class DaemonSession:
    def __init__(self, daemon):
        self.connection = Connection(daemon.path)
        self.id = self.connection.ask("POST", "/v1/sessions", {"python": daemon.python})["id"]
        self.path = "/v1/sessions/" + self.id

    def run(self, code="x=1"):
        """-> ms until the answer is in"""
        began = time.perf_counter()
        answer = self.connection.ask("POST", self.path + "/run", {"code": code})
        expect(answer["status"] == "ok", answer)
        return (time.perf_counter() - began) * 1e3

    def stop(self):
        self.connection.ask("DELETE", self.path)
        self.connection.close()


class Gateway:
    """jupyter-kernel-gateway as it comes."""

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            ["jupyter", "kernelgateway", "--KernelGatewayApp.ip=127.0.0.1",
             "--KernelGatewayApp.port=%d" % self.port],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _patiently(lambda: self.ask("GET", "/api"))

    def ask(self, method, path, body=None):
        request = urllib.request.Request(
            "http://127.0.0.1:%d%s" % (self.port, path), method=method,
            data=None if body is None else json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            data = answer.read()
        return json.loads(data) if data else None

    def session(self):
        return GatewaySession(self)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(WAIT_S)


class GatewaySession:
    def __init__(self, gateway):
        import websocket

        self.gateway = gateway
        self.id = gateway.ask("POST", "/api/kernels", {"name": "python3"})["id"]
        self.socket = websocket.create_connection(
            "ws://127.0.0.1:%d/api/kernels/%s/channels" % (gateway.port, self.id), timeout=WAIT_S)

    def run(self, code="x=1"):
        """-> ms until the reply and the state idle are in"""
        began, name = time.perf_counter(), uuid.uuid4().hex
        self.socket.send(json.dumps({
            "channel": "shell", "parent_header": {}, "metadata": {}, "buffers": [],
            "header": {"msg_id": name, "msg_type": "execute_request", "username": "",
                       "session": "bench", "date": "", "version": "5.3"},
            "content": {"code": code, "silent": False, "store_history": True,
                        "user_expressions": {}, "allow_stdin": False, "stop_on_error": True}}))
        idle = status = None
        while not (idle and status):
            message = json.loads(self.socket.recv())
            if message["parent_header"].get("msg_id") != name:
                continue
            if message["msg_type"] == "execute_reply":
                status = message["content"]["status"]
            elif message["msg_type"] == "status":
                idle = message["content"]["execution_state"] == "idle"
        expect(status == "ok", status)
        return (time.perf_counter() - began) * 1e3

    def stop(self):
        self.socket.close()
        self.gateway.ask("DELETE", "/api/kernels/" + self.id)


def _patiently(action):
    """Until it succeeds: a server is starting."""
    until = time.monotonic() + WAIT_S
    while True:
        try:
            return action()
        except OSError:
            expect(time.monotonic() < until, "the server does not start")
            time.sleep(0.02)


# ---------------------------------------------------------------- rows


def _first_answer(server):
    began = time.perf_counter()
    session = server.session()
    session.run("1+1")
    passed = (time.perf_counter() - began) * 1e3
    session.stop()
    return passed


def _start(bench, row, daemon, gateway):
    ours, peers = [], []
    _first_answer(daemon)  # starts the pool
    for _ in range(bench.size(5, 1)):
        for _ in range(bench.size(5, 1)):
            bench.fumehood.until_spare()
            ours.append(_first_answer(daemon))
        peers.append(_first_answer(gateway))
    yield row("serve", "session by REST and its first answer", ours, peers,
              note="with the pool's spare")


def _trips(bench, row, daemon, gateway):
    ours, peers = [], []
    with contextlib.closing(_Sessions(daemon, 1)) as mine, contextlib.closing(
            _Sessions(gateway, 1)) as theirs:
        for session in (mine.all[0], theirs.all[0]):
            for _ in range(50):
                session.run()
        for _ in range(bench.size(4, 1)):
            ours += [mine.all[0].run() for _ in range(bench.size(250, 20))]
            peers += [theirs.all[0].run() for _ in range(bench.size(100, 20))]
    yield row("serve", "x=1 over HTTP on the Unix socket, p50", ours, peers, goal=1 / 15,
              note=f"{machine.median(ours) * 1e3:.0f} us, of at most 250")


class _Sessions:
    """Some sessions, to be used at once."""

    def __init__(self, server, count):
        self.all = [server.session() for _ in range(count)]

    def rate(self, cells):
        """All run so many cells each; -> ms a cell, of the whole"""
        def some(session):
            for _ in range(cells):
                session.run()

        threads = [threading.Thread(target=some, args=(session,)) for session in self.all]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (time.perf_counter() - began) * 1e3 / cells / len(threads)

    def close(self):
        for session in self.all:
            session.stop()


def _rates(bench, row, daemon, gateway):
    for clients, of_peer in ((1, 1), (8, 8), (64, 0)):
        clients = bench.size(clients, min(clients, 8))
        cells = max(2, bench.size(1000, 20) // clients)
        ours, peers = [], []
        with contextlib.closing(_Sessions(daemon, clients)) as mine, contextlib.closing(
                _Sessions(gateway, of_peer)) as theirs:
            mine.rate(2)
            for _ in range(bench.size(3, 1)):
                ours.append(mine.rate(cells))
                if of_peer:
                    peers.append(theirs.rate(max(2, cells // 4)))
        yield row("serve", "a run, %s with a session each" % (
            "one client" if clients == 1 else "%d clients" % clients), ours, peers,
                  note=f"{1e3 / machine.median(ours):.0f} runs a second")


def _fan_out(bench, row, daemon):
    """From before a run until the last of the readers has its end."""
    count, ours = bench.size(READERS, 10), []
    with contextlib.closing(_Sessions(daemon, 1)) as one:
        session = one.all[0]
        session.run()
        readers = [Connection(daemon.path) for _ in range(count)]
        for reader in readers:
            reader.send("GET", session.path + "/events", accept="text/event-stream")
            reader.until(b'"type":"finished"')
        for number in range(bench.size(20, 3)):
            mark = b'"finished","cell":"f%d"' % number
            began = time.perf_counter()
            session.connection.ask("POST", session.path + "/run",
                                   {"code": "print(%d)" % number, "id": "f%d" % number})
            for reader in readers:
                reader.until(mark)
            ours.append((time.perf_counter() - began) * 1e3)
        for reader in readers:
            reader.close()
    yield row("serve", "a cell's events, at %d readers (SSE)" % count, ours)


def _idle(bench, row, daemon):
    count = bench.size(IDLE, 50)
    before = machine.rss_mib(daemon.process.pid)
    connections = [Connection(daemon.path) for _ in range(count)]
    for connection in connections:
        connection.ask("GET", "/healthz")
    grown = machine.rss_mib(daemon.process.pid) - before
    for connection in connections:
        connection.close()
    yield row("serve", "memory of the daemon for an idle connection", [grown * 1024 / count],
              unit="KiB", note=f"of {count}, each after one request")


def rows(bench, row):
    # Else a client's thread that has its answer waits 5 ms for its turn, behind another's.
    sys.setswitchinterval(5e-5)
    daemon = Daemon(bench.fumehood, sys.executable)
    try:
        gateway = Gateway()
        try:
            yield from _start(bench, row, daemon, gateway)
            yield from _trips(bench, row, daemon, gateway)
            yield from _rates(bench, row, daemon, gateway)
        finally:
            gateway.stop()
        yield from _fan_out(bench, row, daemon)
        yield from _idle(bench, row, daemon)
    finally:
        daemon.stop()
