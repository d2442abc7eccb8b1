"""Checkpoints by the session protocol: what is held, what comes back, what is said of it.

What comes back of each thing inside an interpreter is in test_restored_state.py, the ways to die in
test_deaths.py, the command line in test_checkpoints_cli.py.
"""
import os
import signal

import pytest

from fumehood_kit import Refused, init_of

MIB = 1 << 20


@pytest.fixture(params=["full", "degraded", "none"])
def tier(request):
    if request.param == "degraded" and os.getuid() == 0:
        pytest.skip("tier degraded is refused to root")
    return request.param


@pytest.fixture
def keeper(house, tier):
    with house.keeper(house.session(tier=tier)) as keeper:
        yield keeper


def start(keeper, code, **fields):
    """Sends a cell; they are called c1, c2 ..."""
    keeper.cells = getattr(keeper, "cells", 0) + 1
    return keeper.start(code, id="c%d" % keeper.cells, **fields)


def go(keeper, code, **fields):
    """Runs a cell."""
    return keeper.finished(start(keeper, code, **fields))


def run(keeper, code, **fields):
    """Runs a cell, and waits until it is committed if that is to come."""
    cell = go(keeper, code, **fields)
    if cell.finished.get("protected") == "pending":
        keeper.event("committed", cell=cell.id)
    return cell


def value(keeper, expression):
    return run(keeper, expression).result


def held(keeper):
    return keeper.ask("checkpoints")["checkpoints"]


# ---- deaths

def test_a_death_costs_one_cell(keeper):
    run(keeper, "x = [1]")
    run(keeper, "x.append(2)")
    cell = go(keeper, "x.append(3); import os; os._exit(7)")
    assert cell.status == "died" and cell.finished["reason"] == "exit status 7"
    assert cell.finished["state"] == "recovered"
    assert "recovers_to" not in cell.finished and "rolled_back" not in cell.finished
    assert value(keeper, "x") == "[1, 2]"


def test_any_number_of_times(keeper):
    run(keeper, "x = 5")
    for _ in range(5):
        assert go(keeper, "import os; os.abort()").finished["state"] == "recovered"
    assert value(keeper, "x") == "5"


def test_first_cell_has_nothing_before_it(keeper):
    cell = go(keeper, "import os; os._exit(1)")
    assert (cell.status, cell.finished["state"]) == ("died", "reset")
    assert value(keeper, "1 + 1") == "2"


def test_cells_that_wait_run_after_the_recovery(keeper):
    """Sent at once: each is protected before the next one runs."""
    cells = [start(keeper, code) for code in
             ("x = 1", "y = 2", "import os; os._exit(1)", "print(x, y)")]
    died = keeper.finished(cells[2]).finished
    assert died["state"] == "recovered" and "rolled_back" not in died, died
    assert keeper.finished(cells[3]).out == "1 2\n", keeper.events


def test_death_between_two_cells(keeper):
    run(keeper, "x = 1")
    run(keeper, "import threading, os\n"
                "threading.Timer(0.05, os._exit, [3]).start()")
    died = keeper.event("died")
    assert died["reason"] == "exit status 3" and died["state"] == "recovered"
    assert "rolled_back" not in died
    assert value(keeper, "x") == "1"


def test_death_between_two_cells_any_number_of_times(keeper):
    """Only what dies again and again without a cell between is not returned to for ever."""
    run(keeper, "x = 1")
    for _ in range(8):
        go(keeper, "import threading, os\nthreading.Timer(0.05, os._exit, [3]).start()")
        assert keeper.event("died")["state"] == "recovered"
        assert value(keeper, "x") == "1"


