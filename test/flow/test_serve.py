"""The daemon: sessions, runs, events, and what belongs to them, over HTTP.
"""
import base64
import io
import json
import os
import re
import socket
import subprocess
import sys
import threading
import zipfile

import pytest

from fumehood_kit import FUMEHOOD, ROOT, WAIT_S, kill
from serve_kit import Daemon, Raw

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


@pytest.fixture
def daemon(house):
    with Daemon(house) as daemon:
        yield daemon


@pytest.fixture
def session(daemon):
    return daemon.start()


def path(session, *rest):
    return "/".join(["/v1/sessions", session, *rest])


def problem(answer, status, code=None):
    """Checks that it is a problem document as RFC 9457 has it."""
    assert answer.status == status, answer
    assert answer.fields["Content-Type"] == "application/problem+json"
    body = answer.json
    assert set(body) == {"type", "title", "status", "detail", "code"} and body["status"] == status
    assert body["type"] == "urn:fumehood:" + body["code"] and body["detail"]
    assert code in (None, body["code"]), body
    return body["detail"]


# -------------------------------------------------------------------------------------- sessions

def test_a_session_from_start_to_end(daemon, house):
    answer = daemon.post("/v1/sessions", {"name": "work", "timeout": 20, "limits": {"queue": 3}})
    assert answer.status == 201
    ident = answer.json["id"]
    assert answer.fields["Location"] == path(ident) and answer.json["state"] == "idle"
    assert daemon.run("work", "x = 6\nprint('hello')\nx * 7")["text"] == "hello\n42"
    listed, = [item for item in daemon.get("/v1/sessions").json["sessions"] if item["id"] == ident]
    assert listed["running"] and listed["name"] == "work" and listed["last_seq"] >= 1
    assert daemon.get(path("work")).json["id"] == ident
    limits = daemon.get(path(ident, "limits")).json["limits"]
    assert limits["wall_s"]["value"] == 20 and limits["queue"]["value"] == 3
    problem(daemon.post("/v1/sessions", {"name": "work"}), 409, "duplicate")
    # Stopped and kept, opened again, removed.
    assert daemon.ask("DELETE", path(ident) + "?keep=true").status == 204
    assert daemon.get(path(ident)).json["state"] == "stopped"
    assert "open" in problem(daemon.get(path(ident, "status")), 410, "gone")
    assert daemon.post(path(ident, "open")).status == 200
    assert daemon.run(ident, "'x' in globals()")["text"] == "False"
    assert daemon.ask("DELETE", path(ident)).status == 204
    problem(daemon.get(path(ident)), 404, "not_found")
    assert not (house.sessions / ident).exists()


def test_bad_starts_are_refused(daemon):
    for body in ({"nmae": "x"}, {"name": "-x"}, {"name": 5}, {"timeout": 0}, {"limits": {"x": 1}},
                 {"limits": {"files": -1}}, {"tier": "some"}, {"durability": "much"}):
        problem(daemon.post("/v1/sessions", body), 400, "invalid")
    for body in ({"workspace": "/etc"}, {"python": "/bin/sh"}, {"tier": "none"},
                 {"policy": {"read": ["/root"]}}, {"policy": {"env": {"HOME": None}}},
                 {"policy": {"net": ["example.org"]}}):
        problem(daemon.post("/v1/sessions", body, token=daemon.token), 403, "denied")
    problem(daemon.ask("POST", "/v1/sessions", b"{}", {"Content-Type": "text/plain"}), 415)
    problem(daemon.ask("POST", "/v1/sessions", b"{", {"Content-Type": "application/json"}), 400)
    problem(daemon.ask("POST", "/v1/sessions", b'{"name":"a","name":"b"}',
                       {"Content-Type": "application/json"}), 400)
    problem(daemon.post("/v1/sessions", [1]), 400)


def test_sessions_of_others_are_left_to_them(daemon, house):
    """A daemon's connection would keep a one-shot session alive behind its program."""
    with house.pipe() as pipe:
        ident = pipe.hello["session"]
        problem(daemon.post(path(ident, "run"), {"code": "1"}), 403, "denied")
        assert pipe.run("1 + 1").result == "2"
    problem(daemon.get(path(ident)), 404)


