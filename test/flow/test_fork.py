"""Branches: a second interpreter from the same memory, in the same box. Whatever happens to one,
the others go on, and each has a record of its own.
"""
import json
import os
import random
import signal
import time

import pytest

from fumehood_kit import FAULT, LONG, WAIT_S, Refused, init_of, kill, spawner_of, wait_gone

TIERS = ("full", "none")
DAEMON = """
import os, time
def daemon(path):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.close(1); os.close(2)
            open(path, "w").write(str(os.getpid()))
            while True:
                time.sleep(0.01)
                open(path + ".beat", "a").write(".")
        os._exit(0)
    os.wait()
    while not os.path.exists(path) or not open(path).read():
        time.sleep(0.01)
"""


class Family:
    """A session and its branches, each with a connection."""

    def __init__(self, house, **config):
        self.house, self.root = house, house.keeper(house.session(**config))
        self.all = [self.root]

    def fork(self, parent=None, **fields):
        parent = parent or self.root
        told = parent.ask("fork", **fields)
        branch = self.house.connect(told["session"])
        branch.told = told
        self.all.append(branch)
        return branch

    def close(self):
        for member in self.all[::-1]:
            if member.sock.fileno() >= 0 and member is not self.root:
                member.stop()
        if self.root.sock.fileno() >= 0:
            self.root.stop()
        self.root.close()


@pytest.fixture
def family(house):
    made = []

    def make(**config):
        made.append(Family(house, **config))
        return made[-1]
    yield make
    for one in made:
        one.close()


def x_of(member):
    cell = member.run("print(x)")
    assert cell.status == "ok", cell
    return cell.out.strip()


def settle(member):
    """Until the present state is held."""
    until = time.monotonic() + WAIT_S
    while not member.ask("checkpoints")["protected"]:
        assert time.monotonic() < until, "the state is not held"
        time.sleep(0.01)


def beats(member, path):
    """Whether the daemon that writes there lives."""
    cell = member.run("import os, time\n"
                      "def size(path=%r):\n"
                      "    return os.path.exists(path) and os.path.getsize(path)\n"
                      "before, until = size(), time.monotonic() + 2\n"
                      "while size() == before and time.monotonic() < until: time.sleep(0.01)\n"
                      "print(size() > before)" % (path + ".beat"))
    assert cell.status == "ok", cell
    return cell.out == "True\n"


# -------------------------------------------------------------------------------------- what it is
@pytest.mark.parametrize("tier", TIERS)
def test_variables_part(family, tier):
    two = family(tier=tier)
    two.root.run("x = [1]")
    branch = two.fork()
    assert branch.told["name"] is None
    assert branch.run("x.append(2)").status == "ok"
    assert (x_of(two.root), x_of(branch)) == ("[1]", "[1, 2]")
    assert branch.hello["session"] != two.root.hello["session"]
    assert branch.hello["pid"] == two.root.pid


def test_what_is_told(family, house):
    two = family()
    first = two.root.run("x = 1")
    last = two.root.run("x = 2")
    settle(two.root)
    branch = two.fork(name="told")
    assert branch.told["name"] == "told"
    begin = branch.event("session") if not branch.events else branch.events[0]
    parent = begin["parent"]
    assert (parent["session"], parent["cell"]) == (two.root.hello["session"], last.id)
    assert 0 < parent["seq"] <= two.root.ask("status")["last_seq"]
    told = [event for event in two.root.events if event["type"] == "forked"]
    forked = told[0] if told else two.root.event("forked")
    assert (forked["session"], forked["name"], forked["cell"]) == (begin["id"], "told", last.id)
    branch.send("run", code="x")
    assert branch.event("cell")["cell"] == "c3"  # behind its parent's
    shown = {json.loads(line)["id"]: json.loads(line)
             for line in house.cli("ls", "--json").out.splitlines()}
    assert shown[begin["id"]]["parent"] == parent["session"] and shown[begin["id"]]["running"]
    assert "parent" not in shown[parent["session"]]
    assert "(branch of %s)" % parent["session"][:8] in house.cli("ls").out
    assert first.finished["execution_count"] == 1
    assert branch.finished("c3").finished["execution_count"] == 3


