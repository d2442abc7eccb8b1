"""The machine under the benchmark: statistics, memory, and who else was running.

The benchmark is a subreaper (prctl(2)): every process that it or either product has started, and
that was orphaned since, comes back to it. So "what we started" is simply the tree below this
process: its memory can be summed, its CPU time can be told from that of others, and it can be ended
to the last process.
"""

import contextlib
import ctypes
import os
import signal
import time

NOISE_CORES = 0.3  # others used more than this: the row may not be believed
_PR_SET_CHILD_SUBREAPER = 36
_TICK = os.sysconf("SC_CLK_TCK")


def become_subreaper():
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def quantile(values, q):
    """By nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def median(values):
    return quantile(values, 0.5)


# ---------------------------------------------------------------- processes


def _stat(pid):
    """(parent, state, CPU seconds of it and of the children it has waited for), or None."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]), fields[0], sum(map(int, fields[11:15])) / _TICK


def _all_processes():
    found = {}
    for name in os.listdir("/proc"):
        stat = name.isdigit() and _stat(name)
        if stat:
            found[int(name)] = stat
    return found


def tree(root, processes=None):
    """root and all its descendants."""
    processes = processes or _all_processes()
    children = {}
    for pid, (parent, _, _) in processes.items():
        children.setdefault(parent, []).append(pid)
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return found


def reap():
    """Waits for orphans that have ended, so that their CPU time is counted as ours."""
    for pid, (parent, state, _) in _all_processes().items():
        if parent == os.getpid() and state == "Z":
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def end_all(patience=10):
    """Ends whatever is still alive below this process, youngest first."""
    deadline = time.monotonic() + patience
    while True:
        reap()
        rest = [pid for pid in tree(os.getpid()) if pid != os.getpid()]
        if not rest:
            return
        late = time.monotonic() > deadline
        for pid in sorted(rest, reverse=True):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
        time.sleep(0.05)


def members(inits):
    """The processes in the pid namespaces of the given ones."""
    places = {os.readlink(f"/proc/{pid}/ns/pid") for pid in inits} - {
        os.readlink("/proc/self/ns/pid")
    }
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.readlink(f"/proc/{name}/ns/pid") in places:
                found.append(int(name))
    return found


# ---------------------------------------------------------------- memory


def pss_mib(pids):
    """Sum of the proportional set sizes: a page that n processes share counts 1/n for each."""
    total = 0
    for pid in set(pids):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    return total / 1024


def rss_mib(pid):
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0


# ---------------------------------------------------------------- noise


class Noise:
    """with Noise() as noise: ...; then noise.cores: how many cores others used meanwhile."""

    def __enter__(self):
        self.began = self._now()
        return self

    def __exit__(self, *_):
        wall, busy, own = (b - a for a, b in zip(self.began, self._now()))
        self.cores = max(0.0, (busy - own) / wall) if wall > 0 else 0.0

    @staticmethod
    def _now():
        reap()
        processes = _all_processes()
        own = sum(processes[pid][2] for pid in tree(os.getpid(), processes) if pid in processes)
        with open("/proc/stat") as file:
            v = [int(field) for field in file.readline().split()[1:]]
        return time.monotonic(), (sum(v[:3]) + sum(v[5:8])) / _TICK, own
