"""An ordinary user beside root, for tests of what both can do.

user_house, home   fixtures, to be imported by the test files that want them
UserHouse          a house whose programs and keepers run as that user

The Python of the tests may lie where such a user does not come; the system's has what is needed.
"""
import os

import pytest

from fumehood_kit import House

USER = 65534


class UserHouse(House):
    """A house of the ordinary user. Only root can open one."""

    def __init__(self):
        super().__init__(python="/usr/bin/python3")
        self.give(self.dir, *self.dir.iterdir())

    def give(self, *paths):
        for path in paths:
            os.chown(path, USER, USER)

    def popen(self, *args, **rest):
        return super().popen(*args, user=USER, group=USER, extra_groups=[], **rest)

    def folder(self):
        path = super().folder()
        self.give(path)
        return path

    def session(self, *args, **rest):
        path = super().session(*args, **rest)
        self.give(self.sessions.parent, self.sessions, path, *path.iterdir())
        return path

    def keeper(self, session, since=0, under=()):
        return super().keeper(session, since, (
            "setpriv", "--reuid=%d" % USER, "--regid=%d" % USER, "--clear-groups", *under))


@pytest.fixture(scope="module")
def user_house():
    house = UserHouse()
    yield house
    bad = house.close()
    assert not bad, "\n".join(bad)


@pytest.fixture(params=["root", "user"])
def home(request, house):
    """The house of root, then that of an ordinary user; started by such a one, its own twice."""
    if request.param == "root" or os.geteuid() != 0:
        yield house
        return
    other = request.getfixturevalue("user_house")
    other.mark_sessions()
    yield other
    if other.sockets():
        other.stop_sessions()
