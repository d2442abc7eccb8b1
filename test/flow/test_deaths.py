"""A cell that dies costs that cell: after each way of test/kit/death_table.py, in each tier, with
and without IPython, the variables, imports, open files and the working directory of before are
there, and the event says what is true. How long it took is printed, never asserted.
"""
import pytest

from death_table import AFTER, BEFORE, NO_DEATHS, QUICK, WAYS
from fumehood_kit import Refused
from world_kit import committed, world  # noqa: F401 (a fixture)

took = {}  # {world: [(microseconds, way)]}: of the whole cell, from its start to the recovery


@pytest.fixture(scope="module", autouse=True)
def print_what_it_took(request):
    yield
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        for name, times in took.items():
            times.sort()
            middle, (most, way) = times[len(times) // 2][0], times[-1]
            print("\n%s: died and recovered in p50 %.1f ms, at most %.1f ms (%s), n=%d" % (
                name, middle / 1e3, most / 1e3, way, len(times)))


def need(world, way):
    if world.tier not in way.tiers:
        pytest.skip("tier %s has processes of its own numbers" % world.tier)
    for name in way.needs:
        if not world.has(name):
            pytest.skip("missing optional component: %s of %s" % (name, world.python))


def begin(world, way):
    pipe = world.pipe(*way.options)
    cell = pipe.run(BEFORE)
    assert cell.status == "ok", cell
    committed(pipe, cell)
    return pipe


def check(pipe, end):
    """The session is what the event says."""
    assert "recovers_to" not in end, end
    if end["state"] == "reset":
        assert len(end["rolled_back"]) == 1 and pipe.run("x").error == "NameError"
    else:
        assert "rolled_back" not in end, end
        cell = pipe.run(AFTER)
        assert cell.out == "all is there\n", cell
    assert pipe.run("1 + 1").result == "2"


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_death(world, way):
    need(world, way)
    with begin(world, way) as pipe:
        end = pipe.run(way.code, timeout=way.timeout).finished
        assert end["status"] in way.statuses, end
        assert end["state"] in way.states, end
        if end["status"] == "died" and way.reason:
            assert way.reason.search(end["reason"]), end
        if way.name in QUICK:
            took.setdefault(world.name, []).append((end["duration_us"], way.name))
        if end["state"] == "kept":  # Python has noticed by itself, or an interrupt was heard
            assert pipe.run("1 + 1").result == "2"
        else:
            check(pipe, end)


@pytest.mark.parametrize("way", NO_DEATHS, ids=str)
def test_no_death(world, way):
    need(world, way)
    with begin(world, way) as pipe:
        cell = pipe.run(way.code.partition("\n")[2], timeout=way.timeout)
        end = cell.finished
        assert (end["status"], end["state"]) in [(status, "kept") for status in way.statuses], cell
        if way.name == "destroyed builtins":  # the engine lives without them, cells do not
            assert pipe.ask("rollback", to=cell.id)["rolled_back"] == [cell.id]
        check(pipe, {"state": "kept"})


def test_death_between_cells(world):
    """Nobody runs a cell: the death is an event of its own, and says which cell is the last."""
    with world.pipe() as pipe:
        committed(pipe, pipe.run(BEFORE))
        cell = pipe.run("import threading\n"
                        "gate = threading.Event()\n"
                        "def work():\n"
                        "    gate.wait()\n"
                        "    import ctypes; ctypes.string_at(0)\n"
                        "threading.Thread(target=work, name='late').start()")
        committed(pipe, cell)
        pipe.run("y = 1; threading.Timer(0.2, gate.set).start()")
        event = pipe.event("died")
        assert event["state"] == "recovered" and event["reason"].startswith("signal 11"), event
        assert "late" in event["lost"]["threads"]
        check(pipe, {"state": "recovered"})
        assert pipe.run("gate.is_set()").result == "False"


def test_death_after_death(world):
    """From the same checkpoint, again and again."""
    with world.pipe() as pipe:
        committed(pipe, pipe.run(BEFORE))
        for number in range(1, 6):
            end = pipe.run("x.clear(); import os; os._exit(%d)" % number).finished
            assert (end["reason"], end["state"]) == ("exit status %d" % number, "recovered"), end
            assert pipe.run("len(x)").result == "1000"
        check(pipe, {"state": "recovered"})


def test_descriptors_used_up(world):
    """The guest is told to copy itself, by a message that brings a descriptor: that there is no
    room for it is no death."""
    with world.pipe() as pipe:
        cell = pipe.run("import os\n"
                        "files, kept = [], 5\n"
                        "try:\n"
                        "    while True:\n"
                        "        files.append(os.open('/dev/null', os.O_RDONLY))\n"
                        "except OSError as error:\n"
                        "    print(error.errno)")
        assert (cell.status, cell.out) == ("ok", "24\n"), cell
        for free in range(4):  # one for the message, but none for what a copy needs
            with pytest.raises(Refused):
                pipe.ask("checkpoint", name="full")
            cell = pipe.run("os.close(files.pop()); kept")
            assert (cell.status, cell.result) == ("ok", "5"), (free, cell)
        pipe.run("for file in files: os.close(file)")
        assert pipe.ask("checkpoint", name="room")["checkpoint"]["name"] == "room"
        assert pipe.run("os._exit(3)").finished["state"] == "recovered"
        assert pipe.run("kept").result == "5"
