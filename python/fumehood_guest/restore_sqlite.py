"""Databases of SQLite in a copy that has been woken.

A connection in a transaction holds locks on its file and keeps pages of it in memory. The locks are
POSIX's, which no copy inherits (fcntl(2)); what the guest has written after the copy was made is
not in those pages. A copy that went on with them could write old pages over new ones.

So before a copy is made the locks are noted, with what the files look like. A copy that is woken
takes the locks again. If it gets them, and the files are as they were, the transaction goes on as
if nothing had been. Else it is lost, and told: the connections to that database are closed, in a
way that cannot touch the file. Their descriptors lead nowhere, and the journal of a writer that
died is out of reach meanwhile, because SQLite removes it by its name; whoever opens the database
next plays it back.

Connection has no room for a weak reference. So `sqlite3.Connection` is a subclass that adds just
that, and the one that `sqlite3.connect` makes unless it is told otherwise.

Sources: https://sqlite.org/lockingv3.html, https://sqlite.org/wal.html, fcntl(2),
proc_pid_fdinfo(5).
"""
__builtins__ = dict(__builtins__)

import fcntl
import functools
import os
import stat
import struct
import sys

from fumehood_guest import imports
from fumehood_guest.tracking import Tracked

COMPANIONS = "-journal", "-wal", "-shm"
DESCRIPTORS_MAX = 1024  # the limit of open files, unless it is raised
LOCKS_MAX = 64
F_OFD_GETLK = 36       # of fcntl.h; the module has it since Python 3.9 on some systems only
FLOCK = "=hh4xqqi4x"   # struct flock on 64 bits: type, whence, start, length, pid
JOURNAL = "-journal"
RESERVED_BYTE = 0x40000001  # which a writer locks, as SQLite's file format says
ASIDE = ".fumehood-aside"

_connections = Tracked()
_noted = []  # Database, of the copy that is made now


class Database:
    """A database of which this process has locked something."""

    def __init__(self, base):
        self.base = base
        self.looks = looks_of(base)
        self.locks = []  # (descriptor, kind, start, length)

    def goes_on(self):
        """Takes the locks again, in a woken copy. False when it is too late."""
        try:
            for fd, kind, start, length in self.locks:
                fcntl.lockf(fd, kind | fcntl.LOCK_NB, length, start)
        except OSError:
            return False
        return looks_of(self.base) == self.looks


def looks_of(base):
    """What changes with every change of the content. The index of a write-ahead log ("-shm")
    follows the log."""
    return [look_of(base), look_of(base + "-journal"), look_of(base + "-wal")]


def look_of(path):
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def install():
    imports.when_imported("sqlite3.dbapi2", _imported)


def _imported(module):
    """The package takes its names from this module, before or after us."""
    base = module.Connection

    class Connection(base):
        __slots__ = "__weakref__",

        def __init__(self, *args, **kwargs):
            base.__init__(self, *args, **kwargs)
            if not args or args[0] != ":memory:":
                _connections.add(self)

    Connection.__doc__ = base.__doc__
    Connection.__module__, Connection.__qualname__ = "sqlite3", "Connection"
    plain = module.connect

    @functools.wraps(plain)
    def connect(*args, **kwargs):
        if len(args) < 6:  # the sixth is the factory
            kwargs.setdefault("factory", Connection)
        return plain(*args, **kwargs)

    for owner in (module, sys.modules.get("sqlite3")):
        for name, now, then in (("Connection", Connection, base), ("connect", connect, plain)):
            if getattr(owner, name, None) is then:
                setattr(owner, name, now)


# ---------------------------------------------------------------- before the copy is made

def before_copy():
    del _noted[:]
    if not _connections.alive:
        return
    locked = [(fd, path, locks) for fd, path in open_files() for locks in [locks_of(fd)] if locks]
    if locked:
        note(locked)


def locks_of(fd):
    """What this process has locked through this descriptor: [(kind, start, length)], of lines like
    "lock: 1: POSIX ADVISORY WRITE 691 08:01:393 0 EOF". (/proc/locks would stop every processor.)
    """
    found = []
    try:
        file = open("/proc/self/fdinfo/%d" % fd, encoding="ascii", errors="replace")
    except PermissionError:  # Landlock hides /proc
        return list(locks_in_the_way(fd))
    with file:
        for line in file:
            words = line.split()
            if len(words) == 9 and words[0] == "lock:" and words[2] == "POSIX":
                kind = fcntl.LOCK_EX if words[4] == "WRITE" else fcntl.LOCK_SH
                start = int(words[7])
                length = 0 if words[8] == "EOF" else int(words[8]) - start + 1
                found.append((kind, start, length))
    return found


