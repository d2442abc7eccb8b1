"""sys.stdout, sys.stderr and sys.stdin of the session, input() and getpass().

stdout and stderr are ordinary text files on descriptors 1 and 2 (real pipes), line-buffered: what
was printed before a crash is in the pipe. The write methods are in C (src/guest/stream.c); this
module decides the rare cases: the stream is not the one written last (flush the other one first),
or the writer is a thread or task that an earlier cell has left behind (its text goes as a tagged
message).

Which cell a thread or task belongs to, wire.py knows.
"""
__builtins__ = dict(__builtins__)

import io
import sys
import threading

from fumehood_guest import _guest, wire
from fumehood_guest.wire import state

_text_write = io.TextIOWrapper.write
_set_fast = _guest.set_fast
_buffer_of = io.TextIOWrapper.buffer.__get__


def _no_fast():
    _set_fast(None, None, -1)


class Output(_guest.Text):
    """sys.stdout or sys.stderr.

    Its writes may go straight to the descriptor (stream.c) as long as it is `plain`: whoever takes
    its buffer, changes its encoding or ends it gets the file object that he expects, and the long
    way.
    """

    plain = True

    def _touched(self):
        self.plain = False
        _no_fast()

    @property
    def buffer(self):
        self._touched()
        return _buffer_of(self)

    def reconfigure(self, **options):
        self._touched()
        return super().reconfigure(**options)

    def detach(self):
        self._touched()
        return super().detach()

    def close(self):
        self._touched()
        return super().close()

    def __reduce_ex__(self, protocol):
        # cloudpickle and friends: in another process it is that process's stream.
        return getattr, (sys, "stderr" if self.is_stderr else "stdout")


class Streams:
    """The pair of streams, and which of them was written last."""

    def __init__(self):
        self.last = None
        self.strangers = False  # threads or tasks of earlier cells are alive: look at each write
        self.open()

    def open(self):
        self.stdout = self._make(1, "<stdout>")
        self.stderr = self._make(2, "<stderr>")

    def _make(self, fd, name):
        raw = _guest.Raw(fd, "w", closefd=False)
        raw.name = name
        stream = Output(io.BufferedWriter(raw, 65536), "utf-8", wire.ERRORS, "\n",
                        line_buffering=True)
        stream.mode = "w"
        stream.descriptor = raw, fd
        stream.is_stderr = fd == 2
        return stream

    def other(self, stream):
        return self.stdout if stream is self.stderr else self.stderr

    def write(self, stream, text):
        """The hook behind Output.write: any write that is not a repeated one to the same stream."""
        if self.strangers:
            cell = wire.own_cell()
            if cell != state.cell and wire.speaking():
                if not isinstance(text, str):
                    raise TypeError("write() argument must be str, not %s" % type(text).__name__)
                wire.emit_tagged(text, stream.is_stderr, cell)
                return len(text)
        if self.last is not stream:
            if stream is self.stdout or stream is self.stderr:
                quiet_flush(self.other(stream))
            self.last = stream
        if stream.plain and not self.strangers:
            _set_fast(stream, *stream.descriptor)
            return stream.write(text)
        return _text_write(stream, text)

    def watch(self, strangers):
        """Says whether threads or tasks of earlier cells may write from now on."""
        if strangers != self.strangers:
            self.strangers = strangers
            _no_fast()

    def flush(self):
        """Flushes both; the stream written last is the only one that can hold text, but the session
        may also have written through .buffer."""
        quiet_flush(self.stdout)
        quiet_flush(self.stderr)

    def renew(self):
        """A new cell is a new start: a closed or deleted stream is replaced."""
        if self.stdout.closed or self.stderr.closed:
            self.replace()
        if self.stdin.closed:  # exit() closes it
            self.stdin = Input()
        for name in ("stdout", "stderr", "stdin"):
            stream = getattr(sys, name, self)
            if stream is self or getattr(stream, "closed", False) is True:
                setattr(sys, name, getattr(self, name))

    def replace(self):
        """New ones in the places of both. Also in a copy that was woken: a thread that is not in it
        may have held the lock of a buffer."""
        _no_fast()
        self.last = None
        old = self.stdout, self.stderr
        self.open()
        for name, gone in zip(("stdout", "stderr"), old):
            new = getattr(self, name)
            if getattr(sys, name, None) is gone:
                setattr(sys, name, new)
            if getattr(sys, "__%s__" % name, None) is gone:
                setattr(sys, "__%s__" % name, new)

    def install(self):
        self.stdin = Input()
        sys.stdout = sys.__stdout__ = self.stdout
        sys.stderr = sys.__stderr__ = self.stderr
        sys.stdin = sys.__stdin__ = self.stdin
        state.flush = self.flush
        _guest.set_hook(self.write)


def quiet_flush(stream):
    """An engine's flush never raises: the program may have closed or broken anything."""
    try:
        stream.flush()
    except Exception:
        pass


# ---------------------------------------------------------------- input

NOBODY = ("input() was called, but no one can answer: the cell runs with allow_stdin false. "
          "Give the value in the code instead.")

_asking = threading.Lock()


def ask(prompt, password=False):
    """Asks the client for a line. EOFError when there is no one, or at the end of the input."""
    if not (state.running and state.allow_stdin and wire.speaking()):
        raise EOFError(NOBODY)
    with _asking:
        wire.emit(_guest.INPUT_REQUEST, wire.to_utf8(prompt),
                  _guest.FLAG_PASSWORD if password else 0)
        while True:
            message = _guest.receive(wire.CONTROL)
            if message is None:
                wire._exit(0)
            kind, flags, cell, body, _ = message
            if kind == _guest.INPUT and cell in (0, state.cell):
                break
    if flags & _guest.FLAG_EOF:
        raise EOFError("end of the input")
    return body.decode("utf-8", "replace")


def make_input(streams, plain_input):
    def input(prompt="", /):
        """Read a line from the client of the session (the trailing newline is stripped)."""
        if sys.stdin is not streams.stdin:
            return plain_input(prompt)  # the program has its own stdin
        return ask(str(prompt))

    input.__module__ = "builtins"
    input.__qualname__ = "input"
    return input


def getpass(prompt="Password: ", stream=None):
    """Ask the client of the session for a password."""
    return ask(str(prompt), password=True)


class Input(io.TextIOBase):
    """sys.stdin: lines come from the client; without one it is at its end."""

    encoding = "utf-8"
    errors = "strict"
    mode = "r"
    name = "<stdin>"
    line_buffering = False

    def __init__(self):
        self._rest = ""
        self._end = False
        self.buffer = io.BufferedReader(io.FileIO(0, "r", closefd=False))

    def fileno(self):
        return 0

    def readable(self):
        return True

    def isatty(self):
        return False

    def _fill(self):
        """Gets one more line; False at the end."""
        try:
            self._rest += ask("") + "\n"
        except EOFError:
            return False
        return True

    def readline(self, size=-1):
        if not self._rest:
            self._fill()
        end = self._rest.find("\n") + 1 or len(self._rest)
        if size is not None and size >= 0:
            end = min(end, size)
        line, self._rest = self._rest[:end], self._rest[end:]
        return line

    def read(self, size=-1):
        while (size is None or size < 0 or len(self._rest) < size) and self._fill():
            pass
        end = len(self._rest) if size is None or size < 0 else size
        text, self._rest = self._rest[:end], self._rest[end:]
        return text

    def __reduce_ex__(self, protocol):
        return getattr, (sys, "stdin")
