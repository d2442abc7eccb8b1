"""What every test of the SDK has: a house of its own (test/kit), and the count at its end.

The SDK finds everything by the environment, as in a user's program; so this process gets that of
the house. After each test nothing may be left: no session, no process but the pool, no descriptor,
no thread.
"""
import gc
import os
import pathlib
import sys
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "test" / "kit"), str(ROOT / "sdk" / "python")]
import fumehood_kit  # noqa: E402

import fumehood  # noqa: E402

fumehood_kit.hear_signals()


@pytest.fixture(scope="session", autouse=True)
def the_house():
    house = fumehood_kit.House()
    before = dict(os.environ)
    for name in list(os.environ):
        if name.startswith(("FUMEHOOD_", "XDG_")):
            del os.environ[name]
    os.environ.update({name: value for name, value in house.env.items()
                       if name.startswith(("FUMEHOOD_", "XDG_"))})
    os.environ["FUMEHOOD"] = fumehood_kit.FUMEHOOD
    fumehood.Session().close()  # starts the pool
    yield house
    os.environ.clear()
    os.environ.update(before)
    bad = house.close()
    assert not bad, "\n".join(bad)


@pytest.fixture
def house(the_house):
    """The house, with every session stopped at the end of the test."""
    the_house.mark_sessions()
    yield the_house
    if the_house.sockets():
        the_house.stop_sessions()


@pytest.fixture
def session(house):
    with fumehood.Session() as session:
        yield session


@pytest.fixture
def folder(house):
    """An empty folder, fit for a workspace."""
    return house.folder()


def _descriptors():
    """What is open, but for the standard library's own (asyncio's self-pipe of a closed loop is
    gone with it)."""
    gc.collect()
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink("/proc/self/fd/" + name)
        except OSError:
            continue
    return {name: target for name, target in found.items() if not target.startswith("/proc/")}


@pytest.fixture(autouse=True)
def count_what_is_left(the_house):
    before, threads = _descriptors(), set(threading.enumerate())
    yield
    bad = ["descriptor %s is left: %s" % item for item in _descriptors().items()
           if item[0] not in before]
    bad += ["thread %s is left" % thread.name for thread in threading.enumerate()
            if thread not in threads]
    bad += the_house.leftovers()
    assert not bad, "\n".join(bad)
