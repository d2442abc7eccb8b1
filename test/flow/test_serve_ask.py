"""POST /v1/ask: `fumehood ask` behind the daemon, with answers from a file.
"""
import json
import pathlib
import re
import socket
import time

import pytest

from fumehood_kit import WAIT_S
from process_kit import children, read_proc
from serve_kit import Daemon

GOOD = "```python\nprint(6 * 7)\n```"
BAD = "```python\nraise ValueError('no')\n```"
SLOW = {"text": GOOD, "delay_ms": 600000}
SPIN = "```python\nwhile True:\n    print('x' * 1000)\n```"


@pytest.fixture
def daemon(house):
    with Daemon(house) as daemon:
        yield daemon


@pytest.fixture
def script(tmp_path):
    """Writes a file of answers; its path."""
    def write(*answers):
        path = tmp_path / ("%d.ndjson" % len(list(tmp_path.iterdir())))
        path.write_text("".join(json.dumps(answer if isinstance(answer, dict) else {"text": answer})
                                + "\n" for answer in answers))
        return str(path)
    return write


def problem(answer, status, words=""):
    assert answer.status == status, answer
    assert answer.fields["Content-Type"] == "application/problem+json"
    assert words in answer.json["detail"], answer
    return answer.json


def asks(daemon):
    """{outcome: how many}, and how many run."""
    found = daemon.metrics()
    counts = {re.search('"(.*)"', name).group(1): int(value) for name, value in found.items()
              if name.startswith("fumehood_asks_total")}
    return counts, found["fumehood_asks"]


def test_forms_of_an_answer(daemon, script):
    body = {"instruction": "6 * 7", "script": script(GOOD, GOOD), "effort": "low"}
    answer = daemon.post("/v1/ask", body)
    assert answer.status == 200 and answer.fields["Content-Type"] == "application/json"
    result = answer.json
    assert result["type"] == "result" and result["success"] and result["confidence"] == "ran"
    assert (result["stdout"].strip(), result["code"].strip(), result["attempts"]) == \
        ("42", "print(6 * 7)", 1)
    assert result["response"] == GOOD
    # The session is kept, and says the same.
    assert daemon.get("/v1/sessions/" + result["session"]).status == 200
    for accept in ("application/x-ndjson", "text/event-stream"):
        with daemon.stream("POST", "/v1/ask", {**body, "attempts": "show"}, accept,
                           {"Content-Type": "application/json"}) as stream:
            assert stream.status == 200 and stream.answer.getheader("Content-Type") == accept
            lines = list(stream.events())
        types = [line["type"] for line in lines]
        assert types[0] == "ask" and types[-1] == "result" and types.count("result") == 1
        assert {"attempt", "token", "code", "verdict"} <= set(types)
        assert lines[-1]["stdout"].strip() == "42"
    problem(daemon.post("/v1/ask", body, fields={"Accept": "text/html"}), 406)
    assert asks(daemon) == ({"success": 3, "failure": 0, "cancelled": 0, "error": 0}, 0)
    log = (daemon.house.dir / "state/fumehood/audit.ndjson").read_text()
    assert '"route":"/v1/ask","session":"%s","status":200' % result["session"] in log


def test_failures(daemon, script):
    answer = daemon.post("/v1/ask", {"instruction": "x", "script": script(*[BAD] * 9)})
    assert answer.status == 200 and answer.json["success"] is False and answer.json["message"]
    # A check of the user's.
    answer = daemon.post("/v1/ask", {"instruction": "x", "script": script(*[GOOD] * 9),
                                     "expect": "42", "assert": ["1 + 1 == 2"]})
    assert answer.json["success"] and answer.json["confidence"] == "checked"
    answer = daemon.post("/v1/ask", {"instruction": "x", "script": script(*[GOOD] * 9),
                                     "expect": ["43"], "programs": 1})
    assert answer.json["success"] is False
    # Faults before anything is asked have their status, whatever form was wanted.
    for accept in ("application/json", "application/x-ndjson", "text/event-stream"):
        answer = daemon.post("/v1/ask", {"instruction": "x", "script": "/nonexistent"},
                             fields={"Accept": accept})
        assert answer.status >= 400 and "nonexistent" in answer.json["detail"], answer
    outcome = asks(daemon)[0]
    assert (outcome["success"], outcome["failure"], outcome["error"]) == (1, 2, 3)


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson",
                                    "text/event-stream"])
