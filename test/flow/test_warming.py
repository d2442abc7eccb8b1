"""While an environment warms up for the first time: the keeper listens.

The environment is a venv whose interpreter reads a FIFO when it starts, and so never gets ready
before the test wants it to.
"""
import os
import signal
import socket
import subprocess

import pytest

from fumehood_kit import BUILD, PYTHON, WAIT_S, House, Keeper, kill


class Slow:
    """A house with such an environment. begun() returns when its interpreter has begun to wait."""

    def __init__(self):
        self.house = House()
        folder = self.house.dir / "slow"
        subprocess.run([PYTHON, "-m", "venv", "--without-pip", "--system-site-packages", folder],
                       check=True)
        self.python = str(folder / "bin" / "python")
        self.fifo = folder / "fifo"
        (packages,) = folder.glob("lib/python*/site-packages")
        (packages / "slow.pth").write_text("import slow_start\n")
        (packages / "slow_start.py").write_text("open(%r).read()\n" % str(self.fifo))
        os.mkfifo(self.fifo)
        self.gate = None

    def begun(self):
        self.gate = os.open(self.fifo, os.O_WRONLY)

    def let_go(self):
        if self.gate is not None:
            os.close(self.gate)
        self.gate = None
        self.fifo.unlink(missing_ok=True)
        self.fifo.write_text("")


@pytest.fixture
def slow():
    slow = Slow()
    yield slow
    slow.let_go()
    bad = slow.house.leftovers() + slow.house.stop_pools() + slow.house.close()
    assert not bad, "\n".join(bad)


def start_keeper(slow, **more):
    """A keeper that waits for its pool, and our end of its first connection."""
    session = slow.house.session(python=slow.python, **more)
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [BUILD / "fumehood-keeper", "--session", session, "--fd", str(theirs.fileno())],
            env=slow.house.env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()], cwd="/", start_new_session=True)
    slow.begun()
    return process, ours


def test_control_c(slow):
    """The command ends, and nothing is left of its session, though the pool is not ready."""
    slow.house.mark_sessions()
    run = slow.house.popen("run", "--python", slow.python, "-c", "1", stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    slow.begun()
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=WAIT_S)
    assert run.returncode in (-signal.SIGINT, 128 + signal.SIGINT) and not out, err
    assert slow.gate is not None and slow.house.new_sessions() == []
    assert not slow.house.processes()


def test_client_that_goes(slow):
    """A session that ends with its client ends with it."""
    process, ours = start_keeper(slow, ends_with_client=True)
    try:
        ours.close()
        assert process.wait(WAIT_S) == 0
    finally:
        kill(process.pid)
        process.wait()


def test_signal(slow):
    """SIGTERM ends it in order; who waited sees the end of the connection."""
    process, ours = start_keeper(slow)
    with ours:
        try:
            process.terminate()
            assert process.wait(WAIT_S) == 0
            assert ours.recv(100) == b""
        finally:
            kill(process.pid)
            process.wait()


def test_pool_that_dies(slow):
    """A pool that ends before it is ready is replaced, and the session starts."""
    process, ours = start_keeper(slow)
    (pool,) = slow.house.pools()
    kill(pool)
    slow.let_go()
    with Keeper(ours, process=process) as keeper:
        assert keeper.run("6 * 7").result == "42"


def test_pool_that_dies_later(slow):
    """A restart whose pool has gone waits for the new one on the loop: it can be stopped."""
    process, ours = start_keeper(slow)
    slow.let_go()
    with Keeper(ours, process=process) as keeper:
        assert keeper.run("6 * 7").result == "42"
        (pool,) = slow.house.pools()
        kill(pool)
        slow.fifo.unlink()
        os.mkfifo(slow.fifo)
        keeper.send("restart", id="again")
        slow.begun()
        assert keeper.ask("status")["state"] == "restarting"
        slow.let_go()
        keeper.answer("again")
        assert keeper.run("6 * 7", id="more").result == "42"
        (pool,) = slow.house.pools()
        kill(pool)
        slow.fifo.unlink()
        os.mkfifo(slow.fifo)
        keeper.send("restart", id="never")
        slow.begun()
        keeper.stop()
