"""What the limits of a session do to code that does not stop by itself: memory, processes, disk,
processor time. As root, where control groups hold them, and as an ordinary user, where most are
watched; the session goes on as documented, and nothing is left.
"""
import os

import pytest

from cgroup_kit import groups_of, stale_groups
from fumehood_kit import LONG, init_of, kill, spawner_of, wait_gone
from user_kit import home, user_house  # noqa: F401 (fixtures)

MIB = 1 << 20


@pytest.fixture(autouse=True)
def no_group_is_left():
    before = stale_groups()
    yield
    assert stale_groups() <= before


def how_of(keeper):
    keeper.run("1")
    session = next(event for event in keeper.events if event["type"] == "session")
    layer = next(item for item in session["layers"] if item["layer"] == "memory limit")
    return session["limits_how"], layer


def need_hard(home):
    """What only a control group can do."""
    with home.keeper(home.session()) as keeper:
        how, _ = how_of(keeper)
    if not how["memory_bytes"].startswith("hard"):
        pytest.skip("cannot simulate control groups as this user")


def check_limit(cell, name, value, unit):
    assert cell.finished["limit"] == {"name": name, "value": value, "unit": unit}, cell


def test_who_holds_what(home):
    """Each limit of the session is said to be hard, soft, or held by nobody."""
    with home.keeper(home.session()) as keeper:
        how, layer = how_of(keeper)
        assert set(how) == set(keeper.ask("limits")["limits"])
        assert layer["holds"] is True
        if layer["how"].startswith("hard: cgroup v"):
            assert how["memory_bytes"] == layer["how"]
        else:
            assert layer["how"] == "soft: polling" and how["memory_bytes"] == "soft"
        assert how["wall_s"] == "hard" and how["disk_bytes"] == "soft"
        assert how["cpus"] == "none" and how["cpu_s"] == "none"


@pytest.mark.parametrize("tier", ["full", "none"])
def test_memory(home, tier):
    """A cell that takes more ends the interpreter, is told so, and nothing else comes to harm."""
    session = home.session(limits={"memory_bytes": 300 * MIB}, tier=tier)
    with home.keeper(home.session()) as other, home.keeper(session) as keeper:
        other.run("kept = 1")
        assert keeper.run("x = bytearray(100 << 20); len(x)").result == str(100 * MIB)
        cell = keeper.run("l = []\nwhile True: l.append(bytearray(1 << 20))", max_chars=2000)
        assert cell.status == "died" and cell.finished["state"] == "recovered", cell
        assert cell.finished["reason"] == "out of memory: limit memory_bytes, 300 MiB"
        check_limit(cell, "memory_bytes", 300 * MIB, "bytes")
        text = cell.finished["text"]
        assert "limit memory_bytes, 300 MiB" in text and "just before this cell" in text
        assert keeper.run("len(x)").result == str(100 * MIB)
        assert other.run("kept").result == "1"


def test_memory_of_tmp(home):
    """Files in /tmp are memory too. The next interpreter has an empty /tmp, or it would die of
    the same."""
    with home.keeper(home.session(limits={"memory_bytes": 300 * MIB})) as keeper:
        cell = keeper.run("for i in range(9):\n    with open('/tmp/f%d' % i, 'wb') as f:\n"
                          "        for _ in range(100): f.write(bytes(1 << 20))\n"
                          "import time\nwhile True: time.sleep(0.01)")
        assert cell.status == "died", cell
        check_limit(cell, "memory_bytes", 300 * MIB, "bytes")
        assert keeper.run("import os; os.path.exists('/tmp/f0')").result == "False"
        assert keeper.run("len(bytearray(100 << 20))").result == str(100 * MIB)


@pytest.mark.parametrize("tier", ["full", "none"])
def test_memory_of_memfds(home, tier):
    """So is what no process has mapped, but keeps open."""
    with home.keeper(home.session(limits={"memory_bytes": 300 * MIB}, tier=tier)) as keeper:
        cell = keeper.run("import os, time\nfor i in range(5):\n    fd = os.memfd_create('x')\n"
                          "    for _ in range(100): os.write(fd, bytes(1 << 20))\n"
                          "while True: time.sleep(0.01)")
        assert cell.status == "died", cell
        check_limit(cell, "memory_bytes", 300 * MIB, "bytes")
        assert keeper.run("len(bytearray(100 << 20))").result == str(100 * MIB)


