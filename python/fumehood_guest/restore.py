"""What of a woken copy is not as it was, library by library, and what is told of it.

A copy has the memory of the guest and its open files. It has none of its threads, children,
connections and locks. before_copy() notes what only the guest can say; after_wake() puts right what
can be put right, so that nothing waits for ever for something that is gone, and returns what cannot
(doc/protocol.md, `lost`). It has a millisecond for a session that has none of all this.

No code of the session runs here, but what its weak references call. What may have to (callbacks of
results that have failed) waits in `later` for the beginning of the next cell, where it can be
interrupted.

Which locks the vanished threads held nobody can know. Those that Python makes itself anew after a
fork are free; so are the import system's, below. For the rest there are the threads' names.
"""
__builtins__ = dict(__builtins__)

import errno
import fcntl
import os
import stat
import struct
import sys
import threading
import time

from fumehood_guest import (restore_asyncio, restore_processes, restore_sqlite, restore_workers)

NAMES_MAX = 50
NAME_CHARS_MAX = 80
TASKS = "/proc/self/task"
LINKS = 2  # of that directory, and one more for each task
ENDING_S = 0.001  # a thread that Python has joined is a task for a moment more
# Has ended; gives memory back early; looks after progress bars.
UNIMPORTANT = "", "jemalloc_bg_thd", "tqdm_monitor"
WAITING = "waitpid-", "asyncio-waitpid-"
QUERY_BYTES = 104  # sizeof(struct procmap_query)
PROCMAP_QUERY = 0xC0006611 | QUERY_BYTES << 16  # _IOWR('f', 17, struct procmap_query)
QUERY_WRITABLE, QUERY_SHARED, QUERY_NEXT = 2, 8, 16
PARTS = restore_asyncio, restore_processes, restore_sqlite, restore_workers

_threads = threading._active
_main_thread = threading.main_thread
_wait = time.sleep
_native = set()  # tasks that are no threads of Python's, as they were before the last copy
_noted = {}  # what before_copy() has returned, for the copy
later = []   # (action, arguments), for the beginning of the next cell


def install():
    """In a new guest, before any code of the session."""
    for part in PARTS:
        part.install()


# ---------------------------------------------------------------- before the copy is made

def before_copy(guest):
    """What a copy made now will lack: {"threads": [names], "native_threads": [names]}."""
    _noted.clear()
    try:
        if os.stat(TASKS).st_nlink != LINKS + 1:
            _noted.update(note_threads())
        restore_processes.before_copy()
        restore_sqlite.before_copy()
    except Exception as error:
        _noted["notes"] = ["not everything could be noted before the copy: %s" % error]
    return {name: _noted[name] for name in ("threads", "native_threads") if name in _noted}


def note_threads():
    """Threads by the names that Python knows, and others by what the kernel calls them."""
    # The main thread still carries the number that it had before the fork.
    main, names, own = _main_thread(), [], {str(threading.get_native_id())}
    for thread in list(_threads.values()):
        if not isinstance(thread, threading._DummyThread):
            own.add(str(thread.native_id))
            if thread is not main and is_worth_a_word(thread):
                names.append(thread.name)
    try:
        native = [name for name in map(name_of_task, native_tasks(own)) if name not in UNIMPORTANT]
    except PermissionError:  # Landlock hides /proc: only their number can be known
        native = ["unknown"] * (os.stat(TASKS).st_nlink - LINKS - len(own))
    found = {"threads": shorten(names), "native_threads": shorten(sorted(native))}
    return {name: value for name, value in found.items() if value}


def is_worth_a_word(thread):
    """A thread that waits for a process of asyncio goes with that, which is told."""
    return thread.name not in UNIMPORTANT and not thread.name.startswith(WAITING) \
        and not restore_asyncio.is_idle_loop(thread)


def native_tasks(own):
    native = set(os.listdir(TASKS)) - own
    if not native <= _native:
        _wait(ENDING_S)
        native &= set(os.listdir(TASKS))
    _native.clear()
    _native.update(native)
    return native