def test_shared_workspace_and_own_record(family, house):
    two = family()
    two.root.run("x = 1")
    branch = two.fork()
    assert two.root.run("open('f', 'w').write('hello')").status == "ok"
    assert branch.run("print(open('f').read())").out == "hello\n"
    root, other = (house.sessions / member.hello["session"] for member in (two.root, branch))
    assert other.is_symlink() and (other / "journal.ndjson").exists()
    branch.run("print('of the branch')")
    assert "of the branch" not in (root / "journal.ndjson").read_text()
    branch.stop()
    assert other.is_dir() and not other.is_symlink()
    place, = other.glob("*.ipynb")
    notebook = json.loads(place.read_text())
    assert [cell["cell_type"] for cell in notebook["cells"]] == ["markdown", "code", "code"]
    assert two.root.hello["session"] in "".join(notebook["cells"][0]["source"])


def test_both_print_at_once(family):
    two = family()
    two.root.run("def say(word):\n    for i in range(2000): print(word, i)")
    branch = two.fork()
    cells = [(two.root, two.root.start("say('root')")), (branch, branch.start("say('branch')"))]
    for (member, cell), word in zip(cells, ("root", "branch")):
        assert member.finished(cell).out == "".join("%s %d\n" % (word, i) for i in range(2000))


def test_from_a_checkpoint_and_before_a_cell(family):
    many = family()
    first = many.root.run("x = 1")
    many.root.ask("checkpoint", name="one")
    many.root.run("x = 2")
    settle(many.root)
    last = many.root.run("x = 3")
    settle(many.root)
    assert x_of(many.fork(**{"from": "one"})) == "1"
    assert x_of(many.fork(**{"from": last.id})) == "2"
    empty = many.fork(**{"from": first.id})
    assert empty.run("x").error == "NameError"
    assert empty.events[0]["parent"]["cell"] is None
    with pytest.raises(Refused) as refused:
        many.fork(**{"from": "nothing"})
    assert refused.value.code == "not_found"
    assert x_of(many.root) == "3"


def test_from_a_checkpoint_while_a_cell_runs(family):
    two = family()
    two.root.run("x = 1")
    two.root.ask("checkpoint", name="one")
    cell = two.root.start("import time\nwhile x == 1: time.sleep(0.01)")
    with pytest.raises(Refused) as refused:
        two.fork()
    assert refused.value.code == "busy"
    assert x_of(two.fork(**{"from": "one"})) == "1"
    two.root.ask("interrupt")
    assert two.root.finished(cell).status == "interrupted"


def test_fork_of_a_fork(family, house):
    three = family()
    three.root.run("x = 1")
    child = three.fork()
    child.run("x = 2")
    grandchild = three.fork(child)
    grandchild.run("x = 3")
    assert [x_of(member) for member in three.all] == ["1", "2", "3"]
    child.stop()
    assert x_of(grandchild) == "3"
    assert grandchild.events[0]["parent"]["session"] == child.hello["session"]


def test_names_and_what_is_refused(family, house):
    two = family()
    two.root.run("x = 1")
    two.fork(name="taken")
    before = len(house.sockets())
    for name, code in (("taken", "duplicate"), ("a/b", "invalid"), (".x", "invalid")):
        with pytest.raises(Refused) as refused:
            two.fork(name=name)
        assert refused.value.code == code, name
    assert len(house.sockets()) == before
    assert house.find("taken").name == two.all[1].hello["session"]
    assert house.cli("run", "-s", "taken", "-c", "print(x)").out == "1\n"


def test_eight_live_in_a_box(family):
    many = family()
    many.root.run("x = 0")
    for number in range(1, 8):
        branch = many.fork()
        branch.run("x = %d" % number)
    with pytest.raises(Refused) as refused:
        many.fork()
    assert refused.value.code == "limit"
    assert [x_of(member) for member in many.all] == [str(number) for number in range(8)]
    many.all.pop().stop()
    assert x_of(many.fork()) == "0"


