"""The daemon attacked: bad requests, bad frames, slow and greedy clients. Each is refused or
bounded, and an honest client beside them is served all the while.
"""
import re
import resource
import select
import socket
import struct
import threading
import time

import pytest

import http_attacks
from fumehood_kit import LONG, WAIT_S
from serve_kit import Daemon, Raw

FRAME = http_attacks.frame


@pytest.fixture
def daemon(house):
    """Beside each attack there is someone who has a session and uses it, before and after."""
    with Daemon(house, "--head-time", "1500ms", "--write-time", "2", "--rate", "100000") as one:
        one.session = one.start()
        assert one.run(one.session, "6 * 7")["text"] == "42"
        yield one
        assert one.process.poll() is None, one.said
        assert one.run(one.session, "6 * 7")["text"] == "42"


def memory(daemon):
    with open("/proc/%d/status" % daemon.process.pid) as file:
        return int(next(line for line in file if line.startswith("VmRSS")).split()[1])


def answer_of(port, data, wait_s=0.4):
    """The statuses that came, and whether the connection has ended."""
    with Raw(port) as raw:
        try:
            raw.send(data)
        except OSError:
            pass
        got, ended, until = b"", False, time.monotonic() + wait_s
        while time.monotonic() < until:
            raw.sock.settimeout(max(0.01, until - time.monotonic()))
            try:
                part = raw.sock.recv(1 << 16)
            except socket.timeout:
                break
            except OSError:
                part = b""
            if not part:
                ended = True
                break
            got += part
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d\d\d)", got)], ended


def is_good(verdict, codes, ended):
    if verdict == "take":
        return codes[:1] == [200]
    if verdict == "take twice":
        return codes == [200, 200]
    if verdict == "refuse":
        return (bool(codes) or ended) and all(code >= 400 for code in codes)
    return codes[:1] == [verdict]


def test_requests(daemon):
    bad, count = [], 0
    for name, data, verdict in http_attacks.http_cases(daemon.port, daemon.token, daemon.session):
        count += 1
        for wait_s in (0.4, 5):  # on a busy machine an answer may take its time
            codes, ended = answer_of(daemon.port, data, wait_s)
            if is_good(verdict, codes, ended):
                break
        else:
            bad.append((name, verdict, codes, ended))
    assert not bad and count > 90


