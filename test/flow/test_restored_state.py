"""What a session is like after it has returned to an earlier state: one test for each row of
test/kit/restored_rows.py and of its like, in each tier, with and without IPython; by the
death of the next cell, or by undoing it (FUMEHOOD_LONG: by both). What could not come back is told,
and nothing else is.
"""
import pytest

from fumehood_kit import LONG
from restored_native import HANGING, NATIVE
from restored_rows import ROWS, complaints
from restored_sqlite import DATABASES
from world_kit import committed, world  # noqa: F401 (a fixture)

# What each world goes through; the rows are the same, and both ways wake the same copy.
WAYS = {"full": ("death",), "full ipython": ("rollback",),
        "degraded": ("rollback",), "degraded ipython": ("death",)}
if LONG:
    WAYS = {world: ("death", "rollback") for world in WAYS}
CASES = [(world, way) for world, ways in WAYS.items() for way in ways]
# What tier degraded does not have at all.
NO_NETWORK = "connections and processes of asyncio", "sockets and pipes", "a manager's proxies"
NO_SHM = ("a pool of processes", "a Pool of multiprocessing", "a Pool inside of a cell",
          "processes that are no copies", "a forkserver", "processes of joblib", "shared memory")
NO_PROC = "a file that is locked",
_has = {}


def need_row(world, row):
    for name in row.needs:
        key = world.python, name
        if key not in _has:
            _has[key] = world.has(name)
        if not _has[key]:
            pytest.skip("missing optional component: %s of %s" % (name, world.python))
    if world.tier == "degraded":
        if row.name in NO_NETWORK:
            pytest.skip("tier degraded has no addresses of its own")
        if row.name in NO_SHM:
            pytest.skip("tier degraded has no /dev/shm")
        if row.name in NO_PROC:
            pytest.skip("tier degraded hides /proc")


def make(pipe, row):
    """Returns when the state sleeps."""
    for code in row.make:
        cell = pipe.run(code)
        assert cell.status == "ok", cell
    return committed(pipe, cell)


def back_by_death(pipe, row):
    """What is told to be lost."""
    cell = pipe.run(row.change + "\nimport os; os._exit(7)")
    assert not cell.error, cell
    end = cell.finished
    assert (end["status"], end["reason"], end["state"]) == ("died", "exit status 7", "recovered")
    assert "recovers_to" not in end and "rolled_back" not in end
    return end.get("lost")


def back_by_rollback(pipe, row):
    cell = pipe.run(row.change)
    assert cell.status == "ok", cell
    reply = pipe.ask("rollback")
    assert reply["rolled_back"] == [cell.id]
    event = pipe.events[-1]
    assert event["type"] == "rollback" and event["reason"] == "asked", event
    assert event.get("lost", {}) == reply.get("lost", {})
    return reply.get("lost")


@pytest.mark.parametrize("row", ROWS + DATABASES + NATIVE, ids=str)
@pytest.mark.parametrize("world,way", CASES, indirect=["world"], scope="module")
def test_row(world, row, way):
    need_row(world, row)
    with world.pipe() as pipe:
        made = make(pipe, row)
        lost = (back_by_death if way == "death" else back_by_rollback)(pipe, row)
        cell = pipe.run(row.check)
        assert cell.status == "ok", cell
        assert row.stderr in (None, cell.err), cell
        bad = list(complaints(row, lost))
        assert not bad, (bad, made)


@pytest.mark.parametrize("row", HANGING, ids=str)
def test_what_hangs(world, row):
    """It costs its own cell, after that one's time, and the variables are there."""
    need_row(world, row)
    with world.pipe() as pipe:
        make(pipe, row)
        lost = back_by_death(pipe, row)
        assert lost["native_threads"], lost
        committed(pipe, pipe.run("kept = 5"))
        cell = pipe.run(row.check, timeout=3)
        print(row, cell.status)
        assert cell.status in ("ok", "timeout", "interrupted"), cell
        assert pipe.run("kept").result == "5"


def test_the_oldest_that_is_held(world):
    """It stays until it has been returned to, also when a newer copy comes meanwhile."""
    with world.pipe() as pipe:
        cells = []
        for number in range(3):
            cells.append(pipe.run("x = %d" % number))
            committed(pipe, cells[-1])
        cells.append(pipe.run("x = 9"))
        reply = pipe.ask("rollback", to=cells[1].id)
        assert reply["rolled_back"] == [cell.id for cell in cells[1:]]
        assert pipe.run("x").result == "0"
