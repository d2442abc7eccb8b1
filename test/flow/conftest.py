"""What every flow test has: the house, and the count at its end.

After each test nothing may be left but the pool: no process, no mount, no socket of a keeper.
"""
import gc
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "kit"))
import fumehood_kit  # noqa: E402

fumehood_kit.hear_signals()


class Houses:
    """The house of the run, made when a test first asks for it."""

    def __init__(self):
        self.main = None

    def get(self):
        if self.main is None:
            self.main = fumehood_kit.House()
        return self.main


_houses = Houses()


@pytest.fixture(scope="session")
def run_house():
    """The house of the whole run, for fixtures that outlive a test."""
    yield _houses.get()


@pytest.fixture(scope="session", autouse=True)
def close_the_house():
    yield
    if _houses.main is not None:
        bad = _houses.main.close()
        assert not bad, "\n".join(bad)


@pytest.fixture
def house():
    """The house, with every session stopped at the end of the test."""
    house = _houses.get()
    house.mark_sessions()
    yield house
    if house.sockets():
        house.stop_sessions()


@pytest.fixture
def folder(house):
    """An empty folder, fit for a workspace."""
    return house.folder()


@pytest.fixture(autouse=True)
def count_what_is_left():
    """The last to be torn down, as the first to be set up."""
    before = fumehood_kit.mounts()
    descriptors = len(os.listdir("/proc/self/fd"))
    yield
    bad = ["mount %s is left" % line for line in fumehood_kit.mounts() if line not in before]
    if _houses.main is not None:
        bad += _houses.main.leftovers()
    gc.collect()
    if len(os.listdir("/proc/self/fd")) > descriptors:
        bad.append("the test has left descriptors open")
    assert not bad, "\n".join(bad)
