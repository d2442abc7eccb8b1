"""Spare sessions: a keeper with box and guest that waits before anybody asks (doc/protocol.md).

After the first session in the ordinary way the pool listens for clients of its spare. A client that
comes while the spare is being made waits for it, so no test has to: connecting is waiting.
"""
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from fumehood_kit import (BUILD, CELL_FAILED, FAULT, WAIT_S, House, Keeper, Refused, children,
                          command_of, init_of, is_alive, kill, wait_gone)

VERSION = "0.1.0"


@pytest.fixture(scope="module")
def plain_python(tmp_path_factory):
    """An environment without packages: its zygote is there at once."""
    place = tmp_path_factory.mktemp("venv") / "plain"
    subprocess.run([os.path.realpath(sys.executable), "-m", "venv", "--without-pip", str(place)],
                   check=True)
    return str(place / "bin" / "python")


@pytest.fixture
def home(plain_python):
    """A house of its own, whose pool has given a first guest: now a spare is kept."""
    home = SpareHouse(plain_python)
    assert home.cli("run", "-c", "1").status == 0
    yield home
    if home.sockets():
        home.stop_sessions()
    bad = home.close()
    assert not bad, "\n".join(bad)


class SpareHouse(House):
    def socket_path(self):
        state = self.dir / "state" / "fumehood"
        identity = "%s\n%s\n%s" % (self.env["FUMEHOOD_PYTHON"], state, VERSION)
        return self.runtime / ("spare-%s.sock" % hashlib.sha256(identity.encode()).hexdigest()[:16])

    def connect_spare(self):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(WAIT_S)
        try:
            sock.connect(str(self.socket_path()))
        except BaseException:
            sock.close()
            raise
        return sock

    def start(self, since=0, **session):
        """A session from the spare."""
        sock = self.connect_spare()
        try:
            sock.sendall(json.dumps({"op": "start", "session": session}).encode() + b"\n")
            return Keeper(sock, since)
        except BaseException:
            sock.close()
            raise

    def spare(self):
        """(keeper, init, guest, directory) of the spare that waits."""
        keeper = self.until_spare("ready")["spare_pid"]
        init = init_of(keeper)
        guest, = children(init)
        directory, = self.unborn()
        return keeper, init, guest, directory

    def unborn(self):
        return [place for place in self.sessions.iterdir() if not (place / "session.json").exists()]

    def log(self):
        return "".join(path.read_text() for path in self.runtime.glob("pool-*.log"))


def config_of(session):
    return json.loads((session / "session.json").read_text())


# ------------------------------------------------------------------------------------- handing out

def test_it_is_a_session_like_any_other(home):
    keeper, _, guest, directory = home.spare()
    assert home.start(since=None).stop() is None  # another one, so that it has a successor
    before = time.time()
    with home.start(name="a name", limits={"wall_s": 7}, ends_with_client=True,
                    notebook={"metadata": {"a": 1}}) as session:
        assert session.hello["state"] == "idle" and session.hello["last_seq"] == 1
        assert session.hello["name"] == "a name" and session.pid != keeper and not is_alive(guest)
        first = session.event("session")
        assert first["seq"] == 1 and first["id"] == session.hello["session"]
        assert first["limits"]["wall_s"] == 7 and first["notebook"] == {"metadata": {"a": 1}}
        stamp = time.strptime(first["t"][:19], "%Y-%m-%dT%H:%M:%S")
        assert abs(time.mktime(stamp) - time.timezone - before) < WAIT_S
        cell = session.run("import os\nprint(os.getcwd(), os.listdir('.'), In, Out)\n6 * 7")
        assert cell.result == "42" and cell.finished["execution_count"] == 1
        assert cell.out == "/workspace [] ['', %r] {}\n" % cell.events[0]["code"]
        place = home.sessions / session.hello["session"]
        config = config_of(place)
        assert config["limits"] == {"wall_s": 7} and config["ends_with_client"]
        assert config["name"] == "a name"
        assert config["workspace"] == {"path": str(place / "workspace"), "mode": "rw",
                                       "private": True}
        assert session.ask("status")["state"] == "idle"
    assert config_of(directory)  # the first one has become a session, too
    names = {path.name for path in place.iterdir()}
    assert names == {"session.json", "lock", "journal.ndjson", "notebook.ipynb", "blobs",
                     "workspace", "keeper.log"}
    assert not (place / "keeper.log").read_text()
    assert json.loads((place / "notebook.ipynb").read_text())["metadata"]["a"] == 1


