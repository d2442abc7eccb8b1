"""Probes that need a session of their own: what outlives, exhausts, disturbs it, or lies.

In the four worlds of test_probes.py. Those against the keeper, 45 to 59, are in
test_probes_keeper.py; 44 (floods) is in test_bad_input.py and test_torture.py as well.
"""
import json
import os
import secrets
import subprocess

import pytest

from fumehood_kit import (
    LONG, WAIT_S, is_alive, kill, link_proc, list_proc, pids, read_proc,
)
from probe_kit import INTERPRETER, ORDINARY_UID, WORLDS, UserHouse, why_not
from probe_session import (  # noqa: F401 (world is a fixture)
    begin, make_folder, outside, works, world,
)

# Processes that leave their parent, session and group, hear no signal, and go on in others. All of
# them, and whatever they start, hold a lock: it can be had when the last of them has ended.
DAEMONS = """
import fcntl, os, signal, sys
DAEMON = '''
import os, signal, sys
for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
os.closerange(0, 99)
os.setsid()
if sys.argv[1] == "tree":
    os.fork(), os.fork()
while sys.argv[1] == "hops":
    if os.fork():
        os._exit(0)
    os.setsid()
while True:
    signal.pause()
'''
lock = os.open("lock", os.O_CREAT | os.O_RDWR, 0o666)
fcntl.flock(lock, fcntl.LOCK_EX)
os.dup2(lock, 99)
for way in WAYS:
    first = os.fork()
    if first == 0:
        os.setsid()
        pid = os.fork()
        if pid == 0:
            os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", DAEMON, way])
        if way == "stopped":
            os.kill(pid, signal.SIGSTOP)
        os._exit(0)
    os.waitpid(first, 0)
os.close(lock)
os.close(99)
print("left", flush=True)
"""
BOMB = """
import os, signal, time
pids = []
try:
    while len(pids) < %d:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        pids.append(pid)
    word = "open"
except OSError as error:
    word = type(error).__name__
for pid in pids:
    os.kill(pid, 9)
for pid in pids:
    os.waitpid(pid, 0)
print(word, len(pids))
"""


# ------------------------------------------------------------------------- what outlives a session

def is_locked(fd, wait_s=0):
    """Whether somebody holds the lock still, after a while."""
    ended = subprocess.run(["flock", "-x", "-w", str(wait_s), str(fd)], pass_fds=[fd])
    return ended.returncode != 0


def test_daemons_of_nobody_live_on(world):
    """37, the control: without a session nothing ends them."""
    folder = make_folder(world)
    started = subprocess.run([INTERPRETER, "-c", "WAYS = ['setsid', 'stopped']\n" + DAEMONS],
                             stdout=subprocess.DEVNULL, cwd=folder, **world.identity())
    assert started.returncode == 0
    fd = os.open(folder / "lock", os.O_RDWR)
    try:
        assert is_locked(fd)
        for pid in pids():
            if str(folder) == link_proc(pid, "cwd"):
                kill(pid)
        assert not is_locked(fd, WAIT_S)
    finally:
        os.close(fd)


@pytest.mark.parametrize("end", ("end", "restart", "keeper dies"))
def test_daemons_end_with_the_session(world, end):
    """37, 58: whatever they have left, they are gone, also when nobody is there to end them."""
    pipe = begin(world)
    fd = -1
    try:
        cell = pipe.run("WAYS = ['setsid', 'hops', 'stopped', 'tree']\n" + DAEMONS)
        assert cell.out == "left\n", cell
        fd = os.open(pipe.folder / "lock", os.O_RDWR)
        assert is_locked(fd)
        if end == "keeper dies":
            kill(pipe.hello["pid"])
        elif end == "restart":
            pipe.ask("restart")
            works(pipe)
        else:
            assert pipe.end() == 0
        assert not is_locked(fd, WAIT_S)
        if end == "restart":
            assert pipe.end() == 0
    finally:
        if fd >= 0:
            os.close(fd)
        pipe.abandon()


# ----------------------------------------------------------------------- what exhausts the machine

def tasks_of(uid):
    """Processes and threads of a user, dying ones included."""
    count = 0
    for pid in os.listdir("/proc"):
        try:
            if pid.isdigit() and os.stat("/proc/" + pid).st_uid == uid:
                count += len(os.listdir("/proc/%s/task" % pid))
        except OSError:
            pass  # gone meanwhile
    return count


