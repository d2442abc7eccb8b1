"""Everything that leaves the guest as a message goes through here.

The order rule (doc/protocol-guest.md): before a message is sent, both streams are flushed and both
pipes are empty, so that the keeper can tell what came first. A forked child of the session's code
shares the socket but must never speak on it: `owner` is the process that may.
"""
__builtins__ = dict(__builtins__)

import base64
import codecs
import contextvars
import json
import math
import os
import threading

from fumehood_guest import _guest

CONTROL = 3

# The number of the cell that a task or a thread (through a copied context) was started by; 0: none.
cell_of_context = contextvars.ContextVar("fumehood_cell", default=0)


class State:
    """Of this process. `cell` is the running cell's number, else the last one's."""

    def __init__(self):
        self.owner = 0            # pid that may speak; 0 before the guest is set up
        self.cell = 0
        self.running = False      # a cell is running
        self.practising = False   # ... of which nothing is told (guest.practise)
        self.allow_stdin = False  # ... and someone can answer input()
        self.main_thread = threading.get_ident()
        self.flush = lambda: None  # set by streams.py


state = State()

REPLACEMENT = "\ufffd".encode()
ERRORS = "fumehood"  # name of the codec error handler: a lone surrogate becomes U+FFFD


def _replace_surrogates(error):
    if not isinstance(error, UnicodeEncodeError):
        raise error
    # As bytes: the UTF-8 encoder takes a text from a handler only if it is ASCII.
    one = REPLACEMENT if error.encoding.replace("-", "").lower() == "utf8" else b"?"
    return one * (error.end - error.start), error.end


codecs.register_error(ERRORS, _replace_surrogates)


def to_utf8(text):
    return text.encode("utf-8", ERRORS)


# ---------------------------------------------------------------- JSON

DEPTH_MAX = 60  # the session protocol allows 64 levels in all

def _as_json(value):
    """Called by the encoder for what JSON does not know."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode("ascii")
    item = getattr(value, "item", None)  # numpy scalars
    if item is not None and getattr(value, "shape", None) == ():
        return item()
    if isinstance(value, (set, frozenset)):
        return list(value)
    return str(value)


def _clean(value, path=()):
    """A copy that JSON can express: NaN and infinities become strings, as Jupyter does it. `path`:
    the ids of what this value lies in, because it may contain itself."""
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(float(value))
    if value is None or isinstance(value, (str, int)):
        return value
    if id(value) in path or len(path) > DEPTH_MAX:
        return "..."
    path += (id(value),)
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _clean(item, path)
                for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item, path) for item in value]
    return _clean(_as_json(value), path)


_c_encoder, _c_string = json.encoder.c_make_encoder, json.encoder.encode_basestring


def _encode(value):
    """json.dumps(value, ensure_ascii=False, allow_nan=False, default=_as_json) without its Python
    part: faster, and it works when the program has destroyed builtins or patched json."""
    if _c_encoder is None:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_as_json)
    encoder = _c_encoder({}, _as_json, _c_string, None, ":", ",", False, False, False)
    return "".join(encoder(value, 0))


def to_json(value):
    """UTF-8 of `value` as JSON that every parser accepts."""
    try:
        text = _encode(value)
    except (ValueError, TypeError, RecursionError):
        text = _encode(_clean(value))
    return text.encode("utf-8", ERRORS)


# ---------------------------------------------------------------- messages

_send = _guest.send
_get_ident = threading.get_ident
_threads = threading._active  # current_thread() would make objects for foreign threads
_settle = _guest.settle
_getpid = os.getpid
_exit = os._exit


def speaking():
    return _getpid() == state.owner


def _deliver(kind, flags, cell, body):
    try:
        _send(CONTROL, kind, flags, cell, body)
    except ConnectionError:
        _exit(0)  # the keeper is gone, and the guest ends with it


def emit(kind, body=b"", flags=0, cell=None):
    """Sends one message about `cell` (the caller's own by default), after all that was printed
    before it."""
    if not speaking():
        return
    state.flush()
    _settle()
    if state.practising:
        return
    _deliver(kind, flags, own_cell() if cell is None else cell, body)


def emit_json(kind, value, flags=0, cell=None):
    if not speaking():
        return
    body = to_json(value)
    if len(body) > _guest.BODY_BYTES_MAX:
        raise ValueError("an output of %d bytes is too large to show" % len(body))
    emit(kind, body, flags, cell)


def done(cell, status, count):
    """The last message of a cell."""
    emit(_guest.DONE, b'{"status":"%s","execution_count":%d}' % (status.encode(), count), cell=cell)


def emit_tagged(text, is_stderr, cell):
    """Text that a thread or task of another cell wrote. It has no order with the pipes to keep."""
    flags = _guest.FLAG_STDERR if is_stderr else 0
    step = 1 << 24  # characters, at most four bytes each
    for start in range(0, len(text), step):
        _deliver(_guest.TAGGED, flags, cell, to_utf8(text[start:start + step]))


def own_cell():
    """The cell that the calling thread or task works for."""
    cell = cell_of_context.get()
    if not cell and _get_ident() != state.main_thread:
        cell = getattr(_threads.get(_get_ident()), "_fumehood_cell", 0)
    return cell or state.cell


def note_threads():
    """Makes Thread.start remember the cell that started the thread."""
    plain_start = threading.Thread.start

    def start(self):
        self._fumehood_cell = own_cell()
        return plain_start(self)

    start.__doc__ = plain_start.__doc__
    start.__qualname__ = plain_start.__qualname__
    start.__module__ = plain_start.__module__
    threading.Thread.start = start