def test_a_model_that_fails_behind_a_program(daemon, script, accept):
    body = {"instruction": "x", "effort": "low",
            "script": script(BAD, *[{"text": "", "error": "cut"}] * 8)}
    if accept == "application/json":
        answer = daemon.post("/v1/ask", body)
        assert answer.status == 200
        result = answer.json
    else:
        with daemon.stream("POST", "/v1/ask", body, accept,
                           {"Content-Type": "application/json"}) as stream:
            assert stream.status == 200
            result = list(stream.events())[-1]
    assert result["type"] == "result" and result["success"] is False
    assert result["fault"] == {"code": "gone", "message": "cut"}
    assert "cut" in result["message"] and "ValueError" in result["message"]
    assert [line["status"] for line in result["programs"]][:2] == ["error", "model"]
    assert asks(daemon)[0]["failure"] == 1


def test_in_a_session(daemon, script):
    ident = daemon.start(name="work")
    daemon.run(ident, "x = 6")
    body = {"instruction": "x times 7", "session": "work", "effort": "low",
            "script": script("```python\nprint(x * 7)\n```")}
    result = daemon.post("/v1/ask", body).json
    assert result["success"] and result["stdout"].strip() == "42" and result["session"] == ident
    assert daemon.run(ident, "x")["text"] == "6"
    problem(daemon.post("/v1/ask", {**body, "session": "nosuch"}), 404)
    assert daemon.ask("DELETE", "/v1/sessions/work").status == 204


def test_bodies_are_checked_before_anything_is_started(daemon):
    for body in ({}, {"instruction": ""}, {"instruction": ["x"]}, {"instruction": "x", "y": 1},
                 {"instruction": "x", "programs": 0},
                 {"instruction": "x", "programs": 17}, {"instruction": "x", "seconds": "1"},
                 {"instruction": "x", "effort": "most"}, {"instruction": "x", "detach": 1},
                 {"instruction": "x", "template": "/etc/passwd"}):
        problem(daemon.post("/v1/ask", body), 400)
    problem(daemon.ask("POST", "/v1/ask", b"instruction=x", {"Content-Type": "text/plain"}), 415)
    problem(daemon.ask("GET", "/v1/ask"), 405)
    key = {"Idempotency-Key": "k" * 300}
    problem(daemon.post("/v1/ask", {"instruction": "x"}, fields=key), 400)
    assert asks(daemon) == ({"success": 0, "failure": 0, "cancelled": 0, "error": 0}, 0)


def commands():
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_text(errors="replace")
        except OSError:
            pass


def test_what_tokens_may_not(house, script):
    with Daemon(house, "--ask-url", "http://127.0.0.1:9/v1") as daemon:
        def ask(token=daemon.token, **body):
            return daemon.post("/v1/ask", {"instruction": "x", **body}, token=token)
        for body in ({"workspace": "/home"}, {"script": script(GOOD)}, {"model": "/etc/passwd"},
                     {"model": "../x"}, {"model": "x.gguf"}, {"model": "a/b"},
                     {"url": "http://169.254.169.254/latest"}, {"url": "http://127.0.0.1:9/v1/.."},
                     {"url": "unix:///run/x"}):
            problem(ask(**body), 403)
        # The daemon's own list is asked; nobody listens there.
        answer = ask(url="http://127.0.0.1:9/v1", model="a/b", seconds=20, programs=1)
        assert problem(answer, 502)["code"] == "gone"
        token = house.cli("token", "create", "--scope", "run").out.strip()
        problem(ask(token), 403, "manage")
        token = house.cli("token", "create", "--scope", "read").out.strip()
        problem(ask(token), 403, "scope")


