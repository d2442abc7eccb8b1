"""Probes against the daemon (numbers as in test_probes.py): names, what a browser would be shown, a
box that looks for the daemon, the daemon's death, and more than it can serve. And the daemon of an
ordinary user, its branches, its units.
"""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import urllib.parse

import pytest

from fumehood_kit import FUMEHOOD, ROOT, WAIT_S, list_proc, read_proc
from serve_kit import Daemon, Raw
from user_kit import home, user_house  # noqa: F401 (fixtures)


@pytest.fixture
def daemon(house):
    with Daemon(house) as daemon:
        yield daemon


def path(session, *rest):
    return "/".join(["/v1/sessions", session, *rest])


# ------------------------------------------------------------------------------------- 52: names

NAMES = (b"a\nb", b"a\r\nSet-Cookie: x=1", b"quote\"'", "abc\u202egpj.exe".encode(),
         b"\xff\xfe\x80", b"n" * 255, b"CON", b"-rf", b" ", b"%2e%2e", b"a;b=c", b"x\x1b[2J",
         "é中𝄞".encode())


def test_52_names(daemon):
    session = daemon.start()
    code = "for name in %r:\n    open(name, 'wb').write(name)" % (NAMES,)
    assert daemon.run(session, code)["status"] == "ok"
    listed = daemon.get(path(session, "files?max=100"))
    assert listed.status == 200
    assert len(listed.json["entries"]) == len(NAMES)
    for name in NAMES:
        answer = daemon.get(path(session, "files", urllib.parse.quote_from_bytes(name, safe="")))
        if answer.status != 200 and name == b"%2e%2e":
            assert answer.status == 400  # it would be decoded twice by others
            continue
        assert answer.status == 200 and answer.body == name, (name, answer)
        assert "Set-Cookie" not in answer.fields
        shown = answer.fields["Content-Disposition"]
        assert shown.startswith("attachment; filename*=UTF-8''")
        assert re.fullmatch(r"[A-Za-z0-9._~%!$&+^`|#-]*", shown.partition("''")[2]), shown
        assert urllib.parse.unquote_to_bytes(shown.partition("''")[2]) == name
    # A session's name has no control character.
    for name in (NAMES[0], NAMES[1], b"x\x1b[2J"):
        assert daemon.post("/v1/sessions", {"name": name.decode("latin-1")}).status == 400
    assert daemon.ask("DELETE", path(session)).status == 204


# --------------------------------------------------------------------------- 53: what is displayed

DISPLAYS = """
from IPython.display import HTML, Javascript, display
display(HTML('<script>fetch("/v1/sessions")</script>'))
display(Javascript('alert(1)'))
open('page.html', 'w').write('<script>alert(1)</script>')
open('image.svg', 'w').write('<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>')
value = []
for _ in range(90):
    value = [value]
display({'application/json': value}, raw=True)
"""


def test_53_nothing_of_a_session_is_a_page(daemon):
    session = daemon.start()
    assert daemon.run(session, DISPLAYS)["status"] == "ok"
    assert daemon.run(session, "for i in range(20000):\n    print('x' * 100)")["status"] == "ok"
    for place, kind in (("files/page.html", "text/plain"), ("files/image.svg", "text/plain"),
                        ("notebook", "application/"), ("events?follow=false", "application/"),
                        ("status", "application/json")):
        answer = daemon.get(path(session, place))
        assert answer.status == 200, place
        assert answer.fields["Content-Type"].startswith(kind), (place, answer.fields)
        assert "sandbox" in answer.fields["Content-Security-Policy"]
        assert answer.fields["X-Content-Type-Options"] == "nosniff"
        assert "html" not in answer.fields["Content-Type"]
    for name in ("page.html", "image.svg"):
        assert daemon.get(path(session, "files", name)).fields["Content-Disposition"].startswith(
            "attachment")
    notebook = daemon.get(path(session, "notebook")).json
    assert len(notebook["cells"]) == 2
    assert daemon.ask("DELETE", path(session)).status == 204


