"""Branches: a second interpreter from the same memory, in the same box. Whatever happens to one,
the others go on, and each has a record of its own. How they end: test_fork_ends.py.
"""
import json

import pytest

from fork_kit import DAEMON, TIERS, beats, family, settle, x_of  # noqa: F401 (one is a fixture)
from fumehood_kit import Refused


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