def test_the_limit_of_sessions(house):
    with Daemon(house, "--max-sessions", "2") as daemon:
        daemon.start()
        daemon.start()
        assert "limit" in problem(daemon.post("/v1/sessions"), 429)


# ------------------------------------------------------------------------------------------ runs

def test_forms_of_a_run(daemon, session):
    run = path(session, "run")
    body = {"code": "print('a')\n1 / 0"}
    whole = daemon.post(run, body).json
    assert whole["status"] == "error" and whole["finished"]["status"] == "error"
    kinds = [event["type"] for event in whole["events"]]
    assert kinds == ["cell", "started", "stream", "error"]
    assert "ZeroDivisionError" in whole["text"] and whole["text"].startswith("a\n")
    for accept in ("text/event-stream", "application/x-ndjson"):
        with daemon.stream("POST", run, body, accept) as stream:
            assert stream.status == 200 and stream.answer.headers["Content-Type"] == accept
            events = list(stream.events())
        assert [event["type"] for event in events] == kinds + ["finished"]
        assert accept != "text/event-stream" or stream.ids == [event["seq"] for event in events]
    answer = daemon.post(run, body, fields={"Accept": "text/plain"})
    assert answer.text == whole["text"].replace("<cell 1>", "<cell 4>")
    problem(daemon.post(run, body, fields={"Accept": "image/png"}), 406)
    problem(daemon.post(run, {"cod": "1"}), 400)
    problem(daemon.post(run, {"code": 1}), 400)
    problem(daemon.post(run, {"code": "1", "id": "a b"}), 400)
    problem(daemon.post(run, {"code": "1", "timeout": -1}), 400, "invalid")
    assert daemon.post(run, {"code": "1", "id": "mine"}).json["cell"] == "mine"
    problem(daemon.post(run, {"code": "1", "id": "mine"}), 409, "duplicate")


def test_images_come_whole(daemon, session):
    """Values that lie in blobs are inline in an answer, and can be had by their name."""
    code = "from IPython.display import display\ndisplay({'text/plain': 'y' * 200000}, raw=True)"
    display, = [event for event in daemon.run(session, code)["events"]
                if event["type"] == "display"]
    assert display["data"]["text/plain"] == "y" * 200000
    with daemon.stream("GET", path(session, "events") + "?inline=false",
                       accept="application/x-ndjson") as stream:
        display, = [event for event in stream.events() if event["type"] == "display"]
    link = display["data"]["text/plain"]["$blob"]
    answer = daemon.get(path(session, "blobs", link) + "?length=3").json
    assert base64.b64decode(answer["data"]) == b"yyy" and answer["total"] == 200000
    problem(daemon.get(path(session, "blobs", "xyz")), 404)


def test_a_key_makes_a_run_happen_once(daemon, session):
    run, key = path(session, "run"), {"Idempotency-Key": "order 1"}
    body = {"code": "n = globals().get('n', 0) + 1\nn"}
    first = daemon.post(run, body, fields=key).json
    again = daemon.post(run, body, fields=key).json
    assert again["cell"] == first["cell"] and again["text"] == first["text"] == "1"
    for accept in ("application/json", "text/event-stream"):
        problem(daemon.post(run, {"code": "n"}, fields={**key, "Accept": accept}), 422)
    with daemon.stream("POST", run, body, fields=key) as stream:
        assert [event["type"] for event in stream.events()][-1] == "finished"
    # Over a new daemon as well: the key is in the record, not in the daemon.
    daemon.stop()
    with Daemon(daemon.house) as other:
        assert other.post(run, body, fields=key).json["finished"] == first["finished"]
        assert other.run(session, "n")["text"] == "1"


