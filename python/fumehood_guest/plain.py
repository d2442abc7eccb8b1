"""What the extension `_guest` does, for a Python that cannot load it: here it is called `_guest`.

The extension is built once against the limited API, which free-threaded builds do not have before
3.15: they would find the file and crash in it. An extension for each of them would have to be
compiled where it runs. So for those the part that needs C is a library without anything of Python
(libguest.so, src/guest/native.h), called through ctypes, and the rest is Python. No extension means
also that nothing of ours turns the GIL on again.

A guest can do all that it can with the extension; a short print costs a few microseconds more. What
is missing is enter(): such a Python has no zygote, its sessions start cold.
"""
__builtins__ = dict(__builtins__)

import array
import ctypes
import fcntl
import io
import os
import socket
import stat
import struct

_HEADER = struct.Struct("=BBHI")
_FDS_MAX = 16
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class _Constant(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_long)]


def _open_library():
    library = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libguest.so"))
    library.guest_constant.restype = ctypes.POINTER(_Constant)
    library.guest_constant.argtypes = [ctypes.c_size_t]
    library.word_value.restype = ctypes.c_uint32
    library.order_settle.restype = None
    return library


_library = _open_library()
_c_library = ctypes.CDLL(None)


def _constants():
    """The protocol's numbers: PROTOCOL, RUN, HELLO ..."""
    found, index = {}, 0
    while True:
        constant = _library.guest_constant(index)
        if not constant:
            return found
        found[constant.contents.name.decode()] = constant.contents.value
        index += 1


globals().update(_constants())


def _check(status):
    if status < 0:
        raise OSError(-status, os.strerror(-status))


# ---------------------------------------------------------------- messages

_sockets = {}  # by descriptor; never closed: they do not own it


def _socket(fd):
    if fd not in _sockets:
        _sockets[fd] = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fd)
    return _sockets[fd]


def _to_memfd(body):
    fd = os.memfd_create("fumehood-body", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        view = memoryview(body)
        while view:
            view = view[os.write(fd, view):]
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _from_memfd(fd):
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_size > BODY_BYTES_MAX \
            or fcntl.fcntl(fd, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
        raise OSError("body of a message is not a sealed memfd")
    parts, at = [], 0
    while at < status.st_size:
        parts.append(os.pread(fd, status.st_size - at, at))
        at += len(parts[-1])
    return b"".join(parts)


def send(sock, kind, flags, cell, body, fd=-1):
    """Sends one message; a long body goes as a sealed memfd."""
    if len(body) > BODY_BYTES_MAX:
        raise ValueError("message too large")
    memfd = -1
    if len(body) > INLINE_BYTES_MAX:
        fd = memfd = _to_memfd(body)
        flags, body = flags | FLAG_MEMFD, b""
    try:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd >= 0 else []
        _socket(sock).sendmsg([_HEADER.pack(kind, flags, 0, cell), body], rights,
                              socket.MSG_NOSIGNAL)
    finally:
        if memfd >= 0:
            os.close(memfd)


def receive(sock):
    """(type, flags, cell, body, descriptors), or None at the end of the file."""
    try:
        data, rights, message_flags, _ = _socket(sock).recvmsg(
            MESSAGE_BYTES_MAX, socket.CMSG_SPACE(4 * _FDS_MAX), socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return None
    fds = array.array("i")
    for level, kind, raw in rights:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(raw[:len(raw) - len(raw) % fds.itemsize])
    if not data:
        return None
    try:
        # MSG_CTRUNC is no fault: the program has used up its descriptors (src/guest/channel.c).
        if len(data) < _HEADER.size or message_flags & socket.MSG_TRUNC:
            raise OSError("malformed message")
        kind, flags, _, cell = _HEADER.unpack_from(data)
        if not flags & FLAG_MEMFD:
            return kind, flags, cell, data[_HEADER.size:], tuple(fds)
        if not fds:
            raise OSError("message without its body")
        body = _from_memfd(fds[0])
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    os.close(fds[0])
    return kind, flags, cell, body, tuple(fds[1:])


def own_pidfd():
    return os.pidfd_open(os.getpid())


# ---------------------------------------------------------------- what is in the library

def map_word(fd):
    _check(_library.word_map(fd))


word = _library.word_value


def own_signal():
    return bool(_library.word_own_signal())


def signal_of_init():
    return bool(_library.word_signal_of_init())


def watch_signal():
    _check(_library.word_watch_signal())


def open_pipes():
    _check(_library.order_open())


def restore_pipes():
    count = ctypes.c_int()
    _check(_library.order_restore(ctypes.byref(count)))
    return count.value


def settle():
    if not _library.order_settled():
        _library.order_settle()


def flush_c():
    _c_library.fflush(None)


# ---------------------------------------------------------------- the streams (stream.c)

_raw_write = io.FileIO.write
_text_write = io.TextIOWrapper.write
_text_flush = io.TextIOWrapper.flush
_fast = None    # the stream whose writes need no question
_last = None    # the file written last
_hook = _text_write


class Raw(io.FileIO):
    """Its bytes come after those of the other stream: both pipes are empty when it is its turn."""

    def write(self, data):
        global _last
        if self is not _last:
            settle()
            _last = self
        return _raw_write(self, data)


class Text(io.TextIOWrapper):
    def write(self, text):
        if self is _fast:
            return _text_write(self, text)
        return _hook(self, text)


def set_fast(stream, raw, fd):
    """Names the stream to write straight through; None, None, -1: none."""
    global _fast
    if stream is not None and stream is not _fast:
        _text_flush(stream)
    _fast = stream


def set_hook(hook):
    """hook(stream, text), for all others."""
    global _hook
    _hook = hook