def test_fork_bomb(world):
    """35: the limit is the session's; the user can go on."""
    assert outside(world, BOMB % 400).stdout.startswith("open")
    # Where the user's own processes count too, room is made for those that are there.
    room = tasks_of(ORDINARY_UID)
    with begin(world, "--processes", "100") as pipe:
        word, count = pipe.run(BOMB % (room + 500)).out.split()
        assert word == "BlockingIOError" and 0 < int(count) < room + 200, (word, count, room)
        assert outside(world, "print(1)").stdout == "1\n"
        works(pipe)


if LONG:
    def test_memory_bomb(world):
        """36: the code ends, or is told so; the session stays."""
        with begin(world) as pipe:
            cell = pipe.run("parts = []\nwhile len(parts) < 4096: parts.append(b'x' * (1 << 20))\n"
                            "print('open')", wait_s=4 * WAIT_S)
            assert cell.status == "died" or cell.error == "MemoryError", cell
            works(pipe)

    @pytest.mark.parametrize("world", ("root", "user"), indirect=True)
    def test_many_files_in_tmp(world):
        """33: as many as a session may have, and then the error that says it."""
        with begin(world) as pipe:
            cell = pipe.run("import os\nn = 0\ntry:\n    while n < 300000:\n"
                            "        os.close(os.open('/tmp/%d' % n, os.O_CREAT)); n += 1\n"
                            "except OSError as e: print(e.strerror, n)", wait_s=4 * WAIT_S)
            assert cell.out.startswith("No space left on device "), cell
            assert 50000 < int(cell.out.split()[-1]) <= 100000
            works(pipe)


# --------------------------------------------------------------------- what a guest does to itself

ENDS = {
    "closes all": "import os\nos.closerange(3, 1024)",
    "closes the pipes": "import os\nos.closerange(0, 3)\nos.closerange(100, 102)",
    "exits": "import os\nos._exit(0)",
    "kills itself": "import os\nos.kill(os.getpid(), 9)",
    "kills its group": "import os\nos.killpg(0, 9)",
    "faults": "import ctypes\nctypes.string_at(0)",
    "another program": "import os\nos.execv('/bin/true', ['fumehood-keeper'])",
    "jumps over its stack": "import re, sys\nsys.setrecursionlimit(10**6)\n"
                            "def f(): return re.sub('x', lambda m: f(), 'x')\nf()",
    "no more memory": "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1, 1))\n"
                      "x = [bytes(1 << 20) for _ in range(100)]",
    "no more files": "import resource\n"
                     "resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))\nopen('x')",
    "kills its parent": "import os\nos.kill(os.getppid(), 9)",
    "stops its parent": "import os\nos.kill(os.getppid(), 19)",
}


@pytest.mark.parametrize("code", ENDS.values(), ids=ENDS)
def test_what_a_guest_does_to_itself(world, code):
    """42: costs the cell, at most; the session and its record go on."""
    with begin(world) as pipe:
        cell = pipe.run(code)
        assert cell.status in ("ok", "error", "died"), cell
        if cell.status == "died":
            assert cell.finished["reason"]
        pipe.ask("restart")  # some are still there, and of no use
        works(pipe)
        notebook = pipe.ask("notebook")["notebook"]
        assert notebook["cells"][0]["source"] in (code, code.split("\n"))


def test_stopped_guest_is_ended_in_time(world):
    """43: what hears no signal is killed."""
    with begin(world) as pipe:
        number = pipe.start("import os, signal\nsignal.signal(2, signal.SIG_IGN)\n"
                            "print('on', flush=True)\nos.kill(os.getpid(), 19)")
        pipe.wait_text("on", number)
        pipe.ask("restart")
        assert pipe.finished(number).status in ("died", "interrupted", "error")
        works(pipe)


# ---------------------------------------------------------------------------------- other sessions