def test_respond_async(daemon, session):
    answer = daemon.post(path(session, "run"), {"code": "input('go')", "allow_stdin": True},
                         fields={"Prefer": "respond-async"})
    assert answer.status == 202 and answer.fields["Preference-Applied"] == "respond-async"
    place = answer.fields["Location"]
    assert place == path(session, "cells", answer.json["cell"])
    with daemon.stream("GET", path(session, "events")) as stream:
        for event in stream.events():
            if event["type"] == "input_request":
                break
        assert daemon.get(place).json["status"] == "running"
        assert daemon.post(path(session, "input"), {"text": "now"}).status == 200
        for event in stream.events():
            if event["type"] == "finished":
                break
    assert daemon.get(place).json["status"] == "ok"
    assert daemon.get(place + "/text", fields={"Accept": "text/plain"}).text.endswith("'now'")
    problem(daemon.get(path(session, "cells", "nosuch")), 404)


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_client_that_goes_interrupts_its_run(daemon, session, accept):
    run = {"code": "import time\nprint('on', flush=True)\nwhile True: time.sleep(1)", "id": "c1"}
    with daemon.stream("GET", path(session, "events")) as watch:
        events = watch.events()
        connection = daemon.connection()
        connection.request("POST", path(session, "run"), json.dumps(run).encode(),
                           {"Content-Type": "application/json", "Accept": accept})
        assert any(event["type"] == "stream" for event in events)
        connection.close()
        finished = next(event for event in events if event["type"] == "finished")
    assert finished["status"] == "interrupted"


def test_a_detached_run_goes_on(daemon, session):
    run = {"code": "print('on', flush=True)\nprint(input())", "id": "c1", "allow_stdin": True}
    with daemon.stream("GET", path(session, "events")) as watch:
        events = watch.events()
        with daemon.stream("POST", path(session, "run") + "?detach=true", run) as stream:
            assert any(event["type"] == "input_request" for event in stream.events())
        assert any(event["type"] == "input_request" for event in events)
        daemon.post(path(session, "input"), {"text": "back"})
        finished = next(event for event in events if event["type"] == "finished")
    assert finished["status"] == "ok"


def test_interrupt_queue_and_ops(daemon, session):
    with daemon.stream("POST", path(session, "run"),
                       {"code": "print(1, flush=True)\nwhile True: pass", "id": "c1"}) as stream:
        assert any(event["type"] == "stream" for event in stream.events())
        problem(daemon.post(path(session, "complete"), {"code": "im"}), 503, "busy")
        problem(daemon.post(path(session, "interrupt"), {"cell": "other"}), 404, "not_found")
        assert daemon.post(path(session, "interrupt")).json == {"interrupted": True}
        assert [event["status"] for event in stream.events() if event["type"] == "finished"] == [
            "interrupted"]
    daemon.run(session, "value = [1, 2]")
    names = [item["name"] for item in daemon.get(path(session, "variables")).json["variables"]]
    assert names == ["value"]
    matches = daemon.post(path(session, "complete"), {"code": "value.app"}).json["matches"]
    assert matches == ["value.append"] or "append" in matches
    assert daemon.post(path(session, "inspect"), {"code": "value"}).json["found"]
    assert daemon.post(path(session, "section"), {"title": "Part"}).status == 200
    assert daemon.post(path(session, "note"), {"text": "words"}).json["note"]
    assert daemon.post(path(session, "note"), {"text": "w", "id": "n7"}).json["note"] == "n7"
    notebook = daemon.get(path(session, "notebook"))
    assert notebook.fields["Content-Type"] == "application/x-ipynb+json"
    assert notebook.json["nbformat"] == 4 and len(notebook.json["cells"]) == 5
    assert daemon.get(path(session, "outputs") + "?section=Part").json["cells"] == []
    assert daemon.get(path(session, "images")).json["images"] == []
    assert daemon.post(path(session, "restart")).status == 200
    assert daemon.get(path(session, "variables")).json["variables"] == []
    problem(daemon.post(path(session, "input"), {"text": "x"}), 404, "not_found")
    problem(daemon.post(path(session, "complete"), {"op": "stop", "code": ""}), 400)
    problem(daemon.post(path(session, "policy"), {"set": {"net": []}}, token=daemon.token), 403)
    assert daemon.post(path(session, "policy"), {"set": {"net": []}}).status == 200


def test_one_shot(daemon, house):
    answer = daemon.post("/v1/run", {"code": "print(6 * 7)"})
    assert answer.status == 200 and answer.json["text"] == "42"
    ident = answer.json["session"]
    daemon.until("its removal", lambda: not (house.sessions / ident).exists())
    problem(daemon.post("/v1/run", {"code": "1", "session": {"nmae": 1}}), 400)
    problem(daemon.post("/v1/run", {}), 400)