def test_memory_between_cells(home):
    """A thread that goes on after its cell is under the same limit."""
    with home.keeper(home.session(limits={"memory_bytes": 200 * MIB})) as keeper:
        keeper.run("import threading\ngo = threading.Event()\n"
                   "def eat():\n    l = []\n    while True: l.append(bytearray(1 << 20))\n"
                   "threading.Thread(target=eat, daemon=True).start()")
        died = keeper.next(lambda m: m["type"] in ("died", "restarted")
                           or m.get("status") == "died", "the death")
        if died["type"] == "died" or died["type"] == "finished":
            assert died["limit"]["name"] == "memory_bytes" and died["state"] == "recovered"
            assert died["reason"].startswith("out of memory")
        assert keeper.run("1 + 1").result == "2"


def test_memory_of_a_child(home):
    """A process that the code has started is killed for it: the session goes on, and is told."""
    need_hard(home)
    with home.keeper(home.session(limits={"memory_bytes": 400 * MIB})) as keeper:
        keeper.run("kept = 1")
        cell = keeper.run("import subprocess, sys\nsubprocess.run([sys.executable, '-c', "
                          "'l = []\\nwhile True: l.append(bytearray(1 << 20))']).returncode")
        assert cell.status == "ok" and cell.result == "-9", cell
        warning, = cell.of("warning")
        assert warning["code"] == "memory_bytes" and "400 MiB" in warning["message"]
        assert warning["limit"]["value"] == 400 * MIB
        assert keeper.run("kept").result == "1"


def test_memory_changes(home):
    """A new limit holds at once, a higher one and a lower one; below what is in use it ends the
    interpreter as if that had been taken now."""
    with home.keeper(home.session(limits={"memory_bytes": 200 * MIB})) as keeper:
        keeper.ask("limits", set={"memory_bytes": 600 * MIB})
        assert keeper.run("x = bytearray(400 << 20); len(x)").result == str(400 * MIB)
        keeper.ask("limits", set={"memory_bytes": 250 * MIB})
        died = keeper.event("died")
        assert died["limit"] == {"name": "memory_bytes", "value": 250 * MIB, "unit": "bytes"}
        assert keeper.run("x = bytearray(400 << 20)\nwhile True: pass").status == "died"
        keeper.ask("limits", set={"memory_bytes": None})
        assert keeper.run("len(bytearray(400 << 20))").result == str(400 * MIB)


def test_processes(home):
    """A fork bomb ends in an error that names the limit; its processes go with the session."""
    with home.keeper(home.session(limits={"processes": 64})) as keeper:
        cell = keeper.run("import os, time\nfor i in range(1000):\n"
                          "    if os.fork() == 0: time.sleep(1000)", max_chars=2000)
        assert (cell.status, cell.error) == ("error", "BlockingIOError")
        assert cell.finished["limit"] == {"name": "processes", "value": 64, "unit": "processes",
                                          "likely": True}
        assert "limit processes of 64" in cell.finished["text"]
        assert "variables are kept" in cell.finished["text"]
        assert keeper.run("1 + 1").result == "2"
        cell = keeper.run("import threading\nfor i in range(1000):\n"
                          "    threading.Thread(target=time.sleep, args=(1000,), "
                          "daemon=True).start()")
        assert cell.error == "RuntimeError"
        assert cell.finished["limit"]["name"] == "processes"


@pytest.mark.parametrize("code, name", [
    ("l = [open('/dev/null') for i in range(1000)]", "files"),
    ("open('big', 'wb').truncate(1 << 40)", "file_bytes")])
def test_errors_that_a_limit_explains(home, code, name):
    with home.keeper(home.session(limits={"files": 200})) as keeper:
        cell = keeper.run(code, max_chars=2000)
        assert (cell.status, cell.error) == ("error", "OSError")
        assert cell.finished["limit"]["name"] == name and cell.finished["limit"]["likely"]
        assert "limit %s of " % name in cell.finished["text"]
        assert "limit" not in keeper.run("1 / 0").finished


