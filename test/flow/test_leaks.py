"""Many sessions, started and ended: what is left of them on the machine?

Each session leaves behind whatever it can: daemons of their own session and process group, files in
/tmp and /dev/shm, System V objects, FIFOs. Counted before and after: processes, mounts, cgroups,
sockets, shared memory, uid locks, temporary files, directories of sessions, and the descriptors of
the pool, which serves them all. 1,000 sessions in ./check, 10,000 with --long.
"""
import concurrent.futures
import glob
import os
import pathlib
import re

from cgroup_kit import is_held
from fumehood_kit import LONG, list_proc, mounts

SESSIONS = 10_000 if LONG else int(os.environ.get("FUMEHOOD_LEAKS", "1000"))
AT_ONCE = 4

CELL = """
import ctypes, os, subprocess
subprocess.Popen(["/bin/sh", "-c", "trap '' TERM HUP INT; sleep 1000 & sleep 1000"],
                 start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv("/bin/sleep", ["sleep", "1000"])
    os._exit(0)
for place in ("/tmp/left", "/dev/shm/left", "left"):
    open(place, "w").write("x" * 1000)
os.mkfifo("/tmp/fifo")
assert ctypes.CDLL(None).shmget(4242, 4096, 0o1600) >= 0
print("done")
"""


def names(pattern):
    return set(glob.glob(pattern))


def ipc_objects():
    """Those with the key of the cell."""
    lines = pathlib.Path("/proc/sysvipc/shm").read_text().splitlines()
    return sum(line.split()[0] == "4242" for line in lines)


def dead_cgroups():
    """Groups of ours whose keepers are gone. Of tests that run beside this one there can be some
    that are empty, just made or about to go: their keepers hold them."""
    found = set()
    for top, folders, _files in os.walk("/sys/fs/cgroup"):
        found |= {os.path.join(top, name) for name in folders
                  if re.fullmatch("fumehood-[0-9a-f]{16}", name)}
    return {path for path in found if not is_held(path)}


class Census:
    """What of Fumehood's there is on the machine besides processes."""

    def __init__(self, house, pool):
        self.mounts = set(mounts())
        self.shm = names("/dev/shm/left*")
        self.ipc = ipc_objects()
        self.cgroups = dead_cgroups()
        self.sockets = len(house.sockets())
        self.descriptors = len(list_proc(pool, "fd"))
        self.sessions = set(house.session_ids())
        self.temporary = names("/tmp/left*") | names("/tmp/fifo*")


def test_nothing_is_left(house):
    assert house.cli("run", "-c", CELL).out == "done\n"
    house.until_spare("ready")
    (pool,) = house.pools()
    before = Census(house, pool)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as threads:
        results = list(threads.map(lambda _: house.cli("run", "-c", CELL), range(SESSIONS)))
    bad = [result for result in results if (result.status, result.out) != (0, "done\n")]
    assert not bad, bad[0]
    house.until_spare("ready")
    assert house.pools() == {pool}
    after = Census(house, pool)
    for what, value in vars(before).items():
        now = getattr(after, what)
        if isinstance(value, set):
            assert now - value == set(), what
        else:
            assert now <= value, (what, value, now)