def name_of_task(task):
    try:
        with open("%s/%s/comm" % (TASKS, task), encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    except OSError:
        return ""  # has ended


def shorten(names):
    """As many names, and as much of each, as anyone would read."""
    more = len(names) - NAMES_MAX
    found = [str(name)[:NAME_CHARS_MAX] for name in names[:NAMES_MAX]]
    return found + ["and %d more" % more] if more > 0 else found


# ---------------------------------------------------------------- in a woken copy

def after_wake(guest, plugged):
    """Puts right what can be, in a copy that has been woken; returns what could not. `plugged`: how
    many (sockets, pipes, other descriptors) lead nowhere any more."""
    lost = dict(_noted)
    notes = lost.setdefault("notes", [])
    del later[:]
    own_pipes = set()

    def attempt(what, action, *arguments):
        try:
            return action(*arguments)
        except Exception as error:
            notes.append("%s could not be put right: %s: %s" % (what, type(error).__name__, error))
            return None

    numbers = attempt("connections", dead_descriptors, sum(plugged)) or {}
    attempt("imports", free_imports)
    ended = attempt("processes", restore_processes.after_wake)
    if ended is not None:
        lost["processes"], own_pipes = shorten(ended[0]), ended[1]
    lost["transactions"] = attempt("databases", restore_sqlite.after_wake)
    attempt("event loops", restore_asyncio.after_wake, guest, notes)
    attempt("pools", restore_workers.after_wake, do_later)
    attempt("event loops", restore_asyncio.let_begin)
    lost["connections"] = sum(still_dead(fd, inode) for fd, inode in numbers.items()
                              if fd not in own_pipes)
    lost["shared_memory"] = attempt("shared memory", shared_memory)
    return {name: value for name, value in lost.items() if value}


def do_later(action, *arguments):
    later.append((action, arguments))


def begin_cell():
    """What has to be done first, one after the other: an interrupt ends only one of them."""
    while later:
        action, arguments = later.pop(0)
        try:
            action(*arguments)
        except Exception:
            pass  # it has been answered meanwhile


def dead_descriptors(count):
    """{number: inode} of all that lead nowhere: they are one and the same socket. Those of event
    loops, which have new ones in a moment, are not worth a look."""
    if count <= restore_asyncio.descriptors():
        return {}
    return {fd: status.st_ino for fd, status in restore_sqlite.descriptors()
            if fd > 3 and stat.S_ISSOCK(status.st_mode)}


def still_dead(fd, inode):
    try:
        return os.fstat(fd).st_ino == inode
    except OSError:
        return False


def free_imports():
    """A module whose import a vanished thread was at is imported anew."""
    locks = getattr(sys.modules.get("importlib._bootstrap"), "_module_locks", None)
    for name, reference in list(locks.items()) if locks else ():
        lock = reference()
        owner = getattr(lock, "owner", None)
        if owner is None or owner == threading.get_ident():
            continue
        locks.pop(name, None)
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if getattr(spec, "_initializing", False):
            del sys.modules[name]


def shared_memory():
    """What is mapped to be written to and shared: what others have written to it since the copy
    was made is there."""
    try:
        maps = os.open("/proc/self/maps", os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:  # Landlock hides /proc
        return shorten(restore_processes.shared_memory())
    try:
        shares = may_share(maps)
    finally:
        os.close(maps)
    if not shares:
        return []
    found = {}
    with open("/proc/self/maps", "rb") as file:
        for line in file:
            fields = line.split(None, 5)
            if fields[1][1:2] == b"w" and fields[1][3:4] == b"s":
                found[name_of_mapping(fields)] = None
    # Semaphores are the insides of multiprocessing's queues and locks, rings those of loops.
    return shorten([name for name in found
                    if not name.startswith(("/dev/shm/sem.", "anon_inode:"))])


def may_share(maps):
    """Asks the kernel for the first such mapping (PROCMAP_QUERY of linux/fs.h, Linux 6.11), because
    to read the whole list can take a millisecond."""
    query = struct.pack("=QQQ", QUERY_BYTES, QUERY_NEXT | QUERY_SHARED | QUERY_WRITABLE, 0)
    try:
        fcntl.ioctl(maps, PROCMAP_QUERY, query.ljust(QUERY_BYTES, b"\0"))
    except OSError as error:
        return error.errno != errno.ENOENT
    return True


def name_of_mapping(fields):
    name = os.fsdecode(fields[5].rstrip(b"\n")) if len(fields) > 5 else ""
    if not name or name.startswith(("/dev/zero", "/memfd:")):
        return "anonymous"
    return name.replace(" (deleted)", "")