def test_disk(home):
    """A cell that fills its private workspace is stopped; deleting goes on, adding does not."""
    with home.keeper(home.session(limits={"disk_bytes": 20 * MIB})) as keeper:
        fill = ("import time\ndef fill(name):\n    with open(name, 'wb', 0) as f:\n"
                "        for i in range(40): f.write(b'x' * (1 << 20))\n"
                "    while True: time.sleep(0.01)\n")
        cell = keeper.run(fill + "fill('a')", max_chars=2000)
        assert (cell.status, cell.finished["state"]) == ("interrupted", "kept"), cell
        check_limit(cell, "disk_bytes", 20 * MIB, "bytes")
        assert "limit disk_bytes of 21.0 MB" in cell.finished["text"]
        assert keeper.event("warning", code="disk_bytes")["limit"]["value"] == 20 * MIB
        assert keeper.run("import os; os.path.getsize('a')").result == str(40 * MIB)
        assert keeper.run("fill('b')").status == "interrupted"
        assert keeper.run("os.remove('a'); os.remove('b')").status == "ok"


def test_disk_inodes(home):
    with home.keeper(home.session(limits={"disk_inodes": 100})) as keeper:
        cell = keeper.run("import time\nfor i in range(300): open('f%d' % i, 'w').close()\n"
                          "while True: time.sleep(0.01)")
        assert cell.status == "interrupted"
        check_limit(cell, "disk_inodes", 100, "files")


def test_own_workspace_is_not_counted(home):
    """A folder that the user has chosen may hold what it likes."""
    folder = home.folder()
    os.chmod(folder, 0o777)
    session = home.session(workspace=folder, limits={"disk_bytes": MIB})
    with home.keeper(session) as keeper:
        how, _ = how_of(keeper)
        assert how["disk_bytes"] == "none"


def test_processor_time(home):
    """Counted for all processes of a cell together; the variables are kept."""
    with home.keeper(home.session(limits={"cpu_s": 1})) as keeper:
        keeper.run("kept = 1")
        cell = keeper.run("while True: pass", max_chars=2000)
        assert (cell.status, cell.finished["reason"]) == ("timeout", "cpu_s"), cell
        check_limit(cell, "cpu_s", 1.0, "s")
        assert "limit cpu_s of 1 s" in cell.finished["text"]
        cell = keeper.run("import subprocess, sys\n"
                          "subprocess.run([sys.executable, '-c', 'while True: pass'])")
        assert (cell.status, cell.finished["reason"]) == ("timeout", "cpu_s"), cell
        assert keeper.run("kept").result == "1"


def test_wall_time_names_what_was_asked(home):
    with home.keeper(home.session(limits={"wall_s": 50})) as keeper:
        cell = keeper.run("while True: pass", timeout=0.5, max_chars=2000)
        assert (cell.status, cell.finished["reason"]) == ("timeout", "wall_s")
        check_limit(cell, "wall_s", 0.5, "s")
        assert "time limit of 0.5 s" in cell.finished["text"]


def test_spare(house):
    """A session that waited ready has the limit that its client chose."""
    with house.pipe() as pipe:
        pipe.run("1")
        pipe.ask("limits", set={"memory_bytes": 200 * MIB})
        cell = pipe.run("len(bytearray(500 << 20))")
        check_limit(cell, "memory_bytes", 200 * MIB, "bytes")
        assert cell.status == "died"


def test_the_next_removes_what_a_dead_spawner_left(house):
    need_hard(house)
    session = house.session()
    with house.keeper(house.session()):
        keeper = house.keeper(session)
        keeper.run("1")
        before = stale_groups()
        kill(spawner_of(keeper.pid))  # who would have removed it
        assert wait_gone(keeper.process.pid)
        keeper.close()
        left = stale_groups() - before
        assert left, "the group of a dead spawner is there, and nobody holds it"
        for group in left:
            with open(group + "/cgroup.procs", encoding="ascii") as members:
                assert all(wait_gone(int(pid)) for pid in members.read().split() if int(pid))
        with house.keeper(session) as again:
            again.run("1", id="later")
            assert not left & stale_groups()


def test_a_hundred_sessions(home):
    """And nothing is there that was not there before."""
    groups = set()
    for _ in range(1000 if LONG else 100):
        with home.keeper(home.session(ends_with_client=True)) as keeper:
            assert keeper.run("1 + 1").result == "2"
            groups |= groups_of([init_of(keeper.pid)])
            hard = how_of(keeper)[0]["memory_bytes"].startswith("hard")
            assert bool(groups) == hard
    assert not [group for group in groups if os.path.exists(group)]
