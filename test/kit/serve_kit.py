"""The daemon as its clients meet it, for test/flow/test_serve*.py.

Daemon   a `fumehood serve` of a house, with its Unix socket, and TCP with a token
Answer   what came back            Raw  a connection on which bytes are sent as they are

Requests go through Python's own http.client: a library that helps less hides less.
"""
import http.client
import json
import os
import signal
import socket
import subprocess
import time

from fumehood_kit import WAIT_S, wait_readable


class Answer:
    """A whole answer."""

    def __init__(self, status, fields, body):
        self.status, self.fields, self.body = status, fields, body

    @property
    def text(self):
        return self.body.decode("utf-8")

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return "Answer(%d, %r)" % (self.status, self.body[:2000])


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=WAIT_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Raw:
    """A TCP connection for what no client library would send."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), WAIT_S)

    def send(self, data):
        self.sock.sendall(data)

    def read_all(self, wait_s=WAIT_S):
        """What comes until the end, which must come."""
        self.sock.settimeout(wait_s)
        data = b""
        while True:
            try:
                part = self.sock.recv(1 << 16)
            except ConnectionResetError:
                return data
            if not part:
                return data
            data += part

    def read_until(self, mark, wait_s=WAIT_S):
        self.sock.settimeout(wait_s)
        data = b""
        while mark not in data:
            part = self.sock.recv(1 << 16)
            assert part, "the end came before %r in %r" % (mark, data[-500:])
            data += part
        return data

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()


class Stream:
    """An answer that comes in parts: events as SSE or NDJSON."""

    def __init__(self, connection, answer):
        self.connection, self.answer = connection, answer
        self.status, self.last_id, self.ids = answer.status, 0, []

    def lines(self):
        for line in self.answer:
            yield line.decode("utf-8").rstrip("\n")

    def events(self):
        """The events, of either form."""
        for line in self.lines():
            if line.startswith("id: "):
                self.last_id = int(line[4:])
                self.ids.append(self.last_id)
            elif line.startswith("data: "):
                yield json.loads(line[6:])
            elif line.startswith("{"):
                yield json.loads(line)

    def close(self):
        self.answer.close()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Daemon:
    """A `fumehood serve`. Its sessions are the house's."""

    def __init__(self, house, *options, tcp=True, **environment):
        self.house = house
        words = ["--listen", "127.0.0.1:0"] if tcp else []
        self.process = house.popen("serve", *words, *options, env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.socket = str(house.runtime / "api.sock")
        self.said, self.port, self.token, self.url = "", None, None, None
        try:
            self._until("unix:")
            if tcp:
                self._until("api.json")
                note = json.loads((house.runtime / "api.json").read_text())
                self.url, self.token = note["url"], note["token"]
                self.port = int(self.url.rpartition(":")[2])
            self._until_ready()
        except BaseException:
            self.kill()
            raise

    def _until(self, words):
        until = time.monotonic() + WAIT_S
        while words not in self.said:
            wait_readable(self.process.stderr.fileno(), until, words)
            data = os.read(self.process.stderr.fileno(), 65536)
            assert data, "the daemon ended: " + self.said
            self.said += data.decode("utf-8", "replace")

    def _until_ready(self):
        until = time.monotonic() + WAIT_S
        while self.ask("GET", "/readyz").status != 200:
            assert time.monotonic() < until, "it never became ready"

    # ---- requests

    def connection(self, tcp=False):
        if tcp:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        return UnixConnection(self.socket)

    def _send(self, connection, method, path, body, fields, token):
        fields = dict(fields or {})
        if body is not None and not isinstance(body, (bytes, bytearray)):
            body = json.dumps(body).encode()
            fields.setdefault("Content-Type", "application/json")
        if token:
            fields["Authorization"] = "Bearer " + token
        connection.request(method, path, body, fields)
        return connection.getresponse()

    def ask(self, method, path, body=None, fields=None, token=None, tcp=False):
        """One request over a connection of its own; the whole answer."""
        connection = self.connection(tcp or token is not None)
        try:
            answer = self._send(connection, method, path, body, fields, token)
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path, **rest):
        return self.ask("GET", path, **rest)

    def post(self, path, body=None, **rest):
        return self.ask("POST", path, {} if body is None else body, **rest)

    def stream(self, method, path, body=None, accept="text/event-stream", fields=None, token=None):
        connection = self.connection(token is not None)
        fields = {"Accept": accept, **(fields or {})}
        return Stream(connection, self._send(connection, method, path, body, fields, token))

    def start(self, **body):
        """A session; its id."""
        answer = self.post("/v1/sessions", body)
        assert answer.status == 201, answer
        return answer.json["id"]

    def run(self, session, code, **more):
        answer = self.post("/v1/sessions/%s/run" % session, {"code": code, **more})
        assert answer.status == 200, answer
        return answer.json

    def metrics(self):
        """Counters and gauges without labels, and with them as they are written."""
        found = {}
        for line in self.get("/metrics").text.splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                found[name] = float(value)
        return found

    def until(self, what, check, wait_s=WAIT_S):
        """Asks until it is so."""
        until = time.monotonic() + wait_s
        while not check():
            assert time.monotonic() < until, "waited in vain for " + what

    # ---- the end

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=WAIT_S)
        self.said += err.decode("utf-8", "replace")
        assert "Sanitizer" not in self.said and "runtime error" not in self.said, self.said
        return self.process.returncode

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=WAIT_S)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None:
            status = self.stop()
            assert kind or status == 0, (status, self.said)
