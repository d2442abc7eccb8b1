"""Branches that end: stopped, killed, with their keeper or their box, and what is left of each."""
import json
import os
import random
import signal

import pytest

from fork_kit import DAEMON, beats, family, settle, x_of  # noqa: F401 (one is a fixture)
from fumehood_kit import FAULT, LONG, WAIT_S, Refused, init_of, kill, spawner_of, wait_gone


# --------------------------------------------------------------------------------------------- ends
@pytest.mark.parametrize("order", ((0, 1, 2), (2, 1, 0), (1, 0, 2), (2, 0, 1)))
def test_stopped_in_any_order(family, house, order):
    three = family()
    three.root.run(DAEMON + "x = 1")
    three.fork().run("x = 2")
    three.fork().run("x = 3")
    for number, member in enumerate(three.all):
        member.run("daemon('d%d')" % number)
    keeper = three.root.pid
    left = list(range(3))
    for number in order:
        three.all[number].stop() if number else three.root.ask("stop")
        left.remove(number)
        for other in left:
            assert x_of(three.all[other]) == str(other + 1)
        if left:
            assert [beats(three.all[left[0]], "d%d" % n) for n in left] == [True] * len(left)
            assert not beats(three.all[left[0]], "d%d" % number)
    assert wait_gone(keeper)
    three.root.close()
    three.all = []
    three.root.sock.close()


def journal_of(house, member):
    path = house.sessions / member.hello["session"] / "journal.ndjson"
    lines = path.read_bytes().rstrip(b"\0").splitlines()
    return [json.loads(line) for line in lines if line.strip(b"\0 ")]


def test_the_keeper_is_killed(family, house):
    two = family()
    two.root.run("x = 1\nopen('f', 'w').write('kept')")
    branch = two.fork(name="orphan")
    branch.run("print('before')")
    cell = branch.start("import time; print('begun', flush=True); time.sleep(60)")
    branch.wait_text("begun", cell)
    init = init_of(two.root.pid)
    kill(two.root.pid)
    assert wait_gone(init)
    two.all = []
    for member in (two.root, branch):
        while member.line() is not None:
            pass
        member.close()
        assert [event["seq"] for event in journal_of(house, member)] == list(
            range(1, len(journal_of(house, member)) + 1))
    result = house.cli("run", "-s", "orphan", "-c", "print(open('f').read()); x")
    assert "NameError" in result.err and result.out == "kept\n"
    again = house.connect(branch.hello["session"])
    assert again.events or again.event("session")
    assert again.finished(cell).status == "died"
    again.stop()
    root = house.keeper(house.sessions / two.root.hello["session"])
    assert root.run("print(open('f').read())", id="again").out == "kept\n"
    root.stop()


def test_the_box_is_killed(family):
    three = family()
    three.root.run("x = 1")
    three.fork().run("x = 2")
    three.fork().run("x = 3")
    cell = three.all[1].start("import time; time.sleep(60)")
    init = init_of(three.root.pid)
    kill(init)
    assert three.all[1].finished(cell).finished["state"] == "reset"
    for member in three.all:
        member.event("restarted")
    for number, member in enumerate(three.all):
        assert member.run("x").error == "NameError"
        assert member.run("x = %d\nopen('f%d', 'w').write('')" % (number, number)).status == "ok"
    assert init_of(three.root.pid) != init
    assert [x_of(member) for member in three.all] == ["0", "1", "2"]
    again = three.fork(three.all[2])
    assert x_of(again) == "2"


def test_a_fork_bomb_in_a_branch(family):
    """It is stopped without the others, and the others get the room that it has taken."""
    two = family(limits={"processes": 200})
    two.root.run("x = 1")
    branch = two.fork()
    settle(branch)
    end = branch.run("import os, signal\n"
                     "signal.pthread_sigmask(signal.SIG_BLOCK, [2])  # else one may heed it\n"
                     "while True:\n    try: os.fork()\n    except OSError: pass",
                     timeout=1).finished
    assert end["status"] in ("timeout", "died") and end["state"] == "recovered", end
    assert (x_of(two.root), x_of(branch)) == ("1", "1")
    cell = two.root.run("import os\nprint(sum(name.isdigit() for name in os.listdir('/proc')))")
    assert int(cell.out) < 20, cell


