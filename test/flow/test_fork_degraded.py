"""Branches where the kernel allows no namespaces: they share an init that finds its processes by
descent. What test_fork.py and test_fork_ends.py say of the other tiers holds here too.
"""
import pytest

from fork_kit import DAEMON, beats, settle, x_of
from fumehood_kit import Refused, kill, wait_gone
from world_kit import World

DEATHS = {
    "exit": ("import os; os._exit(3)", "exit status 3"),
    "segfault": ("import ctypes; ctypes.string_at(0)", "signal 11 (Segmentation fault)"),
    "kill": ("import os; os.kill(os.getpid(), 9)", "signal 9 (Killed)"),
}


@pytest.fixture(scope="module")
def world():
    world = World("degraded")
    yield world
    bad = world.house.close()
    assert not bad, "\n".join(bad)


@pytest.fixture
def family(world):
    """A session, in a list to which fork() adds its branches."""
    with world.pipe() as root:
        members = [root]
        yield members
        for member in members[:0:-1]:
            if member.sock.fileno() >= 0:
                member.stop()


def fork(world, family, parent=None, **fields):
    told = (parent or family[0]).ask("fork", **fields)
    branch = world.house.connect(told["session"])
    family.append(branch)
    return branch


def test_variables_part_and_files_do_not(world, family):
    family[0].run("x = [1]")
    branch = fork(world, family, name="other")
    assert branch.hello["tier"] == "degraded"
    branch.run("x.append(2)\nopen('f', 'w').write('of the branch')")
    assert (x_of(family[0]), x_of(branch)) == ("[1]", "[1, 2]")
    assert family[0].run("print(open('f').read())").out == "of the branch\n"


@pytest.mark.parametrize("death", DEATHS)
def test_a_death_is_one_ones_own(world, family, death):
    root = family[0]
    root.run(DAEMON + "x = 1; daemon('root')")
    branch = fork(world, family)
    branch.run("x = 2; daemon('branch')")
    other = fork(world, family, branch)
    other.run("x = 3; daemon('other')")
    for member in family:
        settle(member)
    waiting = root.start("import time\nfor i in range(100): time.sleep(0.01)\nprint('on')")
    code, reason = DEATHS[death]
    end = branch.run(code).finished
    assert (end["status"], end["reason"], end["state"]) == ("died", reason, "recovered")
    assert root.finished(waiting).out == "on\n"
    assert [x_of(member) for member in family] == ["1", "2", "3"]
    assert [beats(root, name) for name in ("root", "branch", "other")] == [True, False, True]


def test_rollback_and_reset_are_ones_own(world, family):
    family[0].run("x = 1")
    branch = fork(world, family)
    branch.run("x = 2")
    branch.ask("checkpoint", name="two")
    branch.run("x = 3")
    branch.ask("rollback", to="two")
    assert (x_of(family[0]), x_of(branch)) == ("1", "2")
    branch.ask("reset")
    assert branch.run("x").error == "NameError"
    assert x_of(family[0]) == "1"


def test_a_branch_that_is_stopped_takes_its_processes_along(world, family):
    root = family[0]
    root.run(DAEMON + "x = 1; daemon('root')")
    branch = fork(world, family)
    branch.run("daemon('branch')")
    branch.stop()
    assert [beats(root, name) for name in ("root", "branch")] == [True, False]
    with pytest.raises((OSError, Refused)):
        world.house.connect(branch.hello["session"])
    assert x_of(root) == "1"


def test_the_keepers_death_ends_all(world, family):
    root = family[0]
    pids = [int(root.run("import os; print(os.getpid())").out)]
    branch = fork(world, family)
    pids.append(int(branch.run("import os; print(os.getpid())").out))
    kill(root.hello["pid"])
    for pid in pids:
        assert wait_gone(pid)
    for member in (root, branch):
        while member.line() is not None:
            pass
    branch.close()
    root.process.stdin.close()
    assert root.process.wait() != 0
    gone = world.house.cli("gc", branch.hello["session"], root.hello["session"])
    assert gone.status == 0, gone