def test_trace(daemon, session):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    answer = daemon.post(path(session, "run"), {"code": "1"}, fields={"traceparent": trace})
    assert answer.json["events"][0]["metadata"]["traceparent"] == trace
    answer = daemon.post(path(session, "run"), {"code": "1"}, fields={"traceparent": "00-x"})
    assert "metadata" not in answer.json["events"][0]


# ---------------------------------------------------------------------------------------- events

def test_events_from_any_place(daemon, session):
    daemon.run(session, "print(1)")
    daemon.run(session, "print(2)", id="two")
    events = path(session, "events")

    def numbers(query="", **fields):
        with daemon.stream("GET", events + query, accept="application/x-ndjson",
                           fields=fields) as stream:
            assert stream.status == 200
            found = [event["seq"] for event in stream.events()]
            return [number for number in found if not last or number <= last]
    last = 0
    last = numbers()[-1]  # a checkpoint may be told behind it
    assert numbers() == list(range(1, last + 1))
    assert numbers("?since=4") == list(range(5, last + 1))
    assert numbers("?since=4", **{"Last-Event-ID": "6"}) == list(range(7, last + 1))
    assert numbers("?since=%d" % last) == []
    with daemon.stream("GET", events + "?cell=two", accept="application/x-ndjson") as stream:
        assert {event["cell"] for event in stream.events()} == {"two"}
    problem(daemon.get(events, fields={"Last-Event-ID": "x"}), 400)
    problem(daemon.get(events + "?since=x"), 400)
    problem(daemon.get(events + "?sinse=1"), 400)
    problem(daemon.get(events + "?since=1&since=2"), 400)
    problem(daemon.get(events, fields={"Accept": "text/html"}), 406)


def test_a_killed_daemon_loses_nothing(house):
    """Twenty runs stream when it is killed; their clients come back to another and miss nothing."""
    code = "import time\nfor i in range(60):\n    print(i, flush=True)\n    time.sleep(0.05)"
    daemon = Daemon(house, tcp=False)
    idents = [daemon.start() for _ in range(20)]
    places, began = {}, threading.Barrier(21)

    def follow(ident):
        with daemon.stream("POST", path(ident, "run") + "?detach=true", {"code": code}) as stream:
            seen = []
            try:
                for event in stream.events():
                    seen.append(event)
                    if len(seen) == 5:
                        began.wait(WAIT_S)
            except (OSError, ValueError) as error:
                assert not isinstance(error, json.JSONDecodeError), error
            except Exception as error:  # http.client's own: the chunk was cut
                assert type(error).__name__ == "IncompleteRead", error
            places[ident] = seen
    threads = [threading.Thread(target=follow, args=[ident]) for ident in idents]
    for thread in threads:
        thread.start()
    began.wait(WAIT_S)
    daemon.kill()
    for thread in threads:
        thread.join(WAIT_S)
    assert len(places) == 20 and all(len(seen) >= 5 for seen in places.values())
    with Daemon(house, tcp=False) as other:
        other.until("their adoption",
                    lambda: sum(item["state"] != "unknown" for item in
                                other.get("/v1/sessions").json["sessions"]
                                if item["id"] in idents) == 20)
        for ident, seen in places.items():
            assert "finished" not in [event["type"] for event in seen]
            with other.stream("GET", path(ident, "events"),
                              fields={"Last-Event-ID": str(seen[-1]["seq"])}) as stream:
                for event in stream.events():
                    seen.append(event)
                    if event["type"] == "finished":
                        break
            numbers = [event["seq"] for event in seen]
            assert numbers == list(range(numbers[0], numbers[0] + len(seen)))
            assert seen[-1]["status"] == "ok"
            text = "".join(event["text"] for event in seen if event["type"] == "stream")
            assert text == "".join("%d\n" % i for i in range(60))