LOOK = """
import ctypes, json, os, signal, socket
def attempt(body):
    try:
        body()
        return "open"
    except OSError as error:
        return "refused"
T = json.loads(%r)
def connect():
    with socket.socket(socket.AF_UNIX) as s: s.connect(T["socket"])
print(json.dumps({
    "secret": attempt(lambda: open(T["secret"]).read()),
    "list": attempt(lambda: os.listdir(T["folder"])),
    "write": attempt(lambda: open(T["secret"], "a").close()),
    "journal": attempt(lambda: open(T["journal"]).read()),
    "config": attempt(lambda: open(T["config"]).read()),
    "socket": attempt(connect),
    "signal": attempt(lambda: os.kill(T["guest"], 0)),
    "keeper": attempt(lambda: os.kill(T["keeper"], 0)),
    "memory": attempt(lambda: os.close(os.open("/proc/%%d/mem" %% T["guest"], 0))),
    "abstract": attempt(lambda: socket.socket(socket.AF_UNIX).connect("\\0" + T["mark"])),
}))
"""


def test_another_session(world):
    """48: of two sessions of one user neither can see the other."""
    mark = secrets.token_hex(16)
    with begin(world) as victim, begin(world) as pipe:
        assert victim.run("import socket\nopen('secret', 'w').write(%r)\ns = socket.socket("
                          "socket.AF_UNIX)\ns.bind('\\0' + %r)\ns.listen()\nmark = %r" % (
                              mark, mark, mark)).status == "ok"
        folder = world.sessions / victim.hello["session"]
        pid = max(children_of(victim.hello["pid"]))
        places = json.dumps({
            "secret": str(victim.folder / "secret"), "folder": str(folder), "mark": mark,
            "journal": str(folder / "journal.ndjson"), "config": str(folder / "session.json"),
            "socket": str(world.runtime / (victim.hello["session"] + ".sock")),
            "guest": pid, "keeper": victim.hello["pid"]})
        seen = json.loads(pipe.run(LOOK % places).out)
        assert set(seen.values()) == {"refused"}, seen
        control = json.loads(outside(world, LOOK % places).stdout)
        for name in ("secret", "list", "write", "journal", "config", "socket", "keeper"):
            assert control[name] == "open", (name, control)
        works(victim)


def children_of(pid):
    """All that descends from a process, as far as /proc tells."""
    found, fresh = set(), {pid}
    while fresh:
        fresh = {int(child) for parent in fresh for task in list_proc(parent, "task")
                 for child in read_proc(parent, "task/%s/children" % task).split()} - found
        found |= fresh
    return found


# --------------------------------------------------------------------------------- forged messages

FORGE = """
import array, fcntl, os, socket, struct
def head(kind, cell, flags=0):
    return struct.pack("=BBHI", ord(kind), flags, 0, cell)
def memfd(size, seals, flags=os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC, data=b""):
    fd = os.memfd_create("x", flags)
    os.write(fd, data)
    try: os.truncate(fd, size)
    except OSError: pass
    if seals: fcntl.fcntl(fd, 1033, seals)
    return fd
def send(data, fds=()):
    with socket.socket(fileno=os.dup(3)) as s:
        try:
            s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        except OSError: pass
ALL = 15
"""
FORGED = {
    "a body without an end": "send(head('d', 2, 1), [memfd(1 << 28, ALL)])",
    "a body that is too large":
        "send(head('d', 2, 1), [memfd((1 << 28) - 1, ALL, data=b'{' * 99)])",
    "a body of nothing": "send(head('d', 2, 1), [memfd(0, ALL)])",
    "any seals":
        "for seals in range(32): send(head('d', 2, 1), [memfd(100, seals, data=b'{}')])",
    "no seals at all": "send(head('d', 2, 1), [memfd(100, 0, os.MFD_CLOEXEC, b'{}')])",
    "huge pages": "try: fd = memfd(1 << 21, ALL, os.MFD_ALLOW_SEALING | 4)\n"
                  "except OSError: fd = 1\nsend(head('d', 2, 1), [fd])",
    "a pipe": "send(head('d', 2, 1), os.pipe())",
    "a FIFO": "os.mkfifo('f')\nsend(head('d', 2, 1), [os.open('f', os.O_RDWR)])",
    "a folder": "send(head('d', 2, 1), [os.open('.', 0)])",
    "the socket itself": "for _ in range(300): send(head('d', 2, 1), [3])",
    "sockets in sockets": "for _ in range(300):\n"
                          "    a, b = socket.socketpair()\n"
                          "    socket.send_fds(a, [b'x'], [b.fileno(), a.fileno()])\n"
                          "    send(head('d', 2, 1), [a.fileno(), b.fileno()])",
    "as many descriptors as can be": "fds = [os.open('/dev/null', 0) for _ in range(253)]\n"
                                     "for _ in range(100): send(head('d', 2), fds)",
    "other cells": "for kind in 'durcxItDa':\n"
                   "    for cell in (1, 3, 4, 1000, 1 << 31, (1 << 31) + 2, (1 << 32) - 1):\n"
                   "        send(head(kind, cell) + b'{\"status\":\"ok\",\"execution_count\":-5}')",
    "messages of others":
        "for kind in 'XAViRFEef': send(head(kind, 2) + b'{\"op\":\"variables\"}')",
    "died by its own word": "send(head('D', 2) + b'{\"status\":\"died\",\"execution_count\":2}')\n"
                            "send(head('D', 2) + b'{\"status\":\"ok\",\"execution_count\":1e999}')",
    "a hello with another pidfd":
        "send(head('H', 0) + b'{\"protocol\":1}', [os.pidfd_open(os.getpid())])",
    "million small ones": "for _ in range(%d): send(head('c', 2))" % (1000000 if LONG else 20000),
    "packets that are too large":
        "for n in range(60000, 200000, 7000): send(head('d', 2) + b'x' * n)",
}


