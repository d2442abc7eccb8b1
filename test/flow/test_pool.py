"""The pool, as keepers meet it: real pools and zygote_fake.py, in a runtime directory of their own.

FUMEHOOD_BUILD names the build directory. Each test ends by counting: no process and no socket file
may be left.
"""
import errno
import json
import os
import pathlib
import resource
import select
import shutil
import signal
import subprocess
import time

import pytest

from pool_kit import BUILD, FDS, FDS_MIN, WAIT_S, House, alive, until


@pytest.fixture
def house(tmp_path):
    house = House(tmp_path)
    yield house
    for pid in house.pids | house.starts():
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_start_guest_stop(house):
    assert house.environment()["protocol"] == 1
    keeper = house.keeper()
    assert keeper.receive()[0] == "R"
    for cell in range(1, 20):
        keeper.guest(cell)
    keeper.guest(20, FDS_MIN)  # tier none has no namespaces to enter
    status = house.status()
    assert status["python"] == house.python and status["guests"] == 20 and status["idle_s"] >= 0
    assert status["state"] == "ready" and {status["zygote"]} == house.starts()
    assert house.probe("stop", house.python) == "1\n"
    assert keeper.receive() is None
    house.count()
    assert house.probe("stop", house.python) == "0\n"
    assert house.probe("stop") == "0\n" and house.list() == []


def test_zygote_is_given_nothing_of_the_user(house):
    house.environment()
    (name,) = house.starts()
    given = json.loads((house.state / str(name)).read_text())
    environ = given["environ"]
    assert environ.pop("PATH") == f"{os.path.dirname(house.python)}:/usr/local/bin:/usr/bin:/bin"
    assert environ == {
        "LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
        "JE_ARROW_MALLOC_CONF": "background_thread:false",
    }
    assert given["argv"][1:] == ['{"protocol":1}']
    assert given["cwd"] == "/" and given["stdin"] == "/dev/null" and given["sid"] == name
    assert given["isolated"] == 1 and given["utf8"] == 1 and given["unbuffered"]
    # And two of its own, for the list and for its configuration.
    assert given["fds"][:4] == [0, 1, 2, 3] and len(given["fds"]) <= 6
    pool_environ = pathlib.Path(f"/proc/{house.status()['pid']}/environ").read_bytes()
    assert b"SECRET" not in pool_environ
    ours = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert resource.prlimit(name, resource.RLIMIT_NOFILE) == ours
    house.end()


def test_many_start_at_once_make_one_pool(house):
    assert len({body["pid"] for body in house.environments(24)}) == 1
    assert len(house.starts()) == 1
    house.status()
    house.end()


def test_connect_is_fast_enough_to_say_so(house):
    house.environment()
    words = house.probe("time", house.python, "300").split()
    print("connect, first and median in us:", words[1], words[3])
    house.end()


def test_two_pools_for_two_pythons(house):
    other = house.folder / "venv" / "bin" / "python"
    other.parent.mkdir(parents=True)
    other.symlink_to(house.python)
    (house.folder / "venv" / "pyvenv.cfg").write_text(f"home = {os.path.dirname(house.python)}\n")
    house.environment()
    assert house.probe("resolve", str(house.folder / "venv")).strip() == str(other)
    body = json.loads(house.probe("environment", str(other)))
    assert body["prefix"] == str(house.folder / "venv")
    assert {pool["python"] for pool in house.list()} == {house.python, str(other)}
    assert house.probe("stop", str(other)) == "1\n"
    assert house.status()["python"] == house.python
    house.end()


