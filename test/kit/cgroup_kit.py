"""Control groups of Fumehood's on this machine, whichever version it has, cgroups(7).

stale_groups()    those near this process that nobody holds any more
groups_of(pids)   the directories of the groups that these processes are in, if they are Fumehood's
"""
import fcntl
import os
import pathlib


def places(pid="self"):
    """(mount, path of the process's group) of each hierarchy: "" or "/a/b"."""
    mounts = {}
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ")[:3]
        if kind in ("cgroup", "cgroup2"):
            for name in options.split(",") if kind == "cgroup" else [""]:
                mounts[name] = fields.split(" ")[4]
    try:
        lines = pathlib.Path("/proc/%s/cgroup" % pid).read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        mount = mounts.get(controllers.split(",")[0])
        if mount:
            found.append((controllers, mount, path.rstrip("/")))
    return found


def is_held(group):
    """Whether its keeper lives. One that is removed meanwhile is nobody's to complain of."""
    try:
        fd = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return not os.path.isdir(group)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)


def stale_groups():
    """Below the group of this process, and below those above it, since with version 2 a session's
    group may be beside: but no deeper, where everyone's may lie. Only where memory is limited."""
    found = set()
    for controllers, mount, path in places():
        if controllers not in ("", "memory"):
            continue
        above = pathlib.Path(mount + path)
        folders = [above, *(above.parents if controllers == "" else [])]
        for folder in folders:
            if folder == pathlib.Path(mount).parent:
                break
            found |= {str(group) for group in folder.glob("fumehood-*[0-9a-f]")
                      if group.is_dir() and group.name != "fumehood-processes"
                      and not is_held(group)}
    return found


def groups_of(pids):
    return {mount + path for pid in pids for _, mount, path in places(pid)
            if os.path.basename(path).startswith("fumehood-")
            and os.path.basename(path) != "fumehood-processes"}
