"""Checkpoints from the keeper's side, without a keeper: on the guests of guest_kit.py.

A copy outlives the guest, and belongs to whoever reaps orphans here; so this process becomes their
reaper (PR_SET_CHILD_SUBREAPER, prctl(2)).
"""
import ctypes
import json
import os
import select
import signal
import socket

import guest_kit
from guest_kit import receive, send

PR_SET_CHILD_SUBREAPER = 36


class Refused(Exception):
    """The guest, or the copy, could not be copied."""


class Copy:
    """A sleeping copy of a guest."""

    numbers = 0

    def __init__(self, guest):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        Copy.numbers += 1
        self.control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        send(guest.control, "C", 0, Copy.numbers, fds=[other.fileno()])
        other.close()
        while not select.select([self.control, guest.control], [], [], 20)[0] == [self.control]:
            kind, _, _, body, _ = receive(guest.control)
            if kind == "F":
                raise Refused(json.loads(body))
        kind, _, number, body, fds = receive(self.control)
        assert (kind, number) == ("S", Copy.numbers)
        self.body, self.pidfd = json.loads(body), fds[0]

    def wake(self):
        """A new guest; its hello is there, and with it what was lost."""
        guest = guest_kit.Guest()
        send(self.control, "W", fds=guest.guest_fds())
        guest.handed_over()
        guest.wait(lambda: guest.hello is not None)
        guest.pid = guest.group = pid_of(guest.pidfd)
        return guest

    def measure(self):
        send(self.control, "M")
        kind, _, _, body, _ = receive(self.control)
        assert kind == "m"
        return json.loads(body)

    def drop(self):
        """Ends it by end of file."""
        self.control.close()
        assert select.select([self.pidfd], [], [], 10)[0], "a copy did not end"
        reap(self.pidfd)


def pid_of(pidfd):
    with open("/proc/self/fdinfo/%d" % pidfd, encoding="ascii") as file:
        return int(dict(line.split(":", 1) for line in file if ":" in line)["Pid"])


def die(guest, code, timeout=60):
    """Runs a cell that ends the guest. Children may hold its socket open, hence the pidfd."""
    cell = guest.start_cell(code)
    assert select.select([guest.pidfd], [], [], timeout)[0], "it does not die"
    while not guest.eof and cell.status is None and select.select([guest.control], [], [], 0)[0]:
        guest.turn(0)
    return cell


def reap(pidfd):
    try:
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    except ChildProcessError:
        pass  # of somebody else's
    os.close(pidfd)


def kill_group(guest):
    """As the keeper clears a box: what the guest has started is killed with it."""
    try:
        os.killpg(guest.group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end(guest):
    kill_group(guest)
    assert guest.wait_exit()
    reap(os.dup(guest.pidfd))
    guest.control.close()
    for fd in (guest.out, guest.err, guest.word_fd, guest.pidfd):
        os.close(fd)
    guest.word.close()
