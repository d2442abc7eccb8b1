"""`fumehood gc` and the environments of --with: those that no session uses go, by age and by size,
and nothing that is in use ever does. As root and as an ordinary user, who may not write in them.
"""
import fcntl
import json
import os
import shutil
import subprocess
import time

import pytest

from fumehood_kit import House
from site_kit import Server, make_site
from user_kit import UserHouse

DAY_S = 86400


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return make_site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def server(site):
    server = Server(site)
    yield server
    server.close()


class GcHouse:
    """A house of its own, since gc looks at all there is. The environment is made once; each test
    begins with it."""

    def __init__(self, house, server):
        self.house, self.server = house, server
        self.place = house.dir / "data" / "fumehood" / "environments"
        assert "making an environment" in self.run().err
        self.kept = house.dir / "kept"
        subprocess.run(["cp", "-a", self.place, self.kept], check=True)

    def begin_again(self):
        self.house.cli("stop", "--all")
        for name in self.house.session_ids():
            assert self.house.cli("gc", name).status == 0
        shutil.rmtree(self.place)
        subprocess.run(["cp", "-a", self.kept, self.place], check=True)

    def words(self, *words, verb="run"):
        """The words of a command with an environment that has fhtiny."""
        return (verb, "--with", "fhtiny", "--with-net", "localhost:%d" % self.server.port, *words)

    def run(self, *words):
        done = self.house.cli(*self.words(*words, "-c", "import fhtiny; print(fhtiny.ANSWER)"),
                              env={"PIP_INDEX_URL": self.server.url + "/simple"})
        assert (done.status, done.out) == (0, "42\n"), done
        return done

    def stop(self, name):
        """Returns when its keeper has let go of the session."""
        folder = self.house.find(name)
        self.house.cli("stop", name)
        with open(folder / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)

    def made(self):
        return sorted(path.parent.name for path in self.place.glob("*/made.json"))

    def age(self, days):
        """As if nobody had wanted any of them for so long."""
        for path in self.place.glob("*"):
            when = time.time() - days * DAY_S
            os.utime(path / "made.json" if (path / "made.json").exists() else path, (when, when))

    def gc(self, *words):
        done = self.house.cli("gc", *words)
        assert done.status == 0, done
        return done.err


@pytest.fixture(scope="module", params=["root", "user"])
def gc_house(request, server):
    if request.param == "user" and os.geteuid() != 0:
        pytest.skip("needs root, to be another user")
    house = House() if request.param == "root" else UserHouse()
    yield GcHouse(house, server)
    bad = house.close()
    assert not bad, "\n".join(bad)


@pytest.fixture
def home(gc_house):
    gc_house.begin_again()
    yield gc_house
    gc_house.house.stop_sessions()


def test_by_age(home):
    name, = home.made()
    home.age(29)
    assert "0 environments" in home.gc()
    home.age(31)
    home.run()  # which counts
    assert "0 environments" in home.gc() and home.made() == [name]
    home.age(31)
    assert "would remove environment with fhtiny (old" in home.gc("-n")
    assert home.made() == [name]
    said = home.gc()
    assert "removed environment with fhtiny (old" in said and "1 environments" in said
    assert os.listdir(home.place) == []
    assert "making" in home.run().err  # it can be had again


def test_in_use(home):
    """A session that runs, or could be started again, keeps its environment."""
    home.run("-s", "mine")
    home.age(31)
    assert "0 environments" in home.gc()
    home.stop("mine")
    assert "0 environments" in home.gc() and home.made()
    assert "1 sessions, 0 environments" in home.gc("--size", "0")
    assert "1 environments" in home.gc() and not home.made()


def test_by_size(home):
    """Environments go first; then sessions, oldest first."""
    house = home.house
    house.cli("run", "-s", "big", "-c", "open('f', 'wb').write(bytes(3 << 20))")
    home.stop("big")
    sessions = disk_bytes(house.find("big"))
    assert "0 sessions, 0 environments" in home.gc("--size", "1G")
    assert "0 sessions, 1 environments" in home.gc("--size", str(sessions + 1000))
    assert home.made() == []
    assert "0 sessions, 0 environments" in home.gc("--size", str(sessions + 1000))
    assert "1 sessions, 0 environments" in home.gc("--size", "1M")


def disk_bytes(folder):
    return 512 * sum(path.lstat().st_blocks for path in folder.rglob("*"))


def test_dry_run_counts_the_sessions_that_would_go(home):
    home.run("-s", "mine")
    home.stop("mine")
    home.age(31)
    os.utime(home.house.find("mine") / "journal.ndjson", (time.time() - 31 * DAY_S,) * 2)
    assert "1 sessions, 1 environments" in home.gc("-n") and home.made()
    assert "1 sessions, 1 environments" in home.gc() and not home.made()


def test_while_a_session_is_begun(home):
    """Before its session.json is there, the lock says that it will be used."""
    home.age(31)
    name, = home.made()
    with open(home.place / (name + ".lock")) as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert "0 environments" in home.gc("--size", "0")
        assert home.made() == [name]
    assert "1 environments" in home.gc()


def test_what_a_killed_maker_has_left(home):
    name, = home.made()
    left = home.place / ("ab" * 32)
    (left / "env").mkdir(parents=True)
    (left / "env").chmod(0o555)
    others = home.place / "notes"  # not ours
    others.mkdir()
    for path in (left, left / "env", others):
        os.chown(path, *((lambda st: (st.st_uid, st.st_gid))(home.place.stat())))
    assert "0 environments" in home.gc()  # one that is made at this moment looks like that
    os.utime(left, (time.time() - 2 * 3600,) * 2)
    assert "removed environment (left over" in home.gc()
    assert home.made() == [name] and not left.exists() and others.exists()


def test_two_at_once(home):
    """One removes as fast as it can while others begin: each of these has what it needs."""
    for _ in range(5):
        home.age(31)
        sweeping = home.house.popen("gc", stderr=-1)
        done = home.run()
        assert "1 environments" in done.err or not done.err or "making" in done.err
        sweeping.communicate(timeout=60)
        assert sweeping.returncode == 0


def test_the_lock_ends_with_the_begin(home):
    """Who runs a session for hours does not hold the lock, session.json says it."""
    environment = {"PIP_INDEX_URL": home.server.url + "/simple"}
    with home.house.pipe(*home.words()[1:], **environment) as pipe:
        name, = home.made()
        with open(home.place / (name + ".lock")) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        home.age(31)
        assert "0 environments" in home.gc() and home.made() == [name]
        assert pipe.run("import fhtiny; fhtiny.ANSWER").result == "42"
        config = json.loads((home.house.sessions / pipe.hello["session"] / "session.json")
                            .read_text())
        assert name in config["python"]