def test_the_spare_is_the_session(home):
    keeper, init, guest, directory = home.spare()
    with home.start() as session:
        assert session.pid == keeper and home.sessions / session.hello["session"] == directory
        assert session.run("import os; os.getppid()").result == "1"
        assert is_alive(init) and is_alive(guest)
        other = home.spare()  # the next one is made behind it
        assert other[0] != keeper and other[3] != directory


def test_run_uses_it(home):
    keeper = home.spare()[0]
    assert home.cli("run", "-s", "work", "-c", "x = 6").status == 0
    with home.connect(home.find("work")) as session:
        assert session.pid == keeper
        assert session.run("x * 7").result == "42"
    assert "--spare" in command_of(home.spare()[0])


def test_it_can_have_hosts(home):
    """The box stands already; its network gets its proxy when the client comes."""
    keeper = home.spare()[0]
    rule = "localhost:9,pypi.org"
    assert home.cli("run", "-s", "net", "--allow-net", rule, "-c", "x = 6").status == 0
    with home.connect(home.find("net")) as session:
        assert session.pid == keeper
        assert session.ask("policy")["policy"]["net"] == rule.split(",")
        cell = session.run("import urllib.request as u; u.urlopen('http://example.org')")
        refused, = cell.of("network")
        assert refused["host"] == "example.org" and refused["message"].endswith(
            "allowed: localhost:9, pypi.org")
        assert config_of(home.find("net"))["policy"] == {"net": rule.split(",")}


def test_it_can_be_forbidden(home):
    keeper = home.spare()[0]
    assert home.cli("run", "-s", "work", "-c", "x = 6", env={"FUMEHOOD_SPARE": "0"}).status == 0
    assert home.connect(home.find("work")).pid != keeper
    assert home.spare()[0] == keeper


def test_what_is_not_eligible_goes_the_ordinary_way(home, tmp_path):
    keeper = home.spare()[0]
    for options in (["--tier", "none"], ["--workspace", str(tmp_path)],
                    ["--workspace", str(tmp_path) + ":ro"]):
        assert home.cli("run", *options, "-c", "print(1)").out == "1\n"
        assert home.spare()[0] == keeper, options


def test_a_stopped_one_is_opened_again(home):
    assert home.cli("run", "-s", "work", "-c", "open('f', 'w').write('kept')").status == 0
    place = home.find("work")
    home.connect(place).stop()
    result = home.cli("run", "-s", "work", "-c", "print(open('f').read())")
    assert result.out == "kept\n", result
    with home.connect(place) as session:
        assert session.event("restarted")["reason"] == "reopened"


def test_it_restarts_and_survives_its_guest_and_its_pool(home):
    with home.start() as session:
        session.run("x = 1")
        session.ask("restart")
        assert session.run("x").error == "NameError"
        assert session.run("import os; os._exit(3)").status == "died"
        assert session.run("1 + 1").result == "2"
        for pool in home.pools():
            kill(pool)
            assert wait_gone(pool)
        assert session.run("2 + 2").result == "4"
        session.ask("restart")  # a new pool
        assert session.run("3 + 3").result == "6"


def test_its_limits_hold(home):
    with home.start(limits={"wall_s": 0.2, "output_bytes": 1000, "queue": 1}) as session:
        assert session.run("while True: pass").status == "timeout"
        cell = session.run("print('x' * 5000)")
        assert cell.of("truncated") and len(cell.out) <= 1000


def test_the_limit_of_the_record_holds(home):
    with home.start(limits={"record_bytes": 300000}) as session:
        cell = session.run("for i in range(100000): print(i, 'x' * 20)")
        assert [event["limit"] for event in cell.of("truncated")] == ["record_bytes"]
        with pytest.raises(Refused):
            session.run("1")


# ---------------------------------------------------------------------------------- the first line

def test_what_cannot_be_is_refused(home):
    refusing = []
    for line in (b'{"op":"run","code":"1"}', b'{"op":"start"}', b"nonsense",
                 b'{"op":"start","session":[]}', b'{"op":"start","session":{},"x":1}',
                 b'{"op":"start","session":{"tier":"none"}}',
                 b'{"op":"start","session":{"limits":{"processes":7}}}',
                 b'{"op":"start","session":{"workspace":{"path":"/"}}}'):
        refusing.append(home.spare()[0])
        with home.connect_spare() as sock:
            sock.sendall(line + b"\n")
            with sock.makefile() as answer:
                refused = json.loads(answer.readline())
                assert refused["type"] == "refused" and refused["code"] == "invalid", line
                assert answer.read() == ""
    assert all(wait_gone(keeper) for keeper in refusing)
    assert len(list(home.sessions.iterdir())) <= 1  # the spare that waits now