def test_a_death_while_a_branch_is_made(family):
    """The parent ends while its branch wakes: they do not hurt each other."""
    two = family()
    two.root.run("x = 1")
    settle(two.root)
    two.root.ask("checkpoint", name="one")
    for _ in range(10):
        two.root.send("fork", **{"from": "one", "id": "f"})
        two.root.send("run", code="import os; os._exit(1)")
        told = two.root.answer("f")
        branch = two.house.connect(told["session"])
        assert x_of(branch) == "1"
        branch.stop()
        assert x_of(two.root) == "1"
        settle(two.root)


def test_children_of_a_dead_branch(family):
    two = family(limits={"processes": 256})
    two.root.run("x = 1")
    branch = two.fork()
    settle(branch)
    end = branch.run("import os, time\nfor _ in range(40):\n"
                     "    if os.fork() == 0:\n        time.sleep(300)\n"
                     "os._exit(4)").finished
    assert (end["reason"], end["state"]) == ("exit status 4", "recovered")
    assert x_of(two.root) == "1"
    cell = two.root.run("import os\nprint(sum(name.isdigit() for name in os.listdir('/proc')))")
    assert int(cell.out) < 20, cell


def test_limits_of_the_box_wait_for_the_others(family):
    two = family()
    two.root.run("x = 1")
    branch = two.fork()
    for name, value in (("memory_bytes", 1 << 30), ("tmp_bytes", 1 << 20), ("processes", 64)):
        with pytest.raises(Refused) as refused:
            branch.ask("limits", set={name: value})
        assert refused.value.code == "busy"
    branch.ask("limits", set={"wall_s": 100})
    assert two.root.ask("limits")["limits"]["wall_s"]["value"] != 100
    branch.stop()
    two.root.ask("limits", set={"processes": 64})


def test_the_network_is_shared(family):
    """Nobody can tell whose connection it is, so each journal has it."""
    two = family(policy={"net": ["example.org"]})
    two.root.run("import urllib.request")
    branch = two.fork()
    cell = branch.run("try: urllib.request.urlopen('http://elsewhere.test/')\n"
                      "except OSError as error: print(error)")
    assert cell.status == "ok" and "elsewhere.test" in cell.out + repr(cell), cell
    for member in two.all:
        found = [event for event in member.events if event["type"] == "network"]
        event = found[0] if found else member.event("network")
        assert (event["host"], event["allowed"]) == ("elsewhere.test", False)
        assert "cell" not in event
    with pytest.raises(Refused) as refused:
        branch.ask("policy", set={"net": ["example.com"]})
    assert refused.value.code == "busy"
    branch.stop()
    two.root.ask("policy", set={"net": ["example.com"]})


def test_ends_with_its_own_client(house):
    root = house.keeper(house.session(ends_with_client=True))
    root.run("x = 1")
    branch = house.connect(root.ask("fork")["session"])
    root.sock.close()
    assert branch.run("print(x)").out == "1\n"
    branch.sock.close()
    root.process.wait(WAIT_S)


def test_memory_of_one_branch(family):
    two = family(limits={"memory_bytes": 400 << 20})
    two.root.run("x = 1")
    branch = two.fork()
    settle(branch)
    end = branch.run("y = []\nwhile True: y.append(bytearray(b'x') * (8 << 20))").finished
    if end["status"] == "died":
        assert end["limit"]["name"] == "memory_bytes" and end["state"] == "recovered"
    assert (x_of(two.root), x_of(branch)) == ("1", "1")
    assert not any(event["type"] in ("died", "warning") for event in two.root.events)


