"""Sessions of the four worlds of test_probes.py, for probes that need one of their own.

world   a house in which sessions of a kind are started: a fixture, to be imported
begin   such a session, in a folder of its own      outside  the same user without a session
"""
import os
import subprocess

import pytest

from fumehood_kit import WAIT_S
from probe_kit import INTERPRETER, WORLDS, UserHouse, why_not


@pytest.fixture(scope="module", params=WORLDS)
def world(request):
    """A house in which sessions of this kind are started."""
    uid, tier, options, wrap = WORLDS[request.param]
    if why := why_not(tier):
        pytest.skip(why)
    house = UserHouse(uid or None, wrap)
    house.tier, house.options = tier, options
    yield house
    bad = house.close()
    assert not bad, "\n".join(bad)


def make_folder(world):
    """An empty folder of the user's."""
    folder = world.folder()
    if world.uid is not None:
        os.chown(folder, world.uid, world.uid)
    return folder


def begin(world, *more):
    """A session with a workspace of its own."""
    folder = make_folder(world)
    pipe = world.pipe("--workspace", str(folder), *world.options, *more)
    assert pipe.hello["tier"] == world.tier
    pipe.folder = folder
    return pipe


def works(pipe, number=[0]):
    number[0] += 1
    assert pipe.run("print(%d)" % number[0]).out == "%d\n" % number[0]


def outside(world, code):
    """The same, as the user, outside of any session."""
    return subprocess.run([INTERPRETER, "-I", "-S", "-c", code], capture_output=True, text=True,
                          timeout=WAIT_S, env=world.env, cwd="/", **world.identity())
