"""Limits of a live session: asked for, changed, kept, told; and what a restart makes true."""

import json
import os

import pytest

from fumehood_kit import FAULT, USAGE, Refused

NAMES = ["wall_s", "output_bytes", "background_bytes", "queue", "record_bytes", "processes",
         "files", "file_bytes", "tmp_bytes", "checkpoints", "memory_bytes", "disk_bytes",
         "disk_inodes", "cpus", "cpu_s"]
GIGA = 1 << 30


def limits(keeper, **values):
    """Changes them; returns {name: value in force} and {name: value that waits}."""
    answer = keeper.ask("limits", **({"set": values} if values else {}))["limits"]
    return ({name: about["value"] for name, about in answer.items()},
            {name: about["next"] for name, about in answer.items() if "next" in about})


def on_disk(session):
    return json.loads((session / "session.json").read_text())["limits"]


def test_asked_for(house):
    """All of them, each with its value and when it changes; nothing is written."""
    session = house.session(limits={"queue": 3})
    before = (session / "session.json").read_bytes()
    with house.keeper(session) as keeper:
        answer = keeper.ask("limits")["limits"]
        assert list(answer) == NAMES
        assert answer["queue"] == {"value": 3, "changes": "now"}
        assert answer["files"]["changes"] == "lower"
        assert answer["tmp_bytes"]["changes"] == "restart"
        assert keeper.ask("limits", set={})["limits"] == answer
        values = {name: about["value"] for name, about in answer.items()}
        assert keeper.ask("status")["limits"] == values
        assert keeper.events[0]["limits"] == values
        assert not [event for event in keeper.events if event["type"] == "state"]
    assert (session / "session.json").read_bytes() == before


def test_all_or_none(house):
    """One bad member refuses all, and the answer says what there is."""
    session = house.session()
    with house.keeper(session) as keeper:
        before = limits(keeper)
        for values, word in (({"queue": 1, "wall": 2}, "record_bytes"), ({"queue": 0}, "queue"),
                             ({"queue": 1, "wall_s": -1}, "wall_s"), ({"queue": "1"}, "queue"),
                             ({"queue": 1, "record_bytes": 1000}, "record_bytes"),
                             ({"queue": 1, "files": 64}, "128 or more")):
            with pytest.raises(Refused) as refused:
                limits(keeper, **values)
            assert refused.value.code == "invalid" and word in refused.value.message
        with pytest.raises(Refused) as refused:
            keeper.ask("limits", set=[])
        assert refused.value.code == "invalid" and '"set"' in refused.value.message
        assert limits(keeper) == before
    assert on_disk(session) == {}


def test_time_of_the_running_cell(house):
    """A shorter time ends it; a longer one lets it go on: both count from its start."""
    session = house.session()
    with house.keeper(session) as keeper:
        cell = keeper.start("import time\nprint('on', flush=True)\ntime.sleep(600)")
        keeper.wait_text("on", cell)
        limits(keeper, wall_s=1000)
        limits(keeper, wall_s=0.01)
        done = keeper.finished(cell)
        assert (done.status, done.finished["reason"]) == ("timeout", "wall_s")
        # What was asked for is no more than what is allowed when it runs.
        asked = keeper.start("while True: pass", timeout=500)
        assert keeper.finished(asked).status == "timeout"
        limits(keeper, wall_s=300)
        assert keeper.run("time.sleep(0.1)").status == "ok"
        state = [event for event in keeper.events if event["type"] == "state"]
        assert [event["limits"]["wall_s"] for event in state] == [1000, 0.01, 300]
        assert state[0]["state"] == "running" and state[2]["state"] == "idle"
    assert on_disk(session) == {"wall_s": 300}


def test_longer_time_saves_the_running_cell(house):
    """A cell that would have been stopped is not, once it may run longer."""
    session = house.session(limits={"wall_s": 2})
    with house.keeper(session) as keeper:
        cell = keeper.start("import time\nstart = time.monotonic()\n_ = input()\n"
                            "while time.monotonic() < start + 2.5: pass\n'through'",
                            allow_stdin=True)
        keeper.event("input_request", cell=cell)
        limits(keeper, wall_s=600)
        keeper.ask("input", text="")
        done = keeper.finished(cell)
        assert (done.status, done.result) == ("ok", "'through'")