class Silent:
    """A server that takes requests and never answers."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def test_nothing_of_a_body_is_on_a_command_line(daemon, tmp_path):
    secret = "sesame-%d" % time.monotonic_ns()
    workspace = tmp_path / secret
    workspace.mkdir()
    with Silent() as server:
        body = {"instruction": secret, "system": "@/etc/" + secret, "input": secret,
                "expect": [secret, "/%s/" % secret], "assert": "'%s'" % secret,
                "url": "http://127.0.0.1:%d/%s/v1" % (server.port, secret), "model": secret,
                "workspace": str(workspace), "seed": 7, "effort": "low"}
        with daemon.stream("POST", "/v1/ask", body, "application/x-ndjson",
                           {"Content-Type": "application/json"}) as stream:
            lines = stream.events()
            first = next(lines)
            assert first["instruction"] == first["input"] == first["model"] == secret
            assert [check["text"] for check in first["checks"]] == \
                [secret, "/%s/" % secret, "'%s'" % secret]
            assert next(lines)["seed"] == 7  # it is being asked now
            seen = [text for text in commands() if secret in text]
            assert not seen
            asked = [read_proc(pid, "cmdline") for pid in children(daemon.process.pid)]
            assert asked == [b"ask\0--json\0--options=/proc/self/fd/3\0"
                             b"--system=@/proc/self/fd/4\0-\0"]
    daemon.until("its end", lambda: asks(daemon)[1] == 0)


def test_long_texts(daemon, script):
    """Longer than a word of a command line may be, and more of them than fit on one."""
    text = ("x" * 25000 + "\n") * 10
    code = "```python\nimport sys\nprint(len(sys.stdin.read()))\n```"
    body = {"instruction": "x", "script": script(code), "effort": "low", "input": text,
            "assert": ["'%s'" % ("a" * 60000)] * 15, "run_seconds": 600}
    answer = daemon.post("/v1/ask", body)
    assert answer.status == 200 and answer.json["confidence"] == "checked", answer.json["message"]
    assert answer.json["stdout"] == str(len(text))
    problem(daemon.post("/v1/ask", {**body, "input": text * 2}), 413, "256 KiB")
    problem(daemon.post("/v1/ask", {**body, "assert": "a" * 70000}), 400)


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_client_that_goes_cancels(daemon, script, accept):
    for answers in ([SLOW], [SPIN]):  # while the model thinks; while its program runs
        body = {"instruction": "x", "script": script(*answers), "programs": 1, "run_seconds": 600}
        connection = daemon.connection()
        connection.request("POST", "/v1/ask", json.dumps(body),
                           {"Content-Type": "application/json", "Accept": accept})
        daemon.until("the ask", lambda: asks(daemon)[1] == 1)
        connection.close()
        daemon.until("its end", lambda: asks(daemon)[1] == 0)
    assert asks(daemon)[0]["cancelled"] == 2


def test_a_detached_ask_goes_on(daemon, script):
    body = {"instruction": "x", "script": script({"text": GOOD, "delay_ms": 1500}), "effort": "low"}
    connection = daemon.connection()
    connection.request("POST", "/v1/ask?detach=true", json.dumps(body),
                       {"Content-Type": "application/json", "Idempotency-Key": "detached"})
    daemon.until("the ask", lambda: asks(daemon)[1] == 1)
    connection.close()
    # Whoever has the key finds it again, while it runs and behind its end.
    for _ in range(2):
        answer = daemon.post("/v1/ask?detach=true", body, fields={"Idempotency-Key": "detached"})
        assert answer.status == 200 and answer.json["stdout"].strip() == "42"
    assert asks(daemon) == ({"success": 1, "failure": 0, "cancelled": 0, "error": 0}, 0)
    key = {"Idempotency-Key": "detached"}
    problem(daemon.post("/v1/ask", {**body, "seed": 5}, fields=key), 422)
    # Another token's key is another key.
    problem(daemon.post("/v1/ask", {"instruction": "y", "url": "http://x"}, token=daemon.token,
                        fields=key), 403)


def test_asks_are_limited(house, script):
    with Daemon(house, "--max-asks", "2") as daemon:
        path = script(SLOW)
        streams = [daemon.stream("POST", "/v1/ask", {"instruction": "x", "script": path},
                                 "application/x-ndjson", {"Content-Type": "application/json"})
                   for _ in range(2)]
        answer = daemon.post("/v1/ask", {"instruction": "x", "script": path})
        problem(answer, 503, "2 asks")
        assert answer.fields["Retry-After"]
        for stream in streams:
            stream.close()
        daemon.until("room", lambda: asks(daemon)[1] == 0)
        assert daemon.post("/v1/ask", {"instruction": "x", "script": script(GOOD),
                                       "effort": "low"}).json["success"]


def test_a_reader_that_sleeps_is_waited_for(daemon, script):
    """The daemon gathers nothing: the program's prints wait in pipes."""
    body = json.dumps({"instruction": "x", "script": script(SPIN), "programs": 1,
                       "run_seconds": 600}).encode()
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(daemon.socket)
    sock.sendall(b"POST /v1/ask HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                 b"Accept: application/x-ndjson\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    sock.settimeout(WAIT_S)
    seen = b""
    while b'"output"' not in seen:
        part = sock.recv(65536)
        assert part, seen[-2000:]
        seen = seen[-65536:] + part
    for _ in range(20):  # others are answered meanwhile, and memory does not grow
        assert daemon.get("/healthz").status == 200
    with open("/proc/%d/status" % daemon.process.pid) as status:
        rss = int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1))
    assert rss < 200 << 10, rss
    sock.close()
    daemon.until("its end", lambda: asks(daemon)[1] == 0)


