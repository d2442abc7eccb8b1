"""Sessions in each tier, with and without IPython, for tests of what must be the same in all.

WORLDS  their names
World   a house in which sessions of that kind are started
world   the fixture, one after the other
"""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from fumehood_kit import PYTHON, House
from probe_kit import INTERPRETER, ORDINARY_UID, UserHouse, why_not

WORLDS = ("full", "full ipython", "degraded", "degraded ipython")
IPYTHON = """
import json, os, sys
before = set(sys.modules)
import IPython.core.interactiveshell, IPython.core.completer, IPython.lib.pretty
found = set()
for name in set(sys.modules) - before:
    path = getattr(sys.modules[name], "__file__", None) or ""
    for folder in sys.path:
        if "site-packages" in folder and path.startswith(folder + os.sep):
            found.add(os.path.join(folder, path[len(folder) + 1:].split(os.sep)[0]))
print(json.dumps(sorted(found)))
"""


def has_ipython(python):
    return subprocess.run([python, "-I", "-c", "import IPython"],
                          stderr=subprocess.DEVNULL).returncode == 0


def ipython_for_everyone(folder):
    """An environment of the system's Python with IPython, where an ordinary user can read it.
    Returns its python."""
    if os.path.realpath(PYTHON) != os.path.realpath(INTERPRETER) or not has_ipython(PYTHON):
        pytest.skip("missing optional component: IPython for %s" % INTERPRETER)
    subprocess.run([INTERPRETER, "-m", "venv", "--without-pip", folder], check=True)
    place, = pathlib.Path(folder).glob("lib/python3.*/site-packages")
    found = subprocess.check_output([PYTHON, "-I", "-c", IPYTHON], text=True)
    for path in json.loads(found):
        if os.path.isdir(path):
            shutil.copytree(path, place / os.path.basename(path),
                            ignore=shutil.ignore_patterns("tests", "__pycache__"))
        else:
            shutil.copy(path, place)
    return os.path.join(folder, "bin", "python")


class World:
    def __init__(self, name):
        self.name = name
        self.tier, _, shell = name.partition(" ")
        self.shell = shell or "plain"
        self.options = ("--tier", self.tier) if self.tier == "degraded" else ()
        if self.tier == "full":
            self.house = House(python=PYTHON if shell else INTERPRETER)
        else:
            if why := why_not(self.tier):
                pytest.skip(why)
            self.house = UserHouse(ORDINARY_UID)
            if shell:
                place = self.house.dir / "env"
                self.house.env["FUMEHOOD_PYTHON"] = ipython_for_everyone(place)
                self.house.give()
        self.python = self.house.env["FUMEHOOD_PYTHON"]
        if shell and not has_ipython(self.python):
            pytest.skip("missing optional component: IPython for %s" % self.python)

    def pipe(self, *options):
        """A session in a new folder of the user's."""
        folder = self.house.folder()
        if self.tier != "full":
            os.chown(folder, ORDINARY_UID, ORDINARY_UID)
        pipe = self.house.pipe(*self.options, *options, cwd=folder)
        assert pipe.hello["tier"] == self.tier
        pipe.folder = folder
        return pipe

    def has(self, module):
        return subprocess.run([self.python, "-I", "-c", "import " + module],
                              stderr=subprocess.DEVNULL).returncode == 0


@pytest.fixture(scope="module", params=WORLDS)
def world(request):
    world = World(request.param)
    yield world
    bad = world.house.close()
    assert not bad, "\n".join(bad)


def committed(pipe, cell):
    """Waits until the state after this cell sleeps; returns that event. On a busy machine that can
    be in the next pause only."""
    end = cell.finished
    assert end["protected"] == "pending" or end["protected_reason"] == "busy", cell
    return pipe.event("committed", cell=cell.id)