def test_output_of_the_running_cell(house):
    """Less than it has put out already drops what follows; more lets it through again."""
    session = house.session()
    with house.keeper(session) as keeper:
        cell = keeper.start("for i in range(3):\n"
                            "    print('x' * 5000, flush=True)\n    _ = input()",
                            allow_stdin=True)
        keeper.event("input_request", cell=cell)
        limits(keeper, output_bytes=1000)
        keeper.ask("input", text="")
        keeper.event("warning", code="output_bytes", cell=cell)
        keeper.event("input_request", cell=cell)
        limits(keeper, output_bytes=1 << 20)
        keeper.ask("input", text="")
        keeper.event("input_request", cell=cell)
        keeper.ask("input", text="")
        done = keeper.finished(cell)
        assert done.status == "ok" and done.out == ("x" * 5000 + "\n") * 2
        (truncated,) = done.of("truncated")
        assert (truncated["limit"], truncated["bytes_dropped"]) == ("output_bytes", 5001)


def test_background_output(house):
    session = house.session(limits={"background_bytes": 10})
    with house.keeper(session) as keeper:
        limits(keeper, background_bytes=100_000)
        cell = keeper.start("import threading\ngo = threading.Event()\n"
                            "t = threading.Thread(target=lambda: (go.wait(), print('y' * 5000)))\n"
                            "t.start()")
        keeper.finished(cell)
        keeper.start("go.set(); t.join()")
        keeper.wait_text("y" * 5000)


def test_queue(house):
    session = house.session(limits={"queue": 1})
    with house.keeper(session) as keeper:
        keeper.start("_ = input()", id="runs", allow_stdin=True)
        keeper.event("input_request", cell="runs")
        keeper.start("1", id="waits")
        with pytest.raises(Refused) as refused:
            keeper.start("2", id="third")
        assert refused.value.code == "busy"
        limits(keeper, queue=2)
        keeper.start("2", id="third")
        limits(keeper, queue=1)  # those that wait stay
        keeper.ask("input", text="")
        assert keeper.finished("waits").status == keeper.finished("third").status == "ok"


def test_record_that_was_full(house):
    """A session that has met record_bytes goes on when it is raised, and can meet it again."""
    session = house.session(limits={"record_bytes": 1 << 20})
    with house.keeper(session) as keeper:
        flood = "for i in range(30_000): print(i, 'x' * 80)"
        assert [e["limit"] for e in keeper.run(flood).of("truncated")] == ["record_bytes"]
        with pytest.raises(Refused) as refused:
            keeper.start("1")
        assert refused.value.code == "limit"
        limits(keeper, record_bytes=3 << 20)
        assert keeper.run("6 * 7", id="again").result == "42"
        assert [e["limit"] for e in keeper.run(flood, id="flood").of("truncated")] == [
            "record_bytes"]
        codes = [e["code"] for e in keeper.events if e["type"] == "warning"]
        assert codes.count("record_bytes") == 2
    assert (session / "journal.ndjson").stat().st_size <= 3 << 20


READ = """
import resource as r
print([r.getrlimit(x) for x in (r.RLIMIT_NPROC, r.RLIMIT_NOFILE, r.RLIMIT_FSIZE)])
"""