def test_an_ask_sees_nothing_of_where_the_daemon_stands(house, daemon, script):
    secret = house.dir / "work" / "secret.txt"  # its working directory
    secret.write_text("sesame")
    made = secret.with_name("made")
    look = "```python\nimport os\nprint(os.listdir())\nopen('made', 'w').close()\n```"
    path = script(*[look] * 9)
    result = daemon.post("/v1/ask", {"instruction": "x", "script": path, "programs": 16}).json
    assert result["success"] and result["stdout"] == "[]" and not made.exists()
    # Over the Unix socket it can be named.
    result = daemon.post("/v1/ask", {"instruction": "x", "script": path, "effort": "low",
                                     "workspace": str(secret.parent)}).json
    assert "secret.txt" in result["stdout"] and made.exists()
    made.unlink()
    secret.unlink()


def test_what_the_program_says_of_its_options(daemon, script):
    answer = daemon.post("/v1/ask", {"instruction": "x", "script": script(GOOD), "model": "y"})
    problem(answer, 400, "--script goes without --url and --model")


@pytest.mark.parametrize("detach", ["true", "false"])
def test_the_daemon_is_killed_while_the_model_thinks(house, script, detach):
    with Daemon(house) as daemon:
        with daemon.stream("POST", "/v1/ask?detach=" + detach,
                           {"instruction": "x", "script": script(SLOW)}, "application/x-ndjson",
                           {"Content-Type": "application/json"}) as stream:
            session = next(stream.events())["session"]
            asks_of = {pid for pid, words in house.processes().items() if "ask --json" in words}
            assert asks_of
            daemon.kill()
    daemon.until("the child's end", lambda: not asks_of & set(house.processes()))
    log = (house.sessions / session / "journal.ndjson").read_text()
    assert '"type":"verdict"' in log and '"success":false' in log


def test_the_daemons_end_tells_its_clients(house, script):
    daemon = Daemon(house)
    with daemon.stream("POST", "/v1/ask", {"instruction": "x", "script": script(SLOW)},
                       "application/x-ndjson", {"Content-Type": "application/json"}) as stream:
        lines = stream.events()
        assert next(lines)["type"] == "ask"
        with daemon:
            assert daemon.stop() == 0
        last = list(lines)[-1]
        assert last["type"] in ("result", "error") and not last.get("success")