def test_a_line_in_pieces_and_what_comes_behind_it(home):
    with home.connect_spare() as sock:
        start = (b'{"op":"start","session":{"ends_with_client":true}}\n'
                 b'{"op":"run","id":"q1","code":"40+2"}\n{"op":"st')
        for at in range(0, len(start), 7):
            sock.sendall(start[at:at + 7])
        with sock.makefile() as lines:
            assert json.loads(lines.readline())["type"] == "hello"
            assert json.loads(lines.readline())["cell"] == "q1"
            sock.sendall(b'op","id":1,"mode":"drain"}\n')
            assert json.loads(lines.readline()) == {"type": "reply", "id": 1}


def test_a_client_that_goes_takes_the_spare_with_it(home):
    keeper, init, _, directory = home.spare()
    sock = home.connect_spare()
    sock.sendall(b'{"op":"start",')
    sock.close()
    assert wait_gone(keeper) and wait_gone(init)
    assert not directory.exists()
    with home.start() as session:
        assert session.run("1").status == "ok"


# ------------------------------------------------------------------------------------ many at once

def test_twenty_clients_at_once(home):
    home.spare()
    socks = [home.connect_spare() for _ in range(20)]
    line = json.dumps({"op": "start", "session": {"ends_with_client": True}}).encode() + b"\n"
    got, sent_away = [], 0
    for sock in socks:
        with contextlib.suppress(OSError):
            sock.sendall(line)
    for sock in socks:
        try:
            got.append(Keeper(sock))
        except (AssertionError, OSError):
            sent_away += 1
            sock.close()
    assert len(got) >= 16 and len(got) + sent_away == 20
    assert len({session.hello["session"] for session in got}) == len(got)
    for i, session in enumerate(got):
        assert session.run("print(%d)" % i).out == "%d\n" % i
    for session in got:
        session.stop()