def locks_in_the_way(fd):
    """The same by asking which locks an open file description would meet: to it, those of its own
    process are somebody else's (F_OFD_GETLK, fcntl(2))."""
    start = 0
    for _ in range(LOCKS_MAX):
        asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, 0, 0)
        kind, _, begin, length, owner = struct.unpack(
            FLOCK, fcntl.fcntl(fd, F_OFD_GETLK, asked))
        if kind == fcntl.F_UNLCK:
            return
        if owner == os.getpid():
            yield (fcntl.LOCK_EX if kind == fcntl.F_WRLCK else fcntl.LOCK_SH), begin, length
        if length == 0:
            return
        start = max(start, begin + length)


def note(locked):
    """Only locks on databases: by their names, each of which is that of an open file."""
    wanted = {base for connection in _connections for base in files_of(connection)}
    databases = {}
    for fd, path, locks in locked:
        base = path[:-4] if path.endswith("-shm") else path
        if base in wanted:
            if base not in databases:
                databases[base] = Database(base)
            databases[base].locks += [(fd,) + lock for lock in locks]
    _noted.extend(databases.values())


def descriptors():
    """(number, status) of each that is open."""
    try:
        numbers = map(int, os.listdir("/proc/self/fd"))
    except PermissionError:  # Landlock hides /proc
        numbers = range(DESCRIPTORS_MAX)
    for fd in numbers:
        try:
            yield fd, os.fstat(fd)
        except OSError:
            pass  # is not open, or was the listing's


def open_files():
    """(descriptor, path) of each regular file."""
    for fd, status in descriptors():
        if stat.S_ISREG(status.st_mode):
            yield fd, os.readlink("/proc/self/fd/%d" % fd)


def files_of(connection):
    """The databases that it has attached, as the kernel names them."""
    try:
        cursor = sys.modules["_sqlite3"].Cursor(connection)
        rows = cursor.execute("PRAGMA database_list").fetchall()
        return [os.path.realpath(row[2]) for row in rows if row[2]]
    except Exception:
        return []  # closed, of another thread, or never opened


# ---------------------------------------------------------------- in a woken copy

def after_wake():
    """Returns the databases of which transactions are lost."""
    lost = [database.base for database in _noted if not database.goes_on()]
    del _noted[:]
    for base in lost:
        leave(base)
    return lost


def leave(base):
    """Closes all connections to this database, and changes nothing in it."""
    affected = [connection for connection in _connections if base in files_of(connection)]
    kill_descriptors({base, *(base + end for end in COMPANIONS)})
    writer = writer_of(base)
    put_aside(base)
    for connection in affected:
        try:
            connection.close()
        except Exception:
            pass  # its thread is gone: nobody can use it
    put_back(base, writer)


def kill_descriptors(paths):
    """Each of these files' becomes one that can neither be read nor written (O_PATH)."""
    dead = os.open("/dev/null", os.O_PATH | os.O_CLOEXEC)
    for fd, path in list(open_files()):
        if path in paths or path.replace(" (deleted)", "") in paths:
            os.dup2(dead, fd, inheritable=False)
    os.close(dead)


def writer_of(base):
    """The process that is in the midst of a transaction: the guest of which this is a branch."""
    try:
        fd = os.open(base, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0  # there is no such file any more
    try:
        asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, RESERVED_BYTE, 1, 0)
        kind, _, _, _, owner = struct.unpack(FLOCK, fcntl.fcntl(fd, F_OFD_GETLK, asked))
    finally:
        os.close(fd)
    return owner if kind != fcntl.F_UNLCK else 0


def put_aside(base):
    """The journal, which a connection that is closed in a transaction removes by its name."""
    try:
        os.rename(base + JOURNAL, base + JOURNAL + ASIDE)
    except OSError:
        pass  # is not there


def put_back(base, writer):
    """Also what an earlier wake had no time to put back. A writer who has ended meanwhile has no
    use for it, and whoever came next would undo what that one has committed."""
    try:
        if writer and writer_of(base) != writer:
            os.unlink(base + JOURNAL + ASIDE)
        else:
            os.rename(base + JOURNAL + ASIDE, base + JOURNAL)
    except OSError:
        pass  # was not there