@pytest.fixture(scope="module")
def neighbour(world):
    """A session that must not notice anything."""
    with begin(world) as pipe:
        pipe.run("x = 'mine'")
        yield pipe
        assert pipe.run("print(x)").out == "mine\n"


@pytest.mark.parametrize("code", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("world", WORLDS if LONG else ("root", "degraded"), indirect=True)
def test_forged(world, neighbour, code):
    """46: one session may spoil its own results, nothing else."""
    with begin(world) as pipe:
        assert pipe.run(FORGE).status == "ok"
        before = len(list_proc(pipe.hello["pid"], "fd"))
        cell = pipe.run(code)
        assert cell.status in ("ok", "error", "died"), cell
        works(neighbour)
        if pipe.run("print('on')").status == "died":  # it may spoil itself
            assert pipe.run("print('on')").out == "on\n"
        # Three copies of the interpreter and one on its way have two each.
        assert len(list_proc(pipe.hello["pid"], "fd")) <= before + 4 + 4 * 2
        assert is_alive(pipe.hello["pid"])
        numbers = [event["cell"] for event in pipe.events if event["type"] == "finished"]
        assert len(numbers) == len(set(numbers))
        folder = world.sessions / pipe.hello["session"]
        lines = (folder / "journal.ndjson").read_text().splitlines()
        assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
        assert len(pipe.ask("notebook")["notebook"]["cells"]) in (3, 4)


# -------------------------------------------------------------------------------------- programs

@pytest.mark.skipif(not os.path.exists("/etc/gitconfig"), reason="no /etc/gitconfig is there")
@pytest.mark.parametrize("world", WORLDS if LONG else ("root", "degraded"), indirect=True)
def test_git_does_without_a_forbidden_config(world):
    """Git gives up when the system's file is there and may not be read."""
    forbidden = world.tier == "degraded"
    with begin(world) as pipe:
        cell = pipe.run("import os, subprocess\n"
                        "def git(**env):\n"
                        "    return subprocess.run(['git', 'config', '-l'], env=env).returncode\n"
                        "print('GIT_CONFIG_NOSYSTEM' in os.environ, git(**os.environ), "
                        "git(PATH=os.environ['PATH']) != 0)")
        assert cell.out.splitlines()[-1] == "%s 0 %s" % (forbidden, forbidden), cell


# ---------------------------------------------------------------------------------- no weaker tier

@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_is_not_contained_without_namespaces(house):
    refused = house.cli("run", "--tier", "degraded", "-c", "print(1)")
    assert refused.status == 125 and refused.out == "" and "ordinary user" in refused.err


def test_floor_is_kept():
    """Where only the weaker tier can be had, a policy that asks for more is not served by less."""
    uid, tier, _, wrap = WORLDS["counter"]
    if why := why_not(tier):
        pytest.skip(why)
    house = UserHouse(uid, wrap)
    refused = house.cli("run", "--tier-floor", "full", "-c", "print(1)")
    served = house.cli("run", "-c", "print(1)")
    assert not (bad := house.close()), bad
    assert refused.status == 125 and refused.out == "" and "user" in refused.err
    assert served.out == "1\n"
