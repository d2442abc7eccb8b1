"""Processes and mounts of this machine, as /proc shows them, and waiting without sleeping.

For fumehood_kit.py, which hands all of it on to the tests.
"""
import os
import pathlib
import select
import signal
import time

HOUSE_PREFIX = "fumehood-test-"
HOUSES = []  # the directories of this process's houses
WAIT_S = int(os.environ.get("FUMEHOOD_TEST_WAIT_S") or 60)


def wait_readable(fd, until, what):
    """Waits until `fd` has something to read; `until` is a time.monotonic()."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    assert poll.poll(max(0, (until - time.monotonic()) * 1000)), "waited in vain for " + what


# ------------------------------------------------------------------------------------ processes

def read_proc(pid, name):
    try:
        return pathlib.Path("/proc", str(pid), name).read_bytes()
    except OSError:
        return b""


def list_proc(pid, name):
    try:
        return os.listdir("/proc/%s/%s" % (pid, name))
    except OSError:
        return []


def link_proc(pid, name):
    try:
        return os.readlink("/proc/%s/%s" % (pid, name))
    except OSError:
        return ""


def parent_of(pid):
    fields = read_proc(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def command_of(pid):
    """The command line, for people."""
    return read_proc(pid, "cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def is_alive(pid):
    state = read_proc(pid, "stat").rpartition(b")")[2].split()
    return bool(state) and state[0] not in (b"Z", b"X")


def start_time(pid):
    """In clock ticks since boot; pids begin anew, this does not."""
    state = read_proc(pid, "stat").rpartition(b")")[2].split()
    return int(state[19]) if state else 0


def wait_gone(pid, wait_s=WAIT_S):
    """True once the process has ended (a zombie has)."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(wait_s * 1000))
    finally:
        os.close(fd)


def kill(pid, number=signal.SIGKILL):
    """By pidfd: never a process that has got a recycled pid."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(fd)


def memory_peak(pid):
    """Bytes of memory that the process had at most; 0 in a build whose sanitizer needs its own."""
    if b"libasan" in read_proc(pid, "maps"):
        return 0
    fields = dict(line.split(b":", 1) for line in read_proc(pid, "status").splitlines())
    return int(fields[b"VmHWM"].split()[0]) << 10


def children(pid):
    return [other for other in pids() if parent_of(other) == pid]


def spawner_of(keeper):
    """The process that builds a keeper's boxes."""
    spawner, = children(keeper)
    return spawner


def init_of(keeper):
    """The first process of a keeper's box. While a box is being built, or ends, the spawner has
    other children for a moment."""
    inits = [pid for pid in children(spawner_of(keeper))
             if read_proc(pid, "cmdline").startswith(b"fumehood-init") and is_alive(pid)]
    assert inits, "the keeper has no box"
    return max(inits, key=start_time)


def mounts():
    """The mounts of this mount namespace."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        found = [line.split(" - ")[0].split(" ", 2)[2] for line in lines]
    # What a run beside this one mounts in a house of its own is not ours to count.
    return sorted(line for line in found if "/" + HOUSE_PREFIX not in line
                  or any(str(house) in line for house in HOUSES))