def test_limits_of_processes(house):
    """Lowered at once for all that run, raised by a restart."""
    session = house.session()
    with house.keeper(session) as keeper:
        assert keeper.run(
            "import subprocess, sys\n"
            "child = subprocess.Popen([sys.executable, '-c', 'input()\\n' + %r],\n"
            "    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)" % READ).status == "ok"
        now, later = limits(keeper, processes=100, files=128, file_bytes=5000)
        assert (now["processes"], now["files"], now["file_bytes"]) == (100, 128, 5000) and not later
        lowered = "[(100, 100), (128, 128), (5000, 5000)]\n"
        assert keeper.run(READ).out == lowered
        assert keeper.run("print(child.communicate('\\n')[0], end='')").out == lowered
        done = keeper.run("with open('f', 'wb') as file: file.write(b'x' * 9000)")
        assert done.error == "OSError"
        now, later = limits(keeper, files=256)
        assert now["files"] == 128 and later == {"files": 256}
        event = [event for event in keeper.events if event["type"] == "state"][-1]
        assert event["limits"]["files"] == 128 and event["next"] == {"files": 256}
        assert keeper.run(READ).out == lowered
        keeper.ask("restart")
        assert keeper.run(READ).out == "[(100, 100), (256, 256), (5000, 5000)]\n"
        event = [event for event in keeper.events if event["type"] == "state"][-1]
        assert event["limits"]["files"] == 256 and event["next"] == {}
        assert limits(keeper)[1] == {}
    assert on_disk(session) == {"processes": 100, "files": 256, "file_bytes": 5000}


def test_a_fork_bomb_is_limited(house):
    """Processes that are made while the limit is lowered have it too."""
    session = house.session(limits={"processes": 400})
    with house.keeper(session) as keeper:
        cell = keeper.start(
            "import os, signal, resource\n"
            "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
            "print('on', flush=True)\n"
            "while resource.getrlimit(resource.RLIMIT_NOFILE)[0] != 150:\n"
            "    if os.fork() == 0: os._exit(0)\n"
            "    pid = os.fork()\n"
            "    if pid == 0:\n"
            "        pid = os.fork()\n"
            "        os._exit(0)\n"
            "print(resource.getrlimit(resource.RLIMIT_NOFILE))")
        keeper.wait_text("on", cell)
        assert limits(keeper, files=150)[0]["files"] == 150
        assert "(150, 150)" in keeper.finished(cell).out


def test_size_of_tmp(house):
    """Waits for the next interpreter, whose /tmp is a new one; other restarts keep /tmp."""
    session = house.session()
    size = "import os\nst = os.statvfs('/tmp')\n" \
           "print(st.f_frsize * st.f_blocks, os.path.exists('/tmp/kept'))"
    with house.keeper(session) as keeper:
        keeper.run("open('/tmp/kept', 'w').close()")
        keeper.ask("restart")
        assert keeper.run(size).out == "%d True\n" % GIGA
        now, later = limits(keeper, tmp_bytes=16 << 20, queue=5)
        assert (now["tmp_bytes"], now["queue"]) == (GIGA, 5) and later == {"tmp_bytes": 16 << 20}
        assert keeper.run(size).out == "%d True\n" % GIGA
        keeper.ask("restart")
        assert keeper.run(size).out == "%d False\n" % (16 << 20)
        assert limits(keeper)[0]["tmp_bytes"] == 16 << 20
    with house.keeper(session) as keeper:
        assert keeper.run(size, id="again").out == "%d False\n" % (16 << 20)


def test_without_a_sandbox(house):
    """Tier none: no namespaces, a cold interpreter, the same rules."""
    session = house.session(tier="none")
    with house.keeper(session) as keeper:
        limits(keeper, files=170)
        assert "(170, 170)" in keeper.run(READ).out
        limits(keeper, files=180)
        keeper.ask("restart")
        assert "(180, 180)" in keeper.run(READ).out


def test_edited_by_hand(house):
    """While no keeper runs session.json belongs to whoever edits it: the next one reads it."""
    session = house.session()
    with house.keeper(session) as keeper:
        limits(keeper, queue=7)
    config = json.loads((session / "session.json").read_text())
    config["limits"].update(files=199, wall_s=11)
    (session / "session.json").write_text(json.dumps(config, indent=2))
    with house.keeper(session) as keeper:
        now, later = limits(keeper)
        assert (now["queue"], now["files"], now["wall_s"]) == (7, 199, 11) and not later
        assert "(199, 199)" in keeper.run(READ).out
        limits(keeper, wall_s=12)
    assert on_disk(session) == {"queue": 7, "files": 199, "wall_s": 12}
    config["limits"]["sites"] = 1
    (session / "session.json").write_text(json.dumps(config))
    with pytest.raises(Refused) as refused:
        house.keeper(session)
    assert "sites" in refused.value.message and "tmp_bytes" in refused.value.message


