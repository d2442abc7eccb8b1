"""The daemon met by the clients that people have: curl, requests, websockets, Redis.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
import redis
import requests
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect, unix_connect

from fumehood_kit import WAIT_S
from serve_kit import Daemon

SLOW = "import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.05)"


@pytest.fixture
def daemon(house):
    with Daemon(house) as daemon:
        daemon.session = daemon.start(name="work")
        yield daemon
        assert daemon.ask("DELETE", "/v1/sessions/work").status == 204


def test_curl(daemon, tmp_path):
    def curl(*words):
        return subprocess.run(["curl", "-sS", "--fail-with-body", "--unix-socket", daemon.socket,
                               *words], capture_output=True, timeout=WAIT_S, check=True).stdout
    base = "http://localhost/v1/sessions/work"
    kind = ("-H", "Content-Type: application/json")
    answer = json.loads(curl(base + "/run", *kind, "-d", '{"code": "6 * 7"}'))
    assert answer["text"] == "42"
    lines = curl("-N", base + "/run", *kind, "-H", "Accept: application/x-ndjson", "-d",
                 json.dumps({"code": SLOW})).splitlines()
    assert json.loads(lines[-1])["status"] == "ok"
    (tmp_path / "up").write_bytes(os.urandom(1 << 20))
    curl("-T", str(tmp_path / "up"), base + "/files/up")
    curl("-T", str(tmp_path / "up"), "-H", "Transfer-Encoding: chunked", base + "/files/two")
    for name in ("up", "two"):
        assert curl(base + "/files/" + name) == (tmp_path / "up").read_bytes()
    assert curl("-r", "5-9", base + "/files/up") == (tmp_path / "up").read_bytes()[5:10]


def post(body, accept):
    body = json.dumps(body).encode()
    return (b"POST /v1/sessions/work/run HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (accept, len(body), body))


@pytest.mark.parametrize("first, second", (
    (b"application/json", b"application/json"), (b"application/json", b"text/event-stream"),
    (b"text/event-stream", b"application/x-ndjson")))
def test_a_request_behind_an_answer_that_nobody_reads_yet(daemon, house, first, second):
    """What is left of the first answer is no reason that the second never ends."""
    with socket.socket(socket.AF_UNIX) as client:
        keeper = house.connect(daemon.session)
        client.settimeout(WAIT_S)
        client.connect(daemon.socket)
        client.sendall(post({"code": "print('x' * (8 << 20))", "id": "big"}, first)
                       + post({"code": "'the' + ' end'", "id": "behind"}, second))
        # An answer as JSON is whole before it is read, and the next request begins.
        keeper.event("finished", cell="behind" if first.endswith(b"json") else "big")
        keeper.sock.close()
        got = b""
        while b"the end" not in got:
            piece = client.recv(1 << 20)
            assert piece, got[-200:]
            got = got[-100:] + piece


def test_requests(daemon):
    with requests.Session() as http:
        http.headers["Authorization"] = "Bearer " + daemon.token
        base = daemon.url + "/v1/sessions/work"
        for number in range(20):
            answer = http.post(base + "/run", json={"code": "%d + 1" % number}, timeout=WAIT_S)
            assert answer.json()["text"] == str(number + 1)
        with http.post(base + "/run", json={"code": SLOW}, timeout=WAIT_S, stream=True,
                       headers={"Accept": "text/event-stream"}) as answer:
            kinds = [json.loads(line[6:])["type"] for line in answer.iter_lines()
                     if line.startswith(b"data: ")]
        assert kinds[0] == "cell" and kinds[-1] == "finished"
        answer = http.get(daemon.url + "/v1/sessions/nosuch/status", timeout=WAIT_S)
        assert answer.status_code == 404


# ------------------------------------------------------------------------------------ the channel

class Talk:
    """A channel as a program speaks it."""

    def __init__(self, socket):
        self.socket = socket
        self.hello = self.next()

    def next(self):
        return json.loads(self.socket.recv(timeout=WAIT_S))

    def send(self, **request):
        self.socket.send(json.dumps(request))

    def until(self, **fields):
        while True:
            line = self.next()
            if all(line.get(key) == value for key, value in fields.items()):
                return line


def test_channel(daemon):
    url = daemon.url.replace("http", "ws") + "/v1/sessions/work/channel"
    with connect(url, additional_headers={"Authorization": "Bearer " + daemon.token},
                 max_size=None) as socket:
        talk = Talk(socket)
        assert talk.hello["type"] == "hello" and talk.hello["session"] == daemon.session
        talk.send(op="events", id=1, follow=True)
        assert talk.until(type="reply", id=1)["to"] >= 1
        talk.send(op="run", id="c1", code="print(input('? '))", allow_stdin=True)
        assert talk.until(type="input_request")["prompt"] == "? "
        talk.send(op="input", text="yes")
        assert talk.until(type="stream")["text"] == "yes\n"
        assert talk.until(type="finished")["status"] == "ok"
        talk.send(op="run", code="for i in range(300): print('x' * 60000)", id="c2")
        count = 0
        while True:
            event = talk.next()
            count += len(event.get("text", "")) if event.get("type") == "stream" else 0
            if event.get("type") == "finished":
                break
        assert count == 300 * 60001
        talk.send(op="nosuch", id=5)
        assert talk.until(type="refused", id=5)["code"] == "denied"
        socket.send("{")
        assert talk.until(type="refused")["code"] == "invalid"
        talk.send(op="policy", set={"net": []}, id=6)  # over TCP it is not for tokens
        assert talk.until(type="refused", id=6)["code"] == "denied"
        talk.send(op="stop", id=7)
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                talk.next()
        assert closed.value.rcvd.code == 1001
    with unix_connect(daemon.socket, uri="ws://x/v1/sessions/work/channel") as socket:
        assert Talk(socket).hello["type"] == "hello"  # it was opened again


def test_channel_of_a_page(daemon, house):
    """A browser can set no field but its protocols; and scopes hold for each op."""
    token = house.cli("token", "create", "--scope", "read").out.strip()
    url = daemon.url.replace("http", "ws") + "/v1/sessions/work/channel"
    with connect(url, subprotocols=["fumehood.v1", "fumehood.token." + token]) as socket:
        assert socket.subprotocol == "fumehood.v1"
        talk = Talk(socket)
        talk.send(op="status", id=1)
        assert talk.until(type="reply", id=1)["state"] == "idle"
        talk.send(op="run", id="c1", code="1")
        assert talk.until(type="refused", id="c1")["code"] == "denied"
    with pytest.raises(InvalidStatus):
        connect(url, subprotocols=["fumehood.v1", "fumehood.token." + token + "x"])
    with pytest.raises(InvalidStatus):
        connect(url, subprotocols=["fumehood.v1", "fumehood.token." + token],
                origin="https://evil.example")


def test_a_graceful_stop_says_so_to_channels(house):
    daemon = Daemon(house, tcp=False)
    ident = daemon.start()
    with unix_connect(daemon.socket, uri="ws://x/v1/sessions/%s/channel" % ident) as socket:
        talk = Talk(socket)
        daemon.process.send_signal(signal.SIGTERM)
        with pytest.raises(ConnectionClosed) as closed:
            talk.next()
        assert closed.value.rcvd.code == 1012
    assert daemon.stop() == 0


# ------------------------------------------------------------------------------------------ Redis

class Redis:
    """A redis-server of our own, on a Unix socket."""

    def __init__(self, folder):
        self.folder, self.socket, self.process = folder, str(folder / "redis.sock"), None

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "",
             "--dir", str(self.folder)], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        until = time.monotonic() + WAIT_S
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as probe:
                    probe.connect(self.socket)
                    return self
            except OSError:
                assert self.process.poll() is None and time.monotonic() < until

    def client(self):
        return redis.Redis(unix_socket_path=self.socket, decode_responses=True)

    def stop(self):
        self.process.kill()
        self.process.wait(WAIT_S)
        if os.path.exists(self.socket):
            os.unlink(self.socket)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


class Hearing:
    """Messages of a channel."""

    def __init__(self, client, channel):
        self.hearing = client.pubsub(ignore_subscribe_messages=False)
        self.hearing.subscribe(channel)
        assert self.hearing.get_message(timeout=WAIT_S)["type"] == "subscribe"

    def until(self, check):
        """The messages up to and with the one for which it is so."""
        found = []
        while True:
            message = self.hearing.get_message(timeout=WAIT_S)
            assert message, found
            found.append(json.loads(message["data"]))
            if check(found[-1]):
                return found

    def close(self):
        self.hearing.close()


def test_redis(house, tmp_path):
    assert shutil.which("redis-server"), "redis-server is not installed"
    server = Redis(tmp_path)
    with server, Daemon(house, "--redis", "unix://" + server.socket, "--redis-stream", "1000",
                        tcp=False) as daemon:
        ident = daemon.start()
        client = server.client()
        hearing = Hearing(client, "fumehood:" + ident)
        daemon.until("the connection", lambda: published(daemon, ident))
        answer = daemon.run(ident, "print('told')", id="c9")
        heard = [event for event in hearing.until(
            lambda event: event["type"] == "finished" and event["cell"] == "c9")
            if event.get("cell") == "c9"]
        assert heard == answer["events"] + [answer["finished"]]
        kept = [json.loads(entry["event"]) for _, entry in client.xrange("fumehood:" + ident)]
        assert [event for event in kept if event.get("cell") == "c9"][:len(heard)] == heard
        assert "%d-0" % heard[-1]["seq"] in [
            number for number, _ in client.xrange("fumehood:" + ident)]
        hearing.close()
        client.close()
        # While it is away nothing is held up; when it is back it is found again.
        server.stop()
        daemon.until("the loss", lambda: daemon.run(ident, "1")["status"] == "ok"
                     and daemon.metrics()["fumehood_redis_dropped_total"] > 0)
        server.start()
        before = daemon.metrics()["fumehood_redis_published_total"]
        daemon.until("its return", lambda: daemon.run(ident, "1")["status"] == "ok"
                     and daemon.metrics()["fumehood_redis_published_total"] > before)
    assert house.cli("serve", "--redis", "http://x").status == 2


def published(daemon, ident):
    daemon.run(ident, "0")
    return daemon.metrics()["fumehood_redis_published_total"] > 0


def test_original_events(house, tmp_path):
    """As the original's own front end reads them."""
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n1/0"
    server = Redis(tmp_path)
    with server, Daemon(house, "--redis", "unix://" + server.socket, "--original-events",
                        tcp=False) as daemon:
        ident = daemon.start(name="20260101-000000-abcdef01")
        daemon.until("the connection", lambda: published(daemon, ident))
        client = server.client()
        hearing = Hearing(client, "task:20260101-000000-abcdef01:messages")
        with unix_connect(daemon.socket,
                          uri="ws://x/task/20260101-000000-abcdef01") as listener:
            daemon.run(ident, code)
            heard = hearing.until(lambda message: message.get("output"))
            assert [json.loads(listener.recv(timeout=WAIT_S)) for _ in heard] == heard
        assert [message["msg_type"] for message in heard] == ["system", "tool", "system", "tool"]
        assert [message["content"] for message in heard if message["msg_type"] == "system"] == [
            "开始执行代码", "代码执行完成"]
        assert heard[1]["tool_name"] == "execute_code" and heard[1]["input"] == {"code": code}
        out, err, error = heard[3]["output"]
        assert out == {"res_type": "result", "format": "text", "msg": "out\n"}
        assert err == {"res_type": "stderr", "msg": "err\n"}
        assert error["res_type"] == "stderr" and "ZeroDivisionError" in error["msg"]
        assert len({message["id"] for message in heard}) == 4
        hearing.close()
        client.close()
        with pytest.raises(InvalidStatus):
            unix_connect(daemon.socket, uri="ws://x/task/nosuch")


# ---------------------------------------------------------------------------------- schemathesis

def test_the_description_is_true(daemon):
    """What is made of /openapi.json at random is answered as it says: no status, type or body that
    is not described, and none of 500."""
    st = os.path.join(os.path.dirname(sys.executable), "st")
    assert os.path.exists(st), "schemathesis is not installed"
    result = subprocess.run(
        [st, "run", daemon.url + "/openapi.json", "-H", "Authorization: Bearer " + daemon.token,
         "--max-examples", "5", "--phases", "coverage,fuzzing", "--seed", "7",
         # A description cannot say all that a request must be; wrong tokens are soon told 429.
         "--exclude-checks", "positive_data_acceptance,ignored_auth",
         "--exclude-path-regex", r"/v1/run|/stop$|/fork$",
         "--exclude-operation-id", "post_sessions",
         "--exclude-operation-id", "delete_sessions_session",
         "--generation-database", "none", "--no-color"],
        capture_output=True, timeout=10 * WAIT_S, text=True, cwd=daemon.house.dir)
    assert result.returncode == 0, result.stdout[-6000:]