def test_time_limit_of_a_cell_that_cannot_be_interrupted(keeper):
    run(keeper, "x = 1")
    cell = go(keeper, "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                      "while True: pass", timeout=0.2)
    assert (cell.status, cell.finished["state"]) == ("timeout", "recovered")
    assert value(keeper, "x") == "1"


def test_execution_counts_go_on(keeper):
    run(keeper, "x = 1")
    go(keeper, "import os; os._exit(1)")
    assert run(keeper, "x").finished["execution_count"] == 2


def test_all_copies_killed_is_a_reset(keeper, tier):
    run(keeper, "x = 1")
    code = "import os, signal\nfor name in os.listdir('/proc'):\n" \
           "    if name.isdigit() and int(name) not in (1, os.getpid()):\n" \
           "        try: os.kill(int(name), signal.SIGKILL)\n" \
           "        except OSError: pass\n" \
           "os._exit(1)"
    if tier != "full":
        pytest.skip("tier %s: its pids are those of the machine" % tier)
    cell = go(keeper, code)
    assert (cell.status, cell.finished["state"]) == ("died", "reset")
    assert cell.finished["rolled_back"] == ["c1"]
    assert run(keeper, "x").error == "NameError"


def test_pid_1_killed_is_a_reset(house):
    session = house.session()
    with house.keeper(session) as keeper:
        run(keeper, "x = 1")
        os.kill(init_of(keeper.pid), signal.SIGKILL)
        died = keeper.event("died")
        assert died["state"] == "reset" and died["rolled_back"] == ["c1"]
        assert run(keeper, "1").status == "ok"


# ---- what is held

def test_the_last_three_are_held(keeper):
    for number in range(5):
        run(keeper, "x = %d" % number)
    committed = [event for event in keeper.events if event["type"] == "committed"]
    assert committed[-1]["held"] == ["c3", "c4", "c5"]
    assert [item["cell"] for item in held(keeper)] == ["c5", "c4", "c3"]
    answer = keeper.ask("checkpoints")
    assert answer["recovers_to"] == "c5" and answer["protected"] is True
    assert all(item["name"] is None and item["state"] == "held" for item in held(keeper))


@pytest.mark.parametrize("count", [1, 5])
def test_how_many_is_a_limit(house, count):
    with house.keeper(house.session(limits={"checkpoints": count})) as keeper:
        for number in range(7):
            run(keeper, "x = %d" % number)
        assert len(held(keeper)) == count


def test_none_are_made(house):
    with house.keeper(house.session(limits={"checkpoints": 0})) as keeper:
        cell = go(keeper, "x = 1")
        assert (cell.finished["protected"], cell.finished["protected_reason"]) == ("no", "off")
        assert go(keeper, "import os; os._exit(1)").finished["state"] == "reset"
        go(keeper, "x = 2")
        assert keeper.ask("checkpoint", name="A")["checkpoint"]["name"] == "A"
        go(keeper, "x = 3")
        assert keeper.ask("rollback", to="A")["rolled_back"] == ["c4"]


def test_a_copy_that_failed_is_not_the_next_states_failure(house):
    """Where no process can be made there is no copy; when one can again, an atomic cell has its."""
    session = house.session(limits={"checkpoints": 0})
    with house.keeper(session) as keeper:
        keeper.run("import resource\nhard = resource.getrlimit(resource.RLIMIT_NPROC)[1]\n"
                   "resource.setrlimit(resource.RLIMIT_NPROC, (0, hard))")
        with pytest.raises(Refused, match="no copy of the interpreter can be made"):
            keeper.ask("checkpoint", name="never")
        keeper.run("resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))")
        assert keeper.run("x = 1", atomic=True).status == "ok"
        assert keeper.run("x = 2; raise ValueError", atomic=True).finished["state"] == "rolled_back"
        assert keeper.run("x").result == "1"


def test_limit_changes_while_it_lives(keeper):
    run(keeper, "x = 1")
    keeper.ask("limits", set={"checkpoints": 0})
    assert go(keeper, "x = 2").finished["protected"] == "no"
    keeper.ask("limits", set={"checkpoints": 2})
    run(keeper, "x = 3")
    cell = go(keeper, "import os; os._exit(1)")
    assert cell.finished["state"] == "recovered" and value(keeper, "x") == "3"


def test_a_loop_of_tiny_cells_is_not_held_up_for_ever(keeper):
    """Beyond the credit of delay, copies wait for a pause; and it is said."""
    seen = set()
    for number in range(400):
        finished = go(keeper, "n = %d" % number).finished
        seen.add((finished["protected"], finished.get("protected_reason")))
    assert seen <= {("pending", None), ("no", "busy"), ("yes", None)}
    keeper.event("committed", cell="c400")
    assert go(keeper, "import os; os._exit(1)").finished["state"] == "recovered"
    assert value(keeper, "n") == "399"


# ---- named ones

def test_named_checkpoint_and_back(keeper):
    run(keeper, "x = 1")
    made = keeper.ask("checkpoint", name="A")["checkpoint"]
    assert (made["name"], made["cell"], made["execution_count"]) == ("A", "c1", 1)
    run(keeper, "x = 2")
    run(keeper, "y = 3")
    answer = keeper.ask("rollback", to="A")
    assert (answer["cell"], answer["rolled_back"]) == ("c1", ["c2", "c3"])
    assert run(keeper, "x, 'y' in globals()").result == "(1, False)"
    # Forward again is possible only with a name.
    with pytest.raises(Refused, match="not_found"):
        keeper.ask("rollback", to="c2")
    assert keeper.ask("rollback", to="A")["rolled_back"] == ["c4"]


def test_rollback_without_a_name_undoes_the_last_cell(keeper):
    run(keeper, "x = 1")
    run(keeper, "x = 2")
    run(keeper, "x = 3")
    assert keeper.ask("rollback")["rolled_back"] == ["c3"]
    assert keeper.ask("rollback")["rolled_back"] == ["c2"]
    assert value(keeper, "x") == "1"


def test_what_is_on_its_way_is_waited_for(keeper):
    """A copy that was told as pending can be asked for at once."""
    for number in range(20):
        cell = go(keeper, "x = %d" % number)
        if cell.finished["protected"] == "pending":
            answer = keeper.ask("checkpoints")
            assert (answer["recovers_to"], answer["protected"]) == (cell.id, True)
    go(keeper, "x = 'new'")
    assert keeper.ask("rollback")["cell"] == "c20"
    assert value(keeper, "x") == "19"


def test_rollback_to_before_a_cell(keeper):
    for number in range(1, 4):
        run(keeper, "x = %d" % number)
    answer = keeper.ask("rollback", to="c2")
    assert (answer["cell"], answer["rolled_back"]) == ("c1", ["c2", "c3"])
    answer = keeper.ask("rollback", to="c1")  # before the first one is the empty session
    assert (answer["cell"], answer["rolled_back"]) == (None, ["c1"])
    assert run(keeper, "x").error == "NameError"


def test_named_one_brings_its_own_past_back(keeper):
    run(keeper, "x = 1")
    run(keeper, "x = 2")
    keeper.ask("checkpoint", name="two")
    keeper.ask("rollback", to="c2")
    run(keeper, "x = 'other'")
    answer = keeper.ask("rollback", to="two")
    assert (answer["cell"], answer["rolled_back"]) == ("c2", ["c3"])
    assert value(keeper, "x") == "2"
    assert keeper.ask("rollback", to="c2")["rolled_back"] == ["c2", "c4"]


def test_reset_keeps_checkpoints(keeper):
    run(keeper, "x = 1")
    keeper.ask("checkpoint", name="A")
    answer = keeper.ask("reset")
    assert (answer["cell"], answer["rolled_back"]) == (None, ["c1"])
    cell = run(keeper, "x")
    assert cell.error == "NameError" and cell.finished["execution_count"] == 1
    keeper.ask("rollback", to="A")
    assert value(keeper, "x") == "1"


def test_events_of_a_rollback(keeper):
    run(keeper, "x = 1")
    keeper.ask("checkpoint", name="A")
    run(keeper, "open('made', 'w').write('x')")
    keeper.ask("rollback", to="A", files=False)
    event = [event for event in keeper.events if event["type"] == "rollback"][-1]
    assert (event["to"], event["cell"], event["reason"]) == ("A", "c1", "asked")
    assert event["rolled_back"] == ["c2"]
    assert [item["path"] for item in event["files"]["differ"]] == ["made"]


def test_restart_drops_them(keeper):
    run(keeper, "x = 1")
    keeper.ask("checkpoint", name="A")
    keeper.ask("restart")
    assert held(keeper) == []
    dropped = [event for event in keeper.events
               if event["type"] == "checkpoint" and event["action"] == "dropped"]
    assert {event["reason"] for event in dropped} == {"restart"} and len(dropped) == 2


# ---- refusals

def test_refusals(keeper):
    with pytest.raises(Refused, match="not_found: no cell has run"):
        keeper.ask("rollback")
    run(keeper, "x = 1")
    with pytest.raises(Refused, match='not_found.*"nix"'):
        keeper.ask("rollback", to="nix")
    with pytest.raises(Refused, match="not_found"):
        keeper.ask("checkpoints", drop="nix")
    keeper.ask("checkpoint", name="A")
    with pytest.raises(Refused, match="duplicate"):
        keeper.ask("checkpoint", name="A")
    for number in range(7):
        keeper.ask("checkpoint", name="n%d" % number)
    with pytest.raises(Refused, match="limit"):
        keeper.ask("checkpoint", name="ninth")
    keeper.ask("checkpoints", drop="A")
    assert keeper.ask("checkpoint", name="ninth")["checkpoint"]["name"] == "ninth"
    for name in ("", "-x", "12", "a b", "x" * 65):
        with pytest.raises(Refused, match="invalid"):
            keeper.ask("checkpoint", name=name)
    assert value(keeper, "x") == "1"


def test_busy_while_a_cell_runs(keeper):
    run(keeper, "x = 1")
    cell = start(keeper, "import time\nprint('on')\ntime.sleep(60)")
    keeper.wait_text("on")
    for op, fields in (("checkpoint", {"name": "A"}), ("rollback", {}), ("reset", {})):
        with pytest.raises(Refused, match="busy"):
            keeper.ask(op, **fields)
    keeper.ask("interrupt")
    assert keeper.finished(cell).status == "interrupted"


def test_no_longer_held(keeper):
    for number in range(6):
        run(keeper, "x = %d" % number)
    with pytest.raises(Refused, match="not held any more.*before cell c5"):
        keeper.ask("rollback", to="c2")
    assert value(keeper, "x") == "5"


# ---- atomic and try

def test_atomic_keeps_what_succeeds(keeper):
    run(keeper, "x = 1")
    assert run(keeper, "x = 2", atomic=True).finished["state"] == "kept"
    cell = run(keeper, "x = 3\n1/0", atomic=True)
    assert (cell.status, cell.error) == ("error", "ZeroDivisionError")
    assert cell.finished["state"] == "rolled_back"
    assert keeper.event("rollback")["reason"] == "atomic"
    assert value(keeper, "x") == "2"


def test_try_always_goes_back(keeper):
    run(keeper, "x = 1")
    cell = go(keeper, "x = 2\nprint(x)\nx", **{"try": True})
    assert (cell.status, cell.out, cell.result) == ("ok", "2\n", "2")
    assert cell.finished["state"] == "rolled_back"
    assert value(keeper, "x") == "1"


def test_first_cell_can_be_tried(keeper):
    assert go(keeper, "x = 1", **{"try": True}).finished["state"] == "rolled_back"
    assert run(keeper, "x").error == "NameError"


def test_atomic_cell_that_dies_or_is_stopped(keeper):
    run(keeper, "x = 1")
    cell = go(keeper, "x = 2\nimport os\nos._exit(1)", atomic=True)
    assert (cell.status, cell.finished["state"]) == ("died", "recovered")
    cell = go(keeper, "x = 3\nimport time\ntime.sleep(60)", atomic=True, timeout=0.2)
    assert (cell.status, cell.finished["state"]) == ("timeout", "rolled_back")
    assert value(keeper, "x") == "1"


def test_atomic_cells_that_wait(keeper):
    cells = [start(keeper, code, atomic=True) for code in ("x = 1", "y = 1/0", "z = x")]
    assert keeper.finished(cells[2]).finished["state"] == "kept"
    assert value(keeper, "x, z, 'y' in globals()") == "(1, 1, False)"


def test_interrupt_that_kills(keeper):
    run(keeper, "x = 1")
    cell = start(keeper, "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                         "print('on')\nwhile True: pass")
    keeper.wait_text("on")
    assert keeper.ask("interrupt", kill=True)["interrupted"] is True
    done = keeper.finished(cell)
    assert (done.status, done.finished["state"]) == ("interrupted", "recovered")
    assert value(keeper, "x") == "1"


# ---- files

def read(path):
    return {item.name: item.read_text() for item in path.iterdir()}


def test_files_go_back_in_a_private_workspace(house):
    session = house.session()
    place = session / "workspace"
    with house.keeper(session) as keeper:
        run(keeper, "open('a', 'w').write('one'); open('b', 'w').write('b')")
        made = keeper.ask("checkpoint", name="A")["checkpoint"]
        assert made["files"] == "held"
        run(keeper, "import os\nopen('a', 'w').write('two'); open('c', 'w').write('c')\n"
                    "os.remove('b')")
        files = keeper.ask("rollback", to="A")["files"]
        assert {item["path"] for item in files["restored"]} == {"a", "b"}
        assert [item["path"] for item in files["removed"]] == ["c"]
        assert read(place) == {"a": "one", "b": "b"}
        run(keeper, "open('a', 'w').write('three')\n1/0", atomic=True)
        assert read(place) == {"a": "one", "b": "b"}
        run(keeper, "open('a', 'w').write('four')", **{"try": True})
        assert read(place) == {"a": "one", "b": "b"}
        run(keeper, "open('a', 'w').write('five')\nos._exit(1)", atomic=True)
        assert read(place) == {"a": "one", "b": "b"}
        assert run(keeper, "open('a', 'w').write('six')").status == "ok"
        assert read(place)["a"] == "six"


def test_files_stay_in_a_persons_folder(house):
    place = house.folder()
    with house.keeper(house.session(workspace=place)) as keeper:
        run(keeper, "open('a', 'w').write('one')")
        assert keeper.ask("checkpoint", name="A")["checkpoint"]["files"] == "none"
        run(keeper, "open('a', 'w').write('two')")
        files = keeper.ask("rollback", to="A")["files"]
        assert [item["path"] for item in files["differ"]] == ["a"]
        assert read(place) == {"a": "two"}
        assert keeper.ask("checkpoint", name="B", files=True)["checkpoint"]["files"] == "held"
        run(keeper, "open('a', 'w').write('three')")
        keeper.ask("rollback", to="B", files=True)
        assert read(place) == {"a": "two"}


def test_open_file_of_before_goes_on_where_it_was(house):
    with house.keeper(house.session()) as keeper:
        run(keeper, "f = open('log', 'w')\nf.write('one ')\nf.flush()")
        keeper.ask("checkpoint", name="A")
        run(keeper, "f.write('two two two ')\nf.flush()")
        keeper.ask("rollback", to="A")
        run(keeper, "f.write('three')\nf.close()")
        assert value(keeper, "open('log').read()") == "'one three'"


# ---- memory

def test_change_of_much_makes_room(house):
    """A pass over an array that copies share takes its size again: the copies give way, the cell
    goes on."""
    limit = {"memory_bytes": 500 * MIB}
    with house.keeper(house.session(limits=limit)) as keeper:
        run(keeper, "import ctypes\nblock = bytearray(280 << 20)")
        for _ in range(3):
            cell = run(keeper, "ctypes.memset((ctypes.c_char * len(block)).from_buffer(block), 1, "
                               "len(block))")
            assert cell.status == "ok", cell
        dropped = [event for event in keeper.events
                   if event["type"] == "checkpoint" and event["action"] == "dropped"]
        assert dropped and {event["reason"] for event in dropped} == {"memory"}


def test_too_much_memory_costs_the_cell(house):
    limit = {"memory_bytes": 400 * MIB}
    with house.keeper(house.session(limits=limit)) as keeper:
        run(keeper, "x = 1")
        run(keeper, "y = 2")
        cell = go(keeper, "block = bytearray(2 << 30)\nfor i in range(0, len(block), 4096): "
                          "block[i] = 1")
        assert (cell.status, cell.finished["state"]) == ("died", "recovered")
        assert cell.finished["limit"]["name"] == "memory_bytes"
        assert value(keeper, "x, y") == "(1, 2)"