def test_tasks_and_threads(family):
    """Tasks go on in both; threads are not in the copy."""
    two = family()
    two.root.run("import asyncio, threading\nn = 0\n"
                 "async def count():\n    global n\n"
                 "    while True:\n        n += 1\n        await asyncio.sleep(0.001)\n"
                 "task = asyncio.create_task(count())\n"
                 "stop = threading.Event()\n"
                 "thread = threading.Thread(target=stop.wait, name='waiter', daemon=True)\n"
                 "thread.start()")
    branch = two.fork()
    for member in two.all:
        cell = member.run("before = n\nawait asyncio.sleep(0.2)\nprint(n > before + 5)")
        assert cell.out == "True\n", cell
    assert two.root.run("print(thread.is_alive())").out == "True\n"
    assert branch.run("print(thread.is_alive())").out == "False\n"


# ------------------------------------------------------------------------------------ independence
DEATHS = {
    "exit": ("import os; os._exit(3)", "exit status 3"),
    "segfault": ("import ctypes; ctypes.string_at(0)", "signal 11 (Segmentation fault)"),
    "kill": ("import os; os.kill(os.getpid(), 9)", "signal 9 (Killed)"),
}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("death", DEATHS)
def test_a_death_is_one_ones_own(family, tier, death):
    three = family(tier=tier)
    three.root.run(DAEMON + "x = 1; daemon('root')")
    branch = three.fork()
    branch.run("x = 2; daemon('branch')")
    other = three.fork(branch)
    other.run("x = 3; daemon('other')")
    for member in three.all:
        settle(member)
    waiting = three.root.start("import time\nfor i in range(300): time.sleep(0.01)\nprint('on')")
    code, reason = DEATHS[death]
    end = branch.run(code).finished
    assert (end["status"], end["reason"], end["state"]) == ("died", reason, "recovered")
    assert three.root.finished(waiting).out == "on\n"
    assert [x_of(member) for member in three.all] == ["1", "2", "3"]
    assert [beats(three.root, name) for name in ("root", "branch", "other")] == [True, False, True]
    end = three.root.run(code).finished
    assert (end["status"], end["reason"], end["state"]) == ("died", reason, "recovered")
    assert [x_of(member) for member in three.all] == ["1", "2", "3"]
    assert [beats(other, name) for name in ("root", "other")] == [False, True]


def test_a_timeout_is_one_ones_own(family):
    two = family()
    two.root.run("import signal, time; x = 1")
    branch = two.fork()
    settle(branch)
    waiting = two.root.start("for i in range(900): time.sleep(0.01)\nprint('on')")
    end = branch.run("signal.pthread_sigmask(signal.SIG_BLOCK, [2])\nwhile True: pass",
                     timeout=0.3).finished
    assert (end["status"], end["state"]) == ("timeout", "recovered")
    assert two.root.finished(waiting).out == "on\n"
    assert x_of(branch) == "1"


def test_an_interrupt_is_one_ones_own(family):
    two = family()
    two.root.run("import time; x = 1")
    branch = two.fork()
    waiting = two.root.start("for i in range(100): time.sleep(0.01)\nprint('on')")
    cell = branch.start("print('in', flush=True)\ntime.sleep(60)")
    branch.wait_text("in", cell)
    branch.ask("interrupt")
    assert branch.finished(cell).status == "interrupted"
    assert two.root.finished(waiting).out == "on\n"


def test_going_back_is_one_ones_own(family):
    two = family()
    two.root.run("x = 1")
    branch = two.fork()
    settle(branch)
    cell = branch.run("x = 2")
    settle(branch)
    two.root.run("x = 3")
    assert branch.ask("rollback")["rolled_back"] == [cell.id]
    assert (x_of(two.root), x_of(branch)) == ("3", "1")
    branch.ask("reset")
    assert branch.run("x").error == "NameError"
    assert x_of(two.root) == "3"
    branch.run("x = 4")
    branch.ask("restart")
    assert branch.run("x").error == "NameError"
    two.root.ask("restart")
    branch.run("x = 5")
    assert two.root.run("x").error == "NameError" and x_of(branch) == "5"
    assert branch.run("import os; os._exit(1)").finished["state"] == "recovered"
    assert x_of(branch) == "5"


def test_the_state_before_a_branch_is_not_the_empty_one(family):
    two = family(limits={"checkpoints": 1})
    two.root.run("x = 1")
    branch = two.fork()
    cells = []
    for _ in range(3):
        cells.append(branch.run("x = 2").id)
        settle(branch)
    with pytest.raises(Refused) as refused:
        branch.ask("rollback", to=cells[0])
    assert refused.value.code == "not_found"


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
    end = branch.run("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
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