def test_twenty_runs_at_once(home):
    runs = [home.popen("run", "-c", "print(%d)" % i, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for i in range(20)]
    for i, run in enumerate(runs):
        out, err = run.communicate(timeout=WAIT_S)
        assert (run.returncode, out) == (0, b"%d\n" % i), err


def test_one_name_for_ten_at_once(home):
    home.spare()
    runs = [home.popen("run", "-s", "one", "-c", "print('here')", stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE) for _ in range(10)]
    for run in runs:
        out, err = run.communicate(timeout=WAIT_S)
        assert (run.returncode, out) == (0, b"here\n"), err
    sessions = [json.loads(line) for line in home.cli("ls", "--json").out.splitlines()]
    assert [session["name"] for session in sessions] == ["one"]


# ------------------------------------------------------------------------------------------ deaths

@pytest.mark.parametrize("victim", ["keeper", "init", "guest"])
def test_a_dead_spare_is_replaced(home, victim):
    keeper, init, guest, directory = home.spare()
    kill({"keeper": keeper, "init": init, "guest": guest}[victim])
    assert wait_gone(keeper) and wait_gone(init) and wait_gone(guest)
    other = home.spare()
    assert other[0] != keeper
    assert not directory.exists()  # what a killed keeper left, the next has swept
    assert not (home.runtime / (directory.name + ".sock")).exists()
    with home.start() as session:
        assert session.pid == other[0] and session.run("1").status == "ok"


def test_three_deaths_and_there_is_none_for_a_minute(home):
    for _ in range(3):
        keeper = home.spare()[0]
        kill(keeper)
        assert wait_gone(keeper)
    home.until_spare("resting")
    assert "no spare sessions for 60 s" in home.log()
    assert "resting" in home.cli("pool", "list").out
    with home.connect_spare() as sock:
        assert sock.recv(100) == b""
    assert home.cli("run", "-c", "print(1)").out == "1\n"
    assert home.cli("gc").status == 0  # the directory of the last one
    assert home.unborn() == []


def test_a_hand_over_ends_the_row(home):
    for _ in range(3):
        keeper = home.spare()[0]
        kill(keeper)
        assert wait_gone(keeper)
        home.start().stop()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_end_of_the_pool(home, number):
    keeper, init, _, directory = home.spare()
    pool, = home.pools()
    kill(pool, number)
    assert wait_gone(pool) and wait_gone(keeper) and wait_gone(init)
    assert not directory.exists() and home.sockets() == []
    if number == signal.SIGTERM:
        assert not home.socket_path().exists()
    assert home.cli("run", "-c", "print(1)").out == "1\n"  # also past a socket where nobody listens


def test_pool_stop_returns_when_the_spare_has_gone(home):
    keeper, _, _, directory = home.spare()
    assert home.cli("pool", "stop").status == 0
    assert not directory.exists() and wait_gone(keeper, 5)


def test_a_signal_ends_a_waiting_spare(home):
    keeper, _, _, directory = home.spare()
    kill(keeper, signal.SIGTERM)
    assert wait_gone(keeper) and not directory.exists()


def test_a_spare_does_not_keep_the_pool(plain_python):
    home = SpareHouse(plain_python)
    pool = subprocess.Popen(
        [BUILD / "fumehood-pool", "--python", plain_python, "--idle-seconds", "1"],
        env=home.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert home.cli("run", "-c", "1").status == 0
        home.spare()
        assert pool.wait(WAIT_S) == 0
        assert "nobody needs it" in home.log()
        assert home.unborn() == []
    finally:
        kill(pool.pid)
        pool.communicate()
        bad = home.close()
    assert not bad, "\n".join(bad)


# --------------------------------------------------------------------------------- the environment

def test_a_stale_one_is_not_given(plain_python, tmp_path):
    folder = tmp_path / "env"
    shutil.copytree(pathlib.Path(plain_python).parent.parent, folder, symlinks=True)
    home = SpareHouse(str(folder / "bin" / "python"))
    try:
        assert home.cli("run", "-c", "1").status == 0
        keeper, _, _, directory = home.spare()
        packages, = folder.glob("lib/python3*/site-packages")
        (packages / "just_installed.py").write_text("answer = 42\n")
        with home.start() as session:
            assert session.pid != keeper
            assert session.run("import just_installed; just_installed.answer").result == "42"
        assert wait_gone(keeper) and not directory.exists()
    finally:
        bad = home.close()
    assert not bad, "\n".join(bad)


def test_a_new_zygote_has_a_new_spare(home):
    keeper = home.spare()[0]
    zygote, = home.zygotes()
    kill(zygote)
    assert wait_gone(keeper)
    with home.start() as session:
        assert session.run("1").status == "ok"


def test_another_place_for_the_state(home):
    keeper = home.spare()[0]
    other = home.dir / "other"
    env = {"XDG_STATE_HOME": str(other)}
    assert home.cli("run", "-k", "-c", "print(1)", env=env).out == "1\n"
    assert len(list((other / "fumehood" / "sessions").iterdir())) == 1
    assert home.spare()[0] == keeper


# ------------------------------------------------------------------------- as if it were not there

def test_nobody_sees_it(home):
    keeper, _, _, directory = home.spare()
    assert home.cli("ls").out == "" and home.cli("ls", "--json").out == ""
    assert home.cli("gc", "--older", "0.001").status == 0
    assert home.cli("stop", "--all").status == 0
    assert directory.exists() and home.spare()[0] == keeper
    assert home.cli("log", directory.name).status == FAULT
    assert "not begun" in home.cli("gc", directory.name).err
    with home.start() as session:
        assert session.pid == keeper
        assert directory.name in home.cli("ls", "--json").out


def test_gc_removes_what_is_left_of_one(home):
    left = home.sessions / ("a" * 26)
    fresh = home.sessions / ("b" * 26)
    damaged = home.sessions / ("c" * 26)
    for place in (left, fresh, damaged):
        (place / "workspace").mkdir(parents=True)
    for place in (left, damaged):
        (place / "lock").touch()
        (place / "journal.ndjson").write_text("{}\n" if place == damaged else "")
    try:
        assert home.cli("gc").status == 0
        assert not left.exists() and fresh.exists() and damaged.exists()
    finally:
        shutil.rmtree(fresh)
        shutil.rmtree(damaged)


def test_a_failing_cell_is_told_as_ever(home):
    home.spare()
    assert home.cli("run", "-c", "1/0").status == CELL_FAILED
