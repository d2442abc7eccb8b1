"""`fumehood ask --time` while a model is being loaded: it ends in time, and the load goes on.

A program stands where llama-server would, so that the tests say when its model is loaded: it opens
its socket at once, is healthy when a file is there, and then writes one answer to everything.
"""
import http.server
import json
import sys
import threading
import time

import pytest

from ask_kit import Asked
from fumehood_kit import CELL_FAILED, FAULT, WAIT_S, House, wait_gone
from hub_kit import small_model

SERVER = """#!{python}
import json, os, socketserver, sys
from http.server import BaseHTTPRequestHandler
if sys.argv[1:] == ["--help"]:
    print("--host HOST")
    sys.exit(0)
TEXT = "```python\\nprint(6 * 7)\\n```"

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "a client"

    def reply(self, status, kind, data):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.reply(200 if os.path.exists({loaded!r}) else 503, "application/json", b"{{}}")

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        piece = json.dumps({{"choices": [{{"index": 0, "delta": {{"content": TEXT}},
                                         "finish_reason": "stop"}}]}})
        self.reply(200, "text/event-stream",
                   ("data: %s\\n\\ndata: [DONE]\\n\\n" % piece).encode())

class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

Server(sys.argv[sys.argv.index("--host") + 1], Handler).serve_forever()
"""


class Loading:
    """A house with a model whose server loads until load() is called."""

    def __init__(self):
        self.house = House()
        self.loaded = self.house.dir / "loaded"
        program = self.house.dir / "llama-server"
        program.write_text(SERVER.format(python=sys.executable, loaded=str(self.loaded)))
        program.chmod(0o755)
        self.model = self.house.dir / "little.gguf"
        self.model.write_bytes(small_model(1))
        self.house.env["FUMEHOOD_LLAMA_SERVER"] = str(program)

    def load(self):
        self.loaded.touch()

    def ask(self, *options, effort="low"):
        return Asked(self.house.cli("ask", "--json", "-m", str(self.model), "--effort", effort,
                                    *options, "Do it.", cwd=self.house.folder()))

    def status(self):
        done = self.house.cli("model", "status", "--json")
        return [json.loads(line) for line in done.out.splitlines()]

    def until(self, state):
        until = time.monotonic() + WAIT_S
        while [one["state"] for one in self.status()] != [state]:
            assert time.monotonic() < until, self.status()


@pytest.fixture
def loading():
    loading = Loading()
    yield loading
    loading.house.cli("model", "stop")
    bad = loading.house.close()
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("effort", ["low", "high"])
def test_loading_is_bounded_and_goes_on(loading, effort):
    asked = loading.ask("--time", "3", effort=effort)
    assert asked.status == CELL_FAILED
    assert set(asked.statuses) == {"interrupted"}
    message = asked.result["message"]
    assert message.startswith("the time was over (--time)") and "little" in message
    assert "goes on loading" in message and "ask again" in message
    assert asked.finished[0]["message"] in message
    assert asked.verdict["success"] is asked.result["success"] is False
    server, = loading.status()
    assert (server["state"], server["users"], server["starts"]) == ("starting", 0, 1)
    loading.load()
    loading.until("ready")
    again = loading.ask("--time", str(WAIT_S))
    assert again.status == 0 and again.result["stdout"] == "42"
    after, = loading.status()
    assert (after["server_pid"], after["starts"]) == (server["server_pid"], 1)


def test_what_was_loaded_for_nobody_waits_as_long_as_another(loading):
    """The server's time without a user begins when it is ready, not when its user left."""
    assert loading.ask("--time", "1").status == CELL_FAILED
    until = time.monotonic() + WAIT_S
    while (first := loading.status()[0])["idle_s"] < 3:
        assert first["state"] == "starting" and time.monotonic() < until
    loaded = time.monotonic()
    loading.load()
    loading.until("ready")
    ready, = loading.status()
    assert ready["server_pid"] == first["server_pid"]
    assert ready["idle_s"] <= time.monotonic() - loaded + 1
    loading.house.cli("model", "stop")
    assert wait_gone(first["server_pid"])


def test_enough_time(loading):
    loading.load()
    asked = loading.ask("--time", str(WAIT_S))
    assert asked.status == 0 and asked.result["stdout"] == "42"


class Starting(http.server.BaseHTTPRequestHandler):
    """What llama-server says while it loads."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        data = json.dumps({"error": {"message": "Loading model", "type": "unavailable_error",
                                     "code": 503}}).encode()
        self.send_response(503)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def test_a_server_of_a_url_that_still_loads(house):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Starting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            seen = house.cli("ask", "--json", "--time", "1", "--url",
                             "http://127.0.0.1:%d/v1" % server.server_address[1], "Do it.")
        finally:
            server.shutdown()
            thread.join()
    assert seen.status == FAULT, seen
    last = json.loads(seen.out.splitlines()[-1])
    assert (last["type"], last["code"]) == ("error", "timeout")
    assert "--time" in last["message"] and "Loading model" in last["message"], last
