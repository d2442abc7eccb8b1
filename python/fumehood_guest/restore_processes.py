"""Processes that the session had started, in a copy that has been woken: all are gone.

They were killed with the guest, and were never children of the copy. subprocess would take a child
that cannot be waited for as one that ended well, and multiprocessing refuses to speak of processes
of another process. So each is told to be killed, unless it had ended before the copy was made: then
how it ended has been noted.
"""
__builtins__ = dict(__builtins__)

import os
import shlex
import signal
import sys
import threading

from fumehood_guest import imports
from fumehood_guest.tracking import Tracked

KILLED = -signal.SIGKILL
NAME_CHARS_MAX = 100
TRACKERS = ("multiprocessing.resource_tracker", "loky.backend.resource_tracker",
            "joblib.externals.loky.backend.resource_tracker")

_popens = Tracked()     # subprocess.Popen
_processes = Tracked()  # multiprocessing
_memories = Tracked()   # SharedMemory
_ended = {}             # {pid: return code}: had ended, but nobody had asked


def install():
    imports.when_imported("subprocess", lambda module: _popens.watch(module.Popen))
    imports.when_imported("multiprocessing.process",
                          lambda module: _processes.watch(module.BaseProcess))
    imports.when_imported("multiprocessing.shared_memory",
                          lambda module: _memories.watch(module.SharedMemory))


def before_copy():
    if not (_popens.alive or _processes.alive):
        return
    _ended.clear()
    for popen in _popens:
        if popen.returncode is None:
            peek(popen.pid)
    for process in _processes:
        inner = getattr(process, "_popen", None)
        if inner is not None and getattr(inner, "returncode", 0) is None:
            peek(inner.pid)


def peek(pid):
    """Notes how a child has ended, and leaves it to be waited for."""
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except OSError:
        return
    if found is not None:
        code = found.si_status
        _ended[pid] = code if found.si_code == os.CLD_EXITED else -code


def after_wake():
    """Returns what has been killed, by command, and the descriptors that led to it."""
    killed, pipes = [], set()
    for popen in _popens:
        if popen.returncode is not None:
            continue
        if end(popen):
            killed.append(command_of(popen))
        popen._waitpid_lock = threading.Lock()
        pipes.update(file.fileno() for file in (popen.stdin, popen.stdout, popen.stderr)
                     if file is not None and not file.closed)
    subprocess = sys.modules.get("subprocess")
    if getattr(subprocess, "_active", None):
        del subprocess._active[:]  # nobody holds them any more
    for process in _processes:
        if end_process(process):
            killed.append(process.name)
    end_helpers()
    return killed, pipes


def end(popen):
    """Whether it was alive when the copy was made."""
    popen.returncode = _ended.get(popen.pid, KILLED)
    return popen.pid not in _ended


def end_process(process):
    """Of a multiprocessing.Process. It is this process's now, whether started or not."""
    if process._parent_pid is None:
        return False  # the session itself
    process._parent_pid = os.getpid()
    popen = getattr(process, "_popen", None)
    return popen is not None and getattr(popen, "returncode", 0) is None and end(popen)


def command_of(popen):
    args = popen.args
    if isinstance(args, (str, bytes, os.PathLike)):
        text = os.fsdecode(args)
    else:
        text = " ".join(shlex.quote(os.fsdecode(part)) for part in args)
    return text if len(text) <= NAME_CHARS_MAX else text[:NAME_CHARS_MAX - 1] + "\u2026"


def shared_memory():
    return ["/dev/shm/" + memory.name for memory in _memories if memory._fd >= 0]


# ---------------------------------------------------------------- helpers of multiprocessing

def end_helpers():
    """Both are started anew when they are next needed."""
    for name in TRACKERS:
        module = sys.modules.get(name)
        if module is not None and module._resource_tracker._fd is not None:
            end_tracker(module._resource_tracker)
    module = sys.modules.get("multiprocessing.forkserver")
    if module is not None and module._forkserver._forkserver_pid is not None:
        server = module._forkserver
        os.close(server._forkserver_alive_fd)
        server._forkserver_address = server._forkserver_alive_fd = server._forkserver_pid = None
        server._lock = threading.Lock()


def end_tracker(tracker):
    """A new tracker knows nothing of what the old one was told; asked to forget that, it would
    complain on stderr."""
    os.close(tracker._fd)
    tracker._fd = tracker._pid = None
    tracker._lock = type(tracker._lock)() if hasattr(tracker._lock, "_is_owned") \
        else threading.RLock()
    plain, known = type(tracker)._send, set()

    def _send(command, name, kind):
        if command == "REGISTER":
            known.add((name, kind))
        elif command == "UNREGISTER" and (name, kind) not in known:
            return None
        return plain(tracker, command, name, kind)

    tracker._send = _send