def test_a_reader_that_sleeps(daemon, session):
    """It costs no memory and holds up nobody, and has all of it when it reads on."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(WAIT_S)
    sock.connect(daemon.socket)
    with sock:
        sock.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n"
                     % path(session, "events").encode())
        before = memory(daemon)
        code = "for i in range(500): print('%d ' % i + 'x' * 65000)"
        assert daemon.run(session, code, id="big")["status"] == "ok"
        assert memory(daemon) - before < 40 << 10  # KiB; the JSON answer itself is gathered
        data = b""
        while b'"type":"finished"' not in data[-30000:]:
            part = sock.recv(1 << 20)
            assert part
            data += part
    assert all(b"%d x" % i in data for i in range(500))


def memory(daemon):
    with open("/proc/%d/status" % daemon.process.pid) as file:
        return int(next(line for line in file if line.startswith("VmRSS")).split()[1])


# ----------------------------------------------------------------------------------------- files

def test_files_to_and_fro(daemon, session):
    data = os.urandom(3 << 20)
    put = daemon.ask("PUT", path(session, "files/in/a%20b.bin"), data)
    assert put.status == 200 and put.json == {"bytes": len(data)}
    answer = daemon.get(path(session, "files/in/a%20b.bin"))
    assert answer.body == data and answer.fields["Content-Type"] == "application/octet-stream"
    assert answer.fields["Content-Disposition"] == "attachment; filename*=UTF-8''a%20b.bin"
    assert answer.fields["X-Content-Type-Options"] == "nosniff"
    for text, first, last in (("bytes=0-0", 0, 0), ("bytes=1048570-1048590", 1048570, 1048590),
                              ("bytes=3145720-", 3145720, 3145727), ("bytes=-5", 3145723, 3145727),
                              ("bytes=5-99999999", 5, 3145727)):
        part = daemon.get(path(session, "files/in/a%20b.bin"), fields={"Range": text})
        assert part.status == 206 and part.body == data[first:last + 1]
        assert part.fields["Content-Range"] == "bytes %d-%d/%d" % (first, last, len(data))
    problem(daemon.get(path(session, "files/in/a%20b.bin"),
                       fields={"Range": "bytes=3145728-"}), 416)
    head = daemon.ask("HEAD", path(session, "files/in/a%20b.bin"))
    assert head.status == 200 and head.body == b""
    assert head.fields["Content-Length"] == str(len(data))
    assert daemon.run(session, "len(open('in/a b.bin', 'rb').read())")["text"] == str(len(data))
    daemon.ask("PUT", path(session, "files/p.html"), PNG)
    assert daemon.get(path(session, "files/p.html")).fields["Content-Type"] == "image/png"
    daemon.ask("PUT", path(session, "files/q.png"), b"<html><script>alert(1)</script>")
    assert daemon.get(path(session, "files/q.png")).fields["Content-Type"].startswith("text/plain")
    assert daemon.ask("PUT", path(session, "files/empty"), b"").json == {"bytes": 0}
    assert daemon.get(path(session, "files/empty")).body == b""
    listed = daemon.get(path(session, "files")).json["entries"]
    assert [entry["name"] for entry in listed] == ["empty", "in", "p.html", "q.png"]
    assert [entry["name"] for entry in daemon.get(path(session, "files/in/")).json["entries"]] == [
        "a b.bin"]
    assert daemon.post(path(session, "folders/x/y")).status == 204
    problem(daemon.ask("DELETE", path(session, "files/x")), 403)
    assert daemon.ask("DELETE", path(session, "files/x?whole=true")).status == 204
    problem(daemon.get(path(session, "files/nosuch")), 404)
    for bad in ("files/../x", "files/%2e%2e/x", "files/a%2fb", "files/a%00", "files//x"):
        problem(daemon.get(path(session, bad)), 400)
    daemon.run(session, "import os; os.symlink('/etc/passwd', 'link')")
    problem(daemon.get(path(session, "files/link")), 403, "denied")
    strange = daemon.ask("PUT", path(session, "files/%FF%FE"), b"x")
    assert strange.status == 200
    assert daemon.get(path(session, "files/%FF%FE")).body == b"x"


def test_zip(daemon, session):
    files = {"a.txt": b"one", "deep/b.bin": os.urandom(2 << 20), "deep/er/c": b""}
    for name, data in files.items():
        assert daemon.ask("PUT", path(session, "files", name), data).status == 200
    daemon.run(session, "import os; os.symlink('/etc/passwd', 'link'); os.mkfifo('fifo')")
    answer = daemon.get(path(session, "files?format=zip"))
    assert answer.fields["Content-Type"] == "application/zip"
    archive = zipfile.ZipFile(io.BytesIO(answer.body))
    assert archive.testzip() is None
    assert {name: archive.read(name) for name in archive.namelist()} == files
    archive = zipfile.ZipFile(io.BytesIO(
        daemon.get(path(session, "files/deep/?format=zip")).body))
    assert sorted(archive.namelist()) == ["b.bin", "er/c"]
    problem(daemon.get(path(session, "files?format=rar")), 400)


def test_an_upload_that_breaks_off_leaves_nothing(daemon, session):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(daemon.socket)
        sock.sendall(b"PUT %s HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n"
                     % path(session, "files/half").encode() + b"x" * 2500000)
    code = "import os; os.listdir('.')"
    daemon.until("the leftovers' end",
                 lambda: daemon.run(session, code)["text"] == "[]")


# ------------------------------------------------------------------------------------- the daemon

def test_metrics(daemon, session):
    from prometheus_client.parser import text_string_to_metric_families
    daemon.run(session, "1")
    daemon.run(session, "1/0")
    daemon.until("the count", lambda: daemon.metrics()['fumehood_cells_total{status="error"}'] == 1)
    answer = daemon.get("/metrics")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    cells = {sample.labels["status"]: sample.value for sample in
             families["fumehood_cells"].samples}
    assert cells["ok"] == 1 and cells["error"] == 1
    assert families["fumehood_cell_seconds"].type == "histogram"
    daemon.until("a sync of the journal", lambda: daemon.run(session, "1") and daemon.metrics()[
        "fumehood_journal_sync_seconds_count"] > 0)
    assert sum(sample.value for sample in families["fumehood_sessions"].samples) >= 1


def test_health_and_names(daemon):
    assert daemon.get("/healthz", tcp=True).status == 200
    assert daemon.get("/readyz", tcp=True).status == 200
    problem(daemon.get("/v1/sessions", tcp=True), 401, "unauthorized")
    problem(daemon.get("/nothing"), 404)
    answer = daemon.ask("PUT", "/v1/sessions")
    problem(answer, 405)
    assert answer.fields["Allow"] == "GET, HEAD, POST"
    assert daemon.ask("HEAD", "/v1/sessions").body == b""
    assert daemon.get("/openapi.json").json["openapi"].startswith("3.1")


def test_idle_sessions_are_stopped(house):
    with Daemon(house, "--idle", "1") as daemon:
        ident = daemon.start()
        busy = daemon.start()
        with daemon.stream("POST", path(busy, "run"), {"code": "import time; time.sleep(4)"}):
            daemon.until("its stop",
                         lambda: daemon.get(path(ident)).json["state"] == "stopped")
            assert daemon.get(path(busy)).json["running"]
        assert daemon.metrics()["fumehood_sessions_culled_total"] >= 1


def test_a_graceful_stop_leaves_sessions(house):
    daemon = Daemon(house)
    ident = daemon.start(name="stays")
    daemon.run(ident, "x = 5")
    with daemon.stream("GET", path(ident, "events")) as stream:
        for event in stream.events():
            if event["type"] == "finished":
                break
        assert daemon.stop() == 0
        assert list(stream.events()) == []  # it was ended, not cut
    assert not os.path.exists(daemon.socket)
    with Daemon(house) as other:
        assert other.run("stays", "x")["text"] == "5"
        second = house.cli("serve")
        assert second.status != 0 and "already" in second.err


def test_socket_activation_and_notify(house):
    """The sockets come from whoever starts the daemon, and it says when it is ready."""
    runtime = house.runtime
    runtime.mkdir(mode=0o700, exist_ok=True)
    place = str(house.dir / "given.sock")
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(str(house.dir / "notify.sock"))
    notify.settimeout(WAIT_S)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen()
    with notify, listener:
        # The child's pid is only known in the child.
        give = ("import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ.update("
                "LISTEN_PID=str(os.getpid()), LISTEN_FDS='1');"
                "os.execv(sys.argv[2], ['fumehood', 'serve'])")
        process = subprocess.Popen(
            [sys.executable, "-c", give, str(listener.fileno()), FUMEHOOD],
            env={**house.env, "NOTIFY_SOCKET": str(house.dir / "notify.sock")},
            pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            assert notify.recv(100) == b"READY=1"
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(place)
                client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                assert client.recv(100).startswith(b"HTTP/1.1 200")
            process.send_signal(1)
            assert [notify.recv(100), notify.recv(100)] == [b"RELOADING=1", b"READY=1"]
        finally:
            process.terminate()
            process.communicate(timeout=WAIT_S)
        assert notify.recv(100) == b"STOPPING=1" and process.returncode == 0
    os.unlink(place)


def test_addresses(house):
    for words, said in ((["0.0.0.0:0"], "--behind-proxy"), (["example.org:1"], "no address"),
                        (["127.0.0.1"], "form"), (["[::]:0"], "--behind-proxy"),
                        (["127.0.0.1:99999"], "form")):
        result = house.cli("serve", "--listen", *words)
        assert result.status == 2 and said in result.err, result


def test_behind_a_proxy(house):
    with Daemon(house, "--listen", "127.0.0.2:0", "--behind-proxy", "code.example.org",
                tcp=True) as daemon:
        fields = "Authorization: Bearer %s\r\n" % daemon.token

        def status(host, origin=""):
            with Raw(daemon.port) as raw:
                raw.send(("GET /v1/sessions HTTP/1.1\r\nHost: %s\r\n%s%sConnection: close\r\n\r\n"
                          % (host, fields, origin)).encode())
                return int(raw.read_all().split()[1])
        assert status("code.example.org") == 200
        assert status("evil.example.org") == 421
        assert status("code.example.org", "Origin: https://code.example.org\r\n") == 200
        assert status("code.example.org", "Origin: https://evil.example.org\r\n") == 403


# ----------------------------------------------------------------------------- the description

def routes():
    """Method and path of each row of the table in route.c."""
    text = (ROOT / "src/serve/route.c").read_text()
    table = re.sub(r'"\s+"', "", text[text.index("const struct route ROUTES"):])
    found = set()
    row = r'\.method = "(\w+)",\s*\.path = (?:(S)\b\s*)?(?:"([^"]*)")?'
    for method, session, rest in re.findall(row, table):
        found.add((method, ("/v1/sessions/{}" if session else "") + rest))
    for name in re.findall(r'PASS\("(\w+)"', table):
        found.add(("POST", "/v1/sessions/{}/" + name))
    for name in re.findall(r'ASK\("(\w+)"', table):
        found.add(("GET", "/v1/sessions/{}/" + name))
    return found


def test_the_description_has_every_route(daemon):
    described = set()
    for place, methods in daemon.get("/openapi.json").json["paths"].items():
        place = re.sub(r"\{\w+\}", "{}", place.replace("{path}", "{...}"))
        described.update((method.upper(), place) for method in methods if method != "parameters")
    original = {route for route in routes() if route[1].startswith("/task/")}
    assert described == routes() - original and len(described) > 40


def test_every_status_is_described(daemon, session):
    """What the tests above were answered is what the description promises."""
    paths = daemon.get("/openapi.json").json["paths"]
    assert all({"401", "404", "413", "429"} <= set(op["responses"])
               for methods in paths.values() for method, op in methods.items()
               if method != "parameters")


def test_what_dead_keepers_have_left(house):
    """Their sockets go when the daemon starts; their sessions can be opened again."""
    with Daemon(house, tcp=False) as daemon:
        ident = daemon.start()
        assert daemon.run(ident, "x = 1")["status"] == "ok"
        daemon.run(ident, "import os")
        keeper = house.connect(ident)
        keeper.close()
        kill(keeper.pid)
        daemon.until("its end", lambda: daemon.get(path(ident)).json["state"] == "stopped")
    socket_file = house.runtime / (ident + ".sock")
    assert socket_file.exists()
    with Daemon(house, tcp=False) as daemon:
        daemon.until("its removal", lambda: not socket_file.exists())
        problem(daemon.get(path(ident, "status")), 410)
        assert daemon.run(ident, "'x' in globals()")["text"] == "False"


def test_a_hundred_readers(daemon, session):
    """All are told the same."""
    streams = [daemon.stream("GET", path(session, "events")) for _ in range(100)]
    try:
        answer = daemon.run(session, "for i in range(20): print(i, flush=True)")
        for stream in streams:
            heard = []
            for event in stream.events():
                heard.append(event)
                if event["type"] == "finished":
                    break
            assert [event for event in heard if event.get("cell")] == (
                answer["events"] + [answer["finished"]])
    finally:
        for stream in streams:
            stream.close()