def test_mutants(daemon):
    """Changed at random, none ends the daemon or its other clients."""
    for number, data in enumerate(http_attacks.mutants(
            daemon.port, daemon.token, daemon.session, 7, 20000 if LONG else 600)):
        with Raw(daemon.port) as raw:
            raw.sock.settimeout(0.02)
            try:
                raw.send(data[:len(data) // 2])
                raw.send(data[len(data) // 2:])
                raw.sock.recv(4000)
            except OSError:
                pass
        if number % 200 == 0:
            assert daemon.get("/healthz").status == 200


# ------------------------------------------------------------------------------------ WebSocket

class Channel:
    """The channel of the daemon's session, in bytes."""

    def __init__(self, daemon):
        self.raw = Raw(daemon.port)
        make = http_attacks.Maker(daemon.port, daemon.token, daemon.session)
        self.raw.send(make.get(make.channel, make.upgrade).encode())
        head = self.raw.read_until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101")
        self.buffer = head.partition(b"\r\n\r\n")[2]
        assert b'"hello"' in self.next()[1]

    def next(self, wait_s=WAIT_S):
        """The next frame: its opcode and its bytes; None at the end."""
        self.raw.sock.settimeout(wait_s)
        while True:
            size, at = len(self.buffer), 2
            length = self.buffer[1] & 127 if size > 1 else 0
            if length == 126 and size >= 4:
                length, at = struct.unpack(">H", self.buffer[2:4])[0], 4
            elif length == 127 and size >= 10:
                length, at = struct.unpack(">Q", self.buffer[2:10])[0], 10
            if size >= max(2, at + length) and (length < 126 or at > 2):
                found = self.buffer[0] & 15, self.buffer[at:at + length]
                self.buffer = self.buffer[at + length:]
                return found
            try:
                part = self.raw.sock.recv(1 << 20)
            except ConnectionResetError:
                part = b""
            if not part:
                return None
            self.buffer += part

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.raw.sock.close()


def outcome_of(channel, verdict):
    """What a case has led to; reads until that is clear."""
    found = channel.next()
    if found is None:
        return "end"
    opcode, data = found
    if opcode == 8:
        return struct.unpack(">H", data[:2])[0] if len(data) > 1 else "end"
    return "pong" if opcode == 10 and verdict == "pong" else \
        outcome_of(channel, verdict) if opcode in (9, 10) else "answer"


def test_frames(daemon):
    bad, count = [], 0
    for name, frames, verdict in http_attacks.ws_cases():
        count += 1
        with Channel(daemon) as channel:
            try:
                channel.raw.send(b"".join(frames))
            except OSError:
                pass
            outcome = outcome_of(channel, verdict)
        if outcome != verdict:
            bad.append((name, verdict, outcome))
    assert not bad and count > 30


def test_many_fragments(daemon):
    """300,000 fragments of one message that never ends, which would each be kept."""
    before = memory(daemon)
    with Channel(daemon) as channel:
        try:
            channel.raw.send(FRAME(1, b"x", 0) + FRAME(0, b"x", 0) * 300000)
        except OSError:
            pass
        assert outcome_of(channel, 1009) in (1009, "end")
    assert memory(daemon) - before < 8 << 10


def test_pings_of_one_who_does_not_read(daemon):
    before = memory(daemon)
    with Channel(daemon) as channel:
        channel.raw.sock.settimeout(1)
        with pytest.raises(OSError):  # it is not read any more, and then cut
            channel.raw.send(FRAME(9, b"x" * 100) * 400000)
    assert memory(daemon) - before < 8 << 10


# ------------------------------------------------------------------------------- slow and greedy

@pytest.mark.parametrize("first", ["", "GET /", "GET / HTTP/1.1\r\nHost: x\r\nX-A: ", "body"])
def test_slow_clients_are_cut(daemon, first):
    """A byte now and then does not win more time."""
    make = http_attacks.Maker(daemon.port, daemon.token, daemon.session)
    if first == "body":
        first = make.start + "Content-Length: 60000\r\n\r\n{"
    began = time.monotonic()
    with Raw(daemon.port) as raw:
        raw.send(first.encode())
        raw.sock.settimeout(0.2)
        while True:
            assert time.monotonic() - began < WAIT_S
            try:
                if first:
                    raw.send(b"a")
                if raw.sock.recv(1000) == b"":
                    break
            except socket.timeout:
                pass
            except OSError:
                break
    assert time.monotonic() - began > 1


def test_a_reader_that_takes_nothing_is_cut(daemon):
    code = "print(('y' * 1000 + '\\n') * 20000)"
    run = ('POST /v1/sessions/%s/run HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n'
           'Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s')
    body = '{"code": "%s", "detach": true}' % code.replace("\\", "\\\\")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(WAIT_S)
        sock.connect(daemon.socket)
        sock.sendall((run % (daemon.session, len(body), body)).encode())
        poll = select.poll()
        poll.register(sock, 0)  # POLLHUP alone
        assert poll.poll(WAIT_S * 1000), "it was never cut"


def test_half_closed_and_byte_by_byte(daemon):
    make = http_attacks.Maker(daemon.port, daemon.token, daemon.session)
    with Raw(daemon.port) as raw:
        raw.send(make.get(make.list).encode())
        raw.sock.shutdown(socket.SHUT_WR)
        assert raw.read_all().startswith(b"HTTP/1.1 200")
    with Raw(daemon.port) as raw:
        raw.send(make.post().encode()[:-3])
        raw.sock.shutdown(socket.SHUT_WR)
        assert raw.read_all().startswith(b"HTTP/1.1 400")
    with Raw(daemon.port) as raw:
        for byte in make.post().encode():
            raw.send(bytes([byte]))
        assert raw.read_until(b"{}").startswith(b"HTTP/1.1 200")
    with Raw(daemon.port) as raw:
        raw.send(make.get(make.list).encode() + b"GARBAGE\r\n\r\n")
        assert re.findall(rb"HTTP/1.1 (\d\d\d)", raw.read_all()) == [b"200", b"400"]


def test_a_thousand_idle_connections(daemon):
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))
    before, opened = memory(daemon), []
    try:
        for _ in range(1000):
            connection = daemon.connection()
            connection.request("GET", "/healthz")
            assert connection.getresponse().read()
            opened.append(connection)
        assert memory(daemon) - before < 20 << 10
        assert daemon.metrics()["fumehood_connections"] > 1000
        assert daemon.run(daemon.session, "1 + 1")["text"] == "2"
    finally:
        for connection in opened:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
    daemon.until("their end", lambda: daemon.metrics()["fumehood_connections"] < 10)


def test_connections_are_limited(house):
    with Daemon(house, "--max-connections", "5", tcp=False) as daemon:
        opened = [daemon.connection() for _ in range(5)]
        for connection in opened:
            connection.request("GET", "/healthz")
            assert connection.getresponse().read()
        assert daemon.get("/healthz").status == 503
        for connection in opened:
            connection.close()
        daemon.until("room", lambda: daemon.get("/healthz").status == 200)


def test_streams_are_limited(house):
    with Daemon(house, "--max-streams", "2", tcp=False) as daemon:
        events = "/v1/sessions/%s/events" % daemon.start()
        opened = [daemon.stream("GET", events) for _ in range(2)]
        assert [stream.status for stream in opened] == [200, 200]
        assert daemon.get(events).status == 429
        for stream in opened:
            stream.close()
        daemon.until("room", lambda: daemon.get(events + "?follow=false").status == 200)


def test_sessions_that_do_not_exist(daemon):
    """Ten thousand times, over ten connections at once."""
    statuses = []

    def ask():
        connection = daemon.connection()
        for _ in range(1000 if LONG else 200):
            connection.request("GET", "/v1/sessions/nosuchsession/status")
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        connection.close()
    before = memory(daemon)
    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert set(statuses) == {404} and len(statuses) == (10000 if LONG else 2000)
    assert memory(daemon) - before < 8 << 10


# ---------------------------------------------------------------------------------------- tokens

def test_tokens(daemon, house):
    """Scopes, names, the end, revoking: each at the next request."""
    def create(*words):
        result = house.cli("token", "create", *words)
        assert result.status == 0 and "only time" in result.err
        return result.out.strip()

    def status(token, method, path, body=None):
        return daemon.ask(method, path, body, token=token).status
    run, session = "/v1/sessions/%s/run" % daemon.session, "/v1/sessions/" + daemon.session
    reader = create("--scope", "read", "--name", "reader")
    assert status(reader, "GET", session) == 200
    assert status(reader, "POST", run, {"code": "1"}) == 403
    assert status(reader, "DELETE", session) == 403
    assert status(reader, "GET", "/metrics") == 403
    assert status(create("--scope", "metrics"), "GET", "/metrics") == 200
    bot = create("--scope", "run,read,manage", "--sessions", "bot-", "--max-sessions", "1")
    assert status(bot, "GET", session) == 404  # as if it were not there
    assert status(bot, "POST", run, {"code": "1"}) == 404
    assert status(bot, "POST", "/v1/sessions", {"name": "x"}) == 403
    assert status(bot, "POST", "/v1/sessions", {}) == 403
    assert status(bot, "POST", "/v1/run", {"code": "1"}) == 403
    assert status(bot, "POST", "/v1/sessions", {"name": "bot-1"}) == 201
    assert status(bot, "POST", "/v1/sessions", {"name": "bot-2"}) == 429
    names = [item["name"] for item in
             daemon.get("/v1/sessions", token=bot).json["sessions"]]
    assert names == ["bot-1"]
    assert status(bot, "POST", "/v1/sessions/bot-1/run", {"code": "1"}) == 200
    assert status(bot, "DELETE", "/v1/sessions/bot-1") == 204
    short = create("--scope", "read", "--expires", "1")
    daemon.until("its end", lambda: status(short, "GET", session) == 401)
    assert house.cli("token", "revoke", "reader").status == 0
    assert status(reader, "GET", session) == 401
    listed = house.cli("token", "list", "--json").out
    assert "sha256" not in listed and bot not in listed and '"sessions":"bot-"' in listed
    for path in house.dir.glob("state/fumehood/tokens/*"):
        assert bot.encode() not in path.read_bytes() and path.stat().st_mode & 0o77 == 0
    assert house.cli("token", "create", "--scope", "runs").status == 2
    assert house.cli("token", "revoke", "nosuch").status != 0


def test_the_audit_log_says_no_more_than_it_should(daemon, house):
    daemon.post("/v1/sessions/%s/run" % daemon.session, {"code": "secret_word = 5"})
    text = (house.dir / "state/fumehood/audit.ndjson").read_text()
    assert "secret_word" not in text and daemon.token not in text
    assert '"route":"/v1/sessions/{}/run","session":"%s","status":200' % daemon.session in text


def test_pages_of_other_sites(house):
    with Daemon(house, "--origin", "https://app.example") as daemon:
        fields = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST",
                  "Access-Control-Request-Headers": "authorization"}
        answer = daemon.ask("OPTIONS", "/v1/sessions", fields=fields, tcp=True)
        assert answer.status == 204
        assert answer.fields["Access-Control-Allow-Origin"] == "https://app.example"
        answer = daemon.get("/v1/sessions", fields={"Origin": "https://app.example"},
                            token=daemon.token)
        assert answer.status == 200
        assert answer.fields["Access-Control-Allow-Origin"] == "https://app.example"
        fields["Origin"] = "https://app.example.evil"
        answer = daemon.ask("OPTIONS", "/v1/sessions", fields=fields, tcp=True)
        assert answer.status == 403 and "Access-Control-Allow-Origin" not in answer.fields
