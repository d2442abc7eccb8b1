"""A session and its branches, for the tests of fork."""
import time

import pytest

from fumehood_kit import WAIT_S

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