# ------------------------------------------------------------------------------ 55: from the inside

REACH = """
import socket
found = []
for family, place in PLACES:
    try:
        with socket.socket(family) as sock:
            sock.settimeout(10)
            sock.connect(place)
            sock.sendall(b'GET /healthz HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % HOST)
            found.append(sock.recv(15)[-3:] == b' OK')
    except OSError:
        found.append(False)
print(found)
"""


LOOK = """
import os, subprocess
words = 'cat /proc/*/environ /proc/*/cmdline'
told = subprocess.run(words, shell=True, capture_output=True, text=True, errors='replace').stdout
assert 'cat' in told
print([SECRET in text for text in (str(os.environ), told)])
"""


def test_55_a_box_does_not_reach_the_daemon(daemon, house):
    session = daemon.start(limits={"processes": 50})
    code = REACH.replace("HOST", repr(b"127.0.0.1:%d" % daemon.port)).replace(
        "PLACES", repr([(socket.AF_INET.value, ("127.0.0.1", daemon.port)),
                        (socket.AF_UNIX.value, daemon.socket)]))
    control = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                             timeout=WAIT_S, check=True)
    assert control.stdout == "[True, True]\n"
    assert daemon.run(session, code)["text"] == "[False, False]"
    # The token is told to one file, and is in no environment, command line, journal or workspace.
    daemon.get("/v1/sessions", token=daemon.token)
    secret = daemon.token.encode()
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        assert secret not in read_proc(pid, "cmdline") + read_proc(pid, "environ"), \
            list_proc(pid, "fd")
    holders = [place for place in house.dir.rglob("*") if place.is_file() and
               not place.is_symlink() and secret in place.read_bytes()]
    assert holders == [house.runtime / "api.json"]
    assert holders[0].stat().st_mode & 0o777 == 0o600
    looks = LOOK.replace("SECRET", repr(daemon.token))
    assert daemon.run(session, looks)["text"] == "[False, False]"
    assert daemon.ask("DELETE", path(session)).status == 204


# --------------------------------------------------------------------------- 58: the daemon's death

def test_58_killed_with_many_sessions(house):
    daemon = Daemon(house)
    names = ["s%d" % number for number in range(6)]
    try:
        for number, name in enumerate(names):
            daemon.start(name=name)
            daemon.run(name, "x = %d" % number)
        connection = daemon.connection()
        connection.request("POST", path("s0", "run"),
                           json.dumps({"code": "import time\ntime.sleep(600)"}),
                           {"Content-Type": "application/json"})
        daemon.until("the cell",
                     lambda: daemon.get(path("s0", "status")).json.get("state") == "running")
    finally:
        daemon.kill()
    connection.close()
    note = house.runtime / "api.json"
    assert note.exists() and os.path.exists(daemon.socket)  # stale ones
    with Daemon(house) as other:
        assert other.get("/v1/sessions", token=daemon.token).status == 401  # it ended with it
        listed = {entry["name"]: entry for entry in other.get("/v1/sessions").json["sessions"]}
        assert all(listed[name]["running"] for name in names)
        assert other.post(path("s0", "interrupt")).status == 200
        for number, name in enumerate(names):
            assert other.run(name, "x")["text"] == str(number)
            assert other.ask("DELETE", path(name)).status == 204
    assert not note.exists() and not os.path.exists(daemon.socket)


# -------------------------------------------------------------------------------- 59: exhausting it