def test_nothing_is_left(family):
    """Descriptors of the keeper, processes and directories, after many branches."""
    one = family()
    one.root.run("x = 1")
    settle(one.root)

    def count():
        return len(os.listdir("/proc/%d/fd" % one.root.pid))
    one.fork().stop()
    before = count()
    for _ in range(30 if LONG else 10):
        branch = one.fork()
        assert x_of(branch) == "1"
        settle(branch)
        branch.stop()
    settle(one.root)
    assert count() <= before
    cell = one.root.run("import os\nprint(sum(name.isdigit() for name in os.listdir('/proc')))")
    assert int(cell.out) < 12, cell
    folder = one.house.sessions / one.root.hello["session"] / "branches"
    assert all(path.is_symlink() for path in folder.iterdir())


def test_removing(family, house):
    two = family()
    two.root.run("x = 1")
    branch = two.fork(name="kept")
    branch.stop()
    root = two.root.hello["session"]
    two.root.stop()
    two.all = []
    refused = house.cli("gc", root)
    assert refused.status == FAULT and "kept" in refused.err
    assert house.cli("gc", "kept").status == 0
    assert house.cli("gc", root).status == 0


def test_a_branch_that_is_still_inside(family, house):
    """Nobody was left to put its directory in its place: all works through the link."""
    two = family()
    two.root.run("x = 1")
    branch = two.fork(name="inside")
    branch.run("y = 1")
    spawner = spawner_of(two.root.pid)
    kill(two.root.pid, signal.SIGSTOP)
    kill(spawner)
    kill(two.root.pid)
    assert wait_gone(spawner)
    two.all = []
    for member in (two.root, branch):
        while member.line() is not None:
            pass
        member.close()
    root, ident = two.root.hello["session"], branch.hello["session"]
    assert (house.sessions / ident).is_symlink()
    assert house.cli("run", "-s", "inside", "-c", "z = 2").status == 0
    inner = house.cli("fork", "inside", "inner")
    assert inner.status == 0, inner
    assert house.cli("run", "-s", "inner", "-c", "print(z)").out == "2\n"
    assert house.cli("gc", root).status == FAULT
    for name in ("inner", "inside"):
        assert house.cli("stop", name).status == 0
    assert not (house.sessions / inner.out.strip()).is_symlink()
    for name in ("inner", "inside", root):
        assert house.cli("gc", name).status == 0, name
    assert not list(house.sessions.glob(ident + "*"))


@pytest.mark.parametrize("seed", range(20 if LONG else 3))
def test_at_random(family, seed):
    """Whatever happens to whom, each has what it should have."""
    chance = random.Random(seed)
    many = family(limits={"checkpoints": 64})
    many.root.run("import os; x = 0")
    states = {many.root: [0]}  # the values of x before and after each cell that has set it

    def step(member):
        kind = chance.choice(["set", "set", "set", "fork", "die", "undo", "kill", "stop", "reset"])
        values = states[member]
        if kind == "fork" and len(states) < 8:
            states[many.fork(member)] = values[-1:]
        elif kind in ("die", "kill"):
            settle(member)
            code = "os._exit(1)" if kind == "die" else "os.kill(os.getpid(), 9)"
            end = member.run("import os; x = -1; " + code).finished
            assert end["state"] == "recovered" and "rolled_back" not in end, end
        elif kind == "undo" and len(values) > 1:
            member.ask("rollback")
            values.pop()
        elif kind == "stop" and member is not many.root and len(states) > 2:
            member.stop()
            del states[member]
            return
        elif kind == "reset" and chance.random() < 0.3:
            member.ask("restart")
            values[:] = [None]
        value = chance.randrange(1000)
        assert member.run("x = %d" % value).status == "ok"
        settle(member)
        values.append(value)
        if values[0] is None:
            del values[0]

    for _ in range(60 if LONG else 25):
        step(chance.choice(list(states)))
        for member, values in states.items():
            if chance.random() < 0.3:
                assert x_of(member) == str(values[-1])
                settle(member)
                values.append(values[-1])
    for member, values in states.items():
        assert x_of(member) == str(values[-1])