def test_files_are_for_the_user_only(house):
    house.environment()
    assert house.files.stat().st_mode & 0o777 == 0o700
    for path in house.files.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
    house.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_other_user_is_refused(house):
    house.environment()
    # Rights that nobody should give, so that the check of the peer is all that is left.
    for path in [house.socket, *house.socket.parents][:-1]:
        if path.is_relative_to(house.folder.parents[2]):
            path.chmod(path.stat().st_mode | 0o777)
    child = os.fork()
    if child == 0:
        os.setgid(65534)
        os.setuid(65534)
        try:
            keeper = house.keeper()
            os._exit(0 if keeper.receive() is None else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    house.files.chmod(0o700)
    assert "another user" in house.log()
    house.end()


def test_killed_zygote_is_replaced(house):
    first = house.environment()["pid"]
    keeper = house.keeper()
    keeper.receive()
    keeper.guest(1)
    os.kill(first, signal.SIGKILL)
    until(lambda: house.status()["zygote"] != first)
    keeper.guest(2)
    assert len(house.starts()) == 2 and not alive(first)
    house.end()


def test_order_to_a_dying_zygote(house):
    """Whatever the moment: the next zygote carries the order out, or it is to be given again."""
    house.environment()
    keeper = house.keeper()
    keeper.receive()
    seen = set()
    for cell in range(1, 6):
        pid = house.status()["zygote"]
        if pid:
            os.kill(pid, signal.SIGKILL)
        ends = keeper.order(cell)
        kind, _cell, body = keeper.receive()
        keeper.drop(*ends)
        assert kind == "e" or (kind == "f" and body["errno"] == errno.EAGAIN), body
        keeper.guest(cell)
        seen.add(kind)
    print("answers to orders in the moment of death:", seen)
    house.end()


def test_zygote_killed_with_an_order_in_hand(house):
    house.fake(answer="die")
    house.environment()
    keepers = [house.keeper() for _ in range(3)]
    for keeper in keepers:
        assert keeper.receive()[0] == "R"
    ends = keepers[0].order(1)
    kind, _cell, body = keepers[0].receive()
    assert kind == "f" and "exit status 7" in body["message"]
    assert body["step"] == "pool" and body["errno"] == errno.EAGAIN
    keepers[0].drop(*ends)
    # An order that was not sent yet waits for the next zygote.
    house.fake()
    keepers[1].guest(2)
    keepers[0].guest(3)
    house.end()


def test_zygote_killed_while_orders_wait(house):
    house.fake(answer="never")
    pid = house.environment()["pid"]
    keepers = [house.keeper() for _ in range(5)]
    for keeper in keepers:
        keeper.receive()
    ends = [keepers[0].held(0)]
    ends += [keeper.order(i) for i, keeper in enumerate(keepers[1:], 1)]
    until(lambda: house.status()["waiting"] == 4)
    house.fake()
    os.kill(pid, signal.SIGKILL)
    assert keepers[0].receive()[0] == "f"
    for i, keeper in enumerate(keepers[1:], 1):
        assert keeper.receive() == ("e", i, None)
        assert os.read(ends[i][0], 100) == b"out %d of %d" % (i, FDS)
    for pair in ends:
        keepers[0].drop(*pair)
    house.end()


def test_three_deaths_are_a_failure(house):
    house.fake(mode="die", words="x" * 20000 + "\nModuleNotFoundError: no numpy\n")
    start = time.monotonic()
    failed = house.command("environment", house.python)
    assert time.monotonic() - start >= 2  # one start a second: two gaps
    assert failed.returncode == 1
    assert failed.stderr.startswith("engine: ")
    assert "exit status 3" in failed.stderr and "no numpy" in failed.stderr
    assert len(house.starts()) == 3
    house.status()
    keeper = house.keeper()
    kind, _cell, body = keeper.receive()
    assert kind == "F" and len(body["stderr"]) == 16384 and body["stderr"].endswith("no numpy\n")
    ends = keeper.order()
    kind, _cell, body = keeper.receive()
    assert kind == "f" and "exit status 3" in body["message"]
    keeper.drop(*ends)
    assert len(house.starts()) == 3
    # A repaired environment is tried at once.
    house.fake()
    (house.guest / "new.py").write_text("")
    assert house.environment()["protocol"] == 1
    keeper.guest()
    house.end()


@pytest.mark.parametrize("words", ["\0\1\2" * 6000, "\\" * 20000, "Z\u00fcrich \u20ac " * 3000])
def test_any_words_fit_into_the_message(house, words):
    house.fake(mode="failed", words=words)
    failed = house.command("environment", house.python)
    assert failed.returncode == 1 and "numpy is broken" in failed.stderr
    house.status()
    kind, _cell, body = house.keeper().receive()
    assert kind == "F" and words.endswith(body["stderr"][-1000:]) and len(body["stderr"]) >= 1000
    assert len(house.starts()) == 1  # it has said why: no second try
    house.end()


@pytest.mark.parametrize("mode", ["wrong", "memfd"])
def test_zygote_of_another_kind(house, mode):
    house.fake(mode=mode)
    failed = house.command("environment", house.python)
    assert failed.returncode == 1 and "the zygote s" in failed.stderr
    house.status()
    house.end()


def test_python_that_is_none(house):
    house.python = "/usr/bin/false"
    house.names = house.probe("names", house.python).split()
    failed = house.command("environment", house.python)
    assert failed.returncode == 1 and "exit status 1" in failed.stderr
    house.status()
    house.end()


def test_python_that_is_not_there(house):
    house.python = str(house.folder / "gone" / "python")
    house.names = house.probe("names", house.python).split()
    failed = house.command("environment", house.python)
    assert failed.returncode == 1 and "No such file" in failed.stderr
    house.status()
    house.end()


def test_slow_zygote_and_timeout(house):
    house.fake(mode="hang")
    failed = house.command("environment", house.python, "50")
    assert failed.returncode == 1 and failed.stderr.startswith("timeout")
    assert house.status()["state"] == "starting"
    house.end()


def test_all_who_wait_are_told(house):
    house.fake(ready_s=0.5)
    house.by_hand()
    keepers = [house.keeper() for _ in range(10)]
    ends = keepers[0].order(5)  # before READY
    for keeper in keepers:
        assert keeper.receive()[0] == "R"
    assert keepers[0].receive() == ("e", 5, None)
    keepers[0].drop(*ends)
    house.end()


def test_changed_environment_is_imported_again(house):
    packages = house.folder / "packages"
    packages.mkdir()
    house.fake(paths=[str(packages)])
    first = house.environment()["pid"]
    keeper = house.keeper()
    keeper.receive()
    keeper.guest(1)
    (packages / "__pycache__").mkdir()  # the first import makes that
    keeper.guest(2)
    assert house.environment()["pid"] == first
    (packages / "numpy").mkdir()
    keeper.guest(3)
    second = house.environment()["pid"]
    assert second != first
    until(lambda: not alive(first))
    (packages / "numpy").rmdir()
    assert house.environment()["pid"] not in (first, second)
    house.end()


def test_change_with_an_order_in_hand(house):
    packages = house.folder / "packages"
    packages.mkdir()
    house.fake(paths=[str(packages)], answer="never")
    first = house.environment()["pid"]
    keepers = [house.keeper() for _ in range(2)]
    for keeper in keepers:
        keeper.receive()
    ends = keepers[0].held(1)
    (packages / "numpy").mkdir()
    late = house.keeper()  # is not told of the old zygote
    assert not select.select([late.sock], [], [], 0.2)[0]
    house.fake()
    os.kill(first, signal.SIGKILL)
    assert keepers[0].receive()[0] == "f"
    assert late.receive()[2]["pid"] != first
    keepers[1].guest(2)
    keepers[0].drop(*ends)
    house.end()


def test_keeper_that_dies_disturbs_nobody(house):
    house.fake(answer="never")
    pid = house.environment()["pid"]
    dying, waiting, other = (house.keeper() for _ in range(3))
    for keeper in (dying, waiting, other):
        keeper.receive()
    ends = [dying.held(1), waiting.order(2), other.order(3)]
    until(lambda: house.status()["waiting"] == 2)
    dying.close()    # its order is with the zygote
    waiting.close()  # its order waits
    until(lambda: house.status()["waiting"] == 1)
    # The descriptors of the order that waited are closed.
    assert os.read(ends[1][0], 1) == b""
    house.fake()
    os.kill(pid, signal.SIGKILL)
    assert other.receive() == ("e", 3, None)
    other.guest(4)
    for pair in ends:
        other.drop(*pair)
    assert pathlib.Path(f"/proc/{house.status()['pid']}/fd").is_dir()
    house.end()


def test_no_descriptor_leaks(house):
    house.environment()
    pid = house.status()["pid"]

    def count():
        return len(os.listdir(f"/proc/{pid}/fd"))

    first = house.keeper()
    first.receive()
    first.guest()  # now it listens for clients of a spare, too
    first.close()
    until(lambda: house.status()["spare"] == "resting")  # there is no keeper in this house
    before = until(count)
    for i in range(50):
        keeper = house.keeper()
        keeper.receive()
        keeper.guest(i)
        keeper.drop(*keeper.order(i))
        keeper.close()
        keeper = house.keeper()
        keeper.drop(*keeper.order(i, pad=b"x"))
        keeper.close()
    until(lambda: count() == before)
    house.end()


def test_too_many_orders_are_refused(house):
    house.fake(answer="never")
    house.environment()
    keeper = house.keeper()
    keeper.receive()
    for cell in range(257):  # one is with the zygote
        keeper.drop(*keeper.order(cell))
    until(lambda: house.status()["waiting"] == 256)
    keeper.drop(*keeper.order(1000))
    kind, _cell, body = keeper.receive()
    assert kind == "f" and "too many" in body["message"]
    other = house.keeper()
    assert other.receive()[0] == "R"
    keeper.close()
    until(lambda: house.status()["waiting"] == 0)
    house.end()


@pytest.mark.parametrize("bytes_", [
    b"x", b"E" + bytes(7), b"E" + bytes(200), b"S" + bytes(8), b"\xff" * 4000,
])
def test_nonsense_ends_its_connection_only(house, bytes_):
    house.environment()
    other = house.keeper()
    other.receive()
    keeper = house.keeper()
    keeper.receive()
    keeper.sock.send(bytes_)
    assert keeper.receive() is None
    other.guest()
    house.end()


def test_wrong_count_of_descriptors(house):
    house.environment()
    keeper = house.keeper()
    keeper.receive()
    for count in (FDS_MIN - 1, FDS_MIN + 1, FDS - 1, FDS + 1):
        keeper.drop(*keeper.order(1, count))
        kind, _cell, body = keeper.receive()
        # One too many is closed on arrival; the order itself is whole.
        assert kind == ("e" if count > FDS else "f"), (count, body)
    keeper.guest()
    house.end()


def test_refusal_and_noise_of_the_zygote(house):
    house.fake(answer="refused")
    house.environment()
    keeper = house.keeper()
    keeper.receive()
    keeper.drop(*keeper.order(3))
    assert keeper.receive() == ("f", 3, {"message": "no", "step": "setns mnt", "errno": 1})
    assert house.status()["guests"] == 0
    house.fake(answer="noise")
    keeper.guest()
    house.end()


def test_killed_pool(house):
    zygote = house.environment()["pid"]
    keeper = house.keeper()
    keeper.receive()
    os.kill(house.status()["pid"], signal.SIGKILL)
    assert keeper.receive() is None
    until(lambda: not alive(zygote))
    assert house.socket.exists() and house.list() == []
    assert house.probe("stop") == "0\n"
    assert house.environment()["pid"] != zygote  # over the stale files
    house.end()


def test_many_keepers_after_a_killed_pool_make_one(house):
    house.environment()
    first = house.status()["pid"]
    os.kill(first, signal.SIGKILL)
    # One that connects to the dying pool is told to connect again: its own affair.
    until(lambda: not alive(first))
    assert len({body["pid"] for body in house.environments(8)}) == 1
    house.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_it_in_order(house, number):
    pool = house.by_hand()
    keeper = house.keeper()
    assert keeper.receive()[0] == "R"
    pool.send_signal(number)
    assert keeper.receive() is None
    assert pool.wait(WAIT_S) == 0
    house.count()
    assert "the pool has ended" in house.log()


def test_end_waits_for_the_order_under_way(house):
    house.fake(answer="never")
    pool = house.by_hand()
    keepers = [house.keeper() for _ in range(2)]
    for keeper in keepers:
        keeper.receive()
    keepers[0].drop(*keepers[0].held(1))
    keepers[1].drop(*keepers[1].order(2))
    until(lambda: house.status()["waiting"] == 1)
    pool.terminate()
    kind, _cell, body = keepers[1].receive()
    assert kind == "f" and "connect again" in body["message"]
    assert not house.socket.exists()
    # Meanwhile the next pool can start.
    house.fake()
    house.environment()
    assert keepers[0].receive() is None
    assert pool.wait(WAIT_S) == 0
    assert house.socket.exists()
    house.end()


def test_zygote_that_does_not_leave_is_killed(house):
    house.fake(mode="deaf")
    pool = house.by_hand()
    keeper = house.keeper()
    zygote = keeper.receive()[2]["pid"]
    pool.terminate()
    assert pool.wait(WAIT_S) == 0
    assert not alive(zygote)
    house.count()


def test_idle_pool_ends(house):
    pool = house.by_hand("--idle-seconds", "1")
    keeper = house.keeper()
    assert keeper.receive()[0] == "R"
    keeper.guest()
    assert keeper.receive() is None
    assert pool.wait(WAIT_S) == 0
    house.count()
    assert "nobody needs it" in house.log()


def test_orders_keep_it_awake(house):
    pool = house.by_hand("--idle-seconds", "2")
    keeper = house.keeper()
    keeper.receive()
    end = time.monotonic() + 3.5
    while time.monotonic() < end:
        keeper.guest()
        time.sleep(0.1)
    assert pool.poll() is None
    assert pool.wait(WAIT_S) == 0
    house.count()


def test_second_pool_by_hand_is_refused(house):
    house.environment()
    done = subprocess.run([BUILD / "fumehood-pool", "--python", house.python], env=house.env,
                          text=True, capture_output=True, timeout=WAIT_S, check=False)
    assert done.returncode == 125 and "locked" in done.stderr
    house.status()
    house.end()


@pytest.mark.parametrize("args", [
    [], ["--python", "python3"], ["--python", "/x", "y"], ["--python", "/x", "--idle-seconds", "0"],
    ["--python", "/x", "--nothing"],
])
def test_usage(args):
    done = subprocess.run([BUILD / "fumehood-pool", *args], capture_output=True, timeout=WAIT_S,
                          check=False)
    assert done.returncode == 2


def test_removed_socket_file_is_not_missed(house):
    """A cleaner of /tmp takes the files: the next keeper gets a new pool; the old harms none."""
    house.environment()
    old = house.status()["pid"]
    for path in house.files.iterdir():
        path.unlink()
    house.environment()
    new = house.status()["pid"]
    assert new != old
    os.kill(old, signal.SIGTERM)
    until(lambda: not alive(old))
    assert house.status()["pid"] == new
    house.end()


def test_default_python(house):
    assert house.probe("default", FUMEHOOD_PYTHON=house.python).strip() == house.python
    venv = house.folder / ".local/share/fumehood/venv/bin/python"
    venv.parent.mkdir(parents=True)
    venv.symlink_to(house.python)
    # Without pyvenv.cfg the link is nothing of its own.
    assert house.probe("default").strip() == house.python
    (venv.parent.parent / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert house.probe("default").strip() == str(venv)


@pytest.mark.skipif(not shutil.which("pyenv"), reason="pyenv is not here")
def test_pyenv_shim_is_resolved(house):
    root = pathlib.Path(os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv")))
    shim = root / "shims" / "python3"
    if not shim.exists():
        pytest.skip("pyenv has no shims here")
    path = house.probe("resolve", str(shim), HOME=os.environ["HOME"], PATH=os.environ["PATH"])
    path = path.strip()
    assert "/shims/" not in path and os.path.realpath(path) == path
    assert subprocess.run([path, "-c", ""], check=False).returncode == 0