def test_59_others_are_served_meanwhile(house):
    with Daemon(house, "--max-sessions", "3", "--max-connections", "300") as daemon:
        sessions = [daemon.start() for _ in range(3)]
        answer = daemon.post("/v1/sessions", {})
        assert answer.status == 429 and "max-sessions" in answer.json["detail"]
        begun = [Raw(daemon.port) for _ in range(250)]  # heads that never end
        for number, raw in enumerate(begun):
            raw.send(b"GET / HTTP/1.1\r\nHost: x\r\nX: %s" % (b"y" * (number * 100)))
        flood = {"code": "while True:\n    print('x' * 10000)"}
        asleep = []
        for session in sessions[:2]:
            connection = daemon.connection()
            connection.request("POST", path(session, "run"), json.dumps(flood),
                               {"Content-Type": "application/json",
                                "Accept": "application/x-ndjson"})
            asleep.append(connection)  # and nobody reads
        for number in range(10):
            assert daemon.run(sessions[2], "%d + 1" % number)["text"] == str(number + 1)
        text = pathlib.Path("/proc/%d/status" % daemon.process.pid).read_text()
        assert int(re.search(r"VmRSS:\s+(\d+) kB", text).group(1)) < 200 << 10
        for connection in asleep:
            connection.close()
        for raw in begun:
            raw.sock.close()
        for session in sessions:
            assert daemon.ask("DELETE", path(session)).status == 204


# ---------------------------------------------------------------------------------- whoever runs it

def test_as_root_and_as_an_ordinary_user(home, tmp_path):  # noqa: F811 (the fixture)
    with Daemon(home) as daemon:
        session = daemon.start(name="mine")
        assert daemon.run("mine", "x = 6\nprint(x * 7)")["text"] == "42"
        assert daemon.ask("PUT", path(session, "files/a.txt"), b"one").status == 200
        assert daemon.run("mine", "open('a.txt').read()")["text"] == "'one'"
        assert daemon.get("/v1/sessions", token=daemon.token).status == 200
        script = tmp_path / "answers.ndjson"
        script.write_text(json.dumps({"text": "```python\nprint(x * 7)\n```"}) + "\n")
        for place in (script, *script.parents[:3]):
            place.chmod(0o755)
        answer = daemon.post("/v1/ask", {"instruction": "x times 7", "session": "mine",
                                         "effort": "low", "script": str(script)})
        assert answer.status == 200 and answer.json["stdout"].strip() == "42", answer
        assert daemon.ask("DELETE", path(session)).status == 204
    assert not os.path.exists(daemon.socket)


def test_branches(daemon):
    daemon.start(name="stem")
    daemon.run("stem", "x = [1]")
    answer = daemon.post(path("stem", "fork"), {"name": "branch"})
    assert answer.status == 200 and answer.json["name"] == "branch", answer
    assert daemon.run("branch", "x.append(2)\nx")["text"] == "[1, 2]"
    assert daemon.run("stem", "x")["text"] == "[1]"
    assert daemon.post(path("stem", "fork"), {"name": "branch"}).status == 409
    assert daemon.post(path("stem", "fork"), {"name": "-x"}).status == 400
    ident = answer.json["session"]
    assert daemon.get(path(ident)).json["id"] == ident
    assert daemon.ask("DELETE", path("branch")).status == 204
    assert daemon.run("stem", "x")["text"] == "[1]"
    assert daemon.ask("DELETE", path("stem")).status == 204


def test_units(tmp_path):
    """What systemd thinks of the units, with the program where it is now."""
    analyze = shutil.which("systemd-analyze")
    if not analyze:
        pytest.skip("missing optional component systemd-analyze")
    units = []
    for source in sorted((ROOT / "packaging/systemd").iterdir()):
        units.append(tmp_path / source.name)
        units[-1].write_text(source.read_text().replace("/usr/bin/fumehood", str(FUMEHOOD)))
    result = subprocess.run([analyze, "verify", "--user", "--man=no", *map(str, units)],
                            capture_output=True, text=True, timeout=2 * WAIT_S, check=False,
                            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)})
    ours = [line for line in (result.stdout + result.stderr).splitlines() if "fumehood." in line]
    assert result.returncode == 0 and not ours, result.stderr