def test_the_disk_has_it_before_it_holds(house):
    """When session.json cannot be written, nothing has changed; and nothing else is touched."""
    session = house.session(limits={"queue": 3})
    with house.keeper(session) as keeper:
        (session / "session.json").rename(session / "away")
        with pytest.raises(Refused):
            limits(keeper, queue=9)
        assert limits(keeper)[0]["queue"] == 3
        (session / "away").rename(session / "session.json")
        assert limits(keeper, queue=9)[0]["queue"] == 9
        names = set(os.listdir(session))
    assert not [name for name in names if "json." in name or name.startswith(".fumehood")], names


def test_many_changes_and_the_end(house):
    """Changes from several clients come one after another; a stop waits for them."""
    session = house.session()
    with house.keeper(session) as keeper:
        with house.connect(session, since=None) as other:
            for number in range(1, 21):
                keeper.send("limits", id="k%d" % number, set={"queue": number})
                other.send("limits", id="o%d" % number, set={"wall_s": number})
            assert keeper.answer("k20")["limits"]["queue"]["value"] == 20
            assert other.answer("o20")["limits"]["wall_s"]["value"] == 20
            keeper.send("limits", id="last", set={"queue": 33})
            keeper.stop()
            other.close()
    assert on_disk(session) == {"queue": 33, "wall_s": 20}
    events = [json.loads(line) for line in (session / "journal.ndjson").open()]
    assert events[-1]["type"] == "stopped" and events[-2]["type"] == "state"


def test_the_command(house):
    """fumehood limits: a table, JSON, sizes and times, and what it refuses."""
    assert house.cli("run", "-s", "roomy", "-c", "x = 5").status == 0
    table = house.cli("limits", "roomy")
    assert table.status == 0 and [line.split()[0] for line in table.out.splitlines()] == [
        "LIMIT", *NAMES]
    ran = house.cli("limits", "roomy", "wall_s=2m", "output_bytes=1M", "files=2000", "--json")
    assert ran.status == 0, ran
    answer = json.loads(ran.out)
    assert answer["wall_s"]["value"] == 120 and answer["output_bytes"]["value"] == 1 << 20
    assert answer["files"] == {"value": 1024, "changes": "lower", "next": 2000}
    table = house.cli("limits", "roomy").out
    assert "120s" in table and "2000 from the next restart" in table
    assert house.cli("limits", "roomy", "memory_bytes=none", "cpus=1.5", "cpu_s=1m").status == 0
    table = dict(line.split()[:2] for line in house.cli("limits", "roomy").out.splitlines())
    assert (table["memory_bytes"], table["cpus"], table["cpu_s"]) == ("none", "1.5", "60s")
    assert table["disk_inodes"] == "200000"
    for words, word in ((["wall_s"], "NAME=VALUE"), (["wall_s=x"], "2m"), (["queue=1M"], "number"),
                        (["cpus=few"], "1.5"), (["tmp_bytes=much"], "500M"),
                        (["queue=1", "queue=2"], "twice")):
        ran = house.cli("limits", "roomy", *words)
        assert ran.status == USAGE and word in ran.err, ran
    ran = house.cli("limits", "roomy", "colour=1")
    assert ran.status == FAULT and "background_bytes" in ran.err, ran
    assert house.cli("run", "-s", "roomy", "-c", "x").out == "5\n"
    house.cli("stop", "roomy")
    ran = house.cli("limits", "roomy")
    assert ran.status == FAULT and "not running" in ran.err
    assert house.cli("limits", "roomy", "queue=4").status == 0  # started for that
    assert json.loads(house.cli("limits", "roomy", "--json").out)["files"]["value"] == 2000
    assert "limits" in house.cli("log", "roomy").out
