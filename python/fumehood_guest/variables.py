"""The session's variables, each in a few words.

The list is made for every keystroke of somebody who watches it, so it never does what may take
long: sizes are those of the object itself (tables and arrays know theirs), the text is complete
only for values of the language's own types and of a few well-known ones, cut before it is made.
A class of the session's own is asked for its `__repr__`, but only for TEXT_S each and ALL_TEXTS_S
together; a trace function ends what takes longer. What no trace function sees (a call into C, in
Python 3.9 an empty loop) ends with the keeper's interrupt.
"""
__builtins__ = dict(__builtins__)

import collections
import fnmatch
import itertools
import sys
import time
import types

from fumehood_guest import looking, traceback_text

TEXT_CHARS = 120
ITEMS_MAX = 20         # of a container that are looked at
DEPTH_MAX = 3
INT_BITS_MAX = 4000    # Python refuses to print integers a few times larger
TEXT_S, ALL_TEXTS_S = 0.05, 0.5

# Packages whose objects have a `shape` that costs nothing.
SHAPED = frozenset(("numpy", "pandas", "scipy", "torch", "tensorflow", "jax", "jaxlib", "polars",
                    "xarray", "dask", "cupy", "sklearn", "pyarrow"))
# Types whose own __repr__ is short and harmless.
PRINTED = frozenset(("datetime", "decimal", "fractions", "pathlib", "uuid", "ipaddress", "zoneinfo",
                     "_pydatetime", "_pydecimal", "_decimal", "pathlib._local"))
SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset, range, memoryview,
         collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter)
SIZED_TYPES = frozenset(SIZED)
BRACKETS = {list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), frozenset: ("frozenset({", "})")}


class TooSlow(BaseException):
    """Ends a __repr__ of the session's own."""


def collect(shell, pattern, most, answer):
    """Fills the answer: variables, total, truncated."""
    own = looking.hidden(shell)
    ns = dict(shell.ns)
    names = sorted(name for name in ns if type(name) is str and not name.startswith("_")
                   and name not in own and (not pattern or fnmatch.fnmatchcase(name, pattern)))
    answer["total"] = len(names)
    answer["truncated"] = len(names) > most
    texts = Texts()
    for name in names[:most]:
        try:
            found = entry(name, ns[name], texts)
        except BaseException as error:  # a class that lies about itself, or the keeper's interrupt
            if isinstance(error, KeyboardInterrupt):
                texts.left = 0
            found = {"name": name, "type": traceback_text.type_name(ns[name]),
                     "repr": cut(default_text(ns[name]))}
        answer["variables"].append(found)


def entry(name, value, texts):
    kind = type(value)
    found = {"name": name, "type": traceback_text.type_name(value)}
    module = looking.module_of(kind)
    if module and module != "builtins":
        found["module"] = module
    plain = kind in PLAIN
    shape = None if plain else shape_of(value)
    if shape is not None:
        found["shape"] = shape
    else:
        length = length_of(value)
        if length is not None:
            found["length"] = length
    size = sys.getsizeof(value) if plain else size_of(value)
    if size is not None:
        found["size"] = size
    found["repr"] = texts.of(value)
    return found


def length_of(value):
    kind = type(value)
    return len(value) if kind in SIZED_TYPES else None


def shape_of(value):
    if isinstance(value, type) or looking.root_of(value) not in SHAPED:
        return None
    try:
        shape = tuple(value.shape)
        return [int(size) for size in shape[:32]]
    except Exception:
        return None


def size_of(value):
    """Bytes of the object itself, of its data where that costs nothing to know."""
    try:
        root = looking.root_of(value)
        if root == "pandas" and hasattr(type(value), "memory_usage"):
            used = value.memory_usage(deep=False)
            return int(used.sum() if hasattr(used, "sum") else used)
        if root in SHAPED and isinstance(getattr(value, "nbytes", None), int):
            return value.nbytes
        own = looking.static_attribute(type(value), "__sizeof__")
        if isinstance(own, types.FunctionType):
            return object.__sizeof__(value)
        return sys.getsizeof(value)
    except Exception:
        return None


# ---------------------------------------------------------------- texts

def short_repr(value):
    return Texts().of(value)


class Texts:
    """Makes the texts of one answer, within the time for all of them."""

    def __init__(self):
        self.left = ALL_TEXTS_S

    def of(self, value):
        try:
            text = self.text(value, 0)
        except KeyboardInterrupt:  # the list goes on, without any more code of the session
            text, self.left = default_text(value), 0
        except BaseException:  # SystemExit too
            text = default_text(value)
        return cut(text)

    def text(self, value, depth):
        kind = type(value)
        make = SIMPLE.get(kind)
        if make is not None:
            return make(value)
        if kind in BRACKETS or kind is dict:
            return self.container(value, kind, depth)
        if isinstance(value, types.ModuleType):
            return "<module '%s'>" % getattr(value, "__name__", "?")
        if isinstance(value, type):
            return "<class '%s'>" % looking.full_name(value)
        if isinstance(value, looking.FUNCTIONS):
            return "<function %s>" % getattr(value, "__qualname__", "?")
        root = looking.root_of(value)
        if root in SHAPED:
            return self.shaped(value)
        own = looking.static_attribute(kind, "__repr__")
        if own is object.__repr__:
            return default_text(value)
        if root in PRINTED:
            return repr(value)
        return self.guarded(value) if depth == 0 else default_text(value)

    def container(self, value, kind, depth):
        if depth >= DEPTH_MAX:
            return "..."
        if kind is dict:
            pairs = itertools.islice(dict.items(value), ITEMS_MAX)
            parts = ["%s: %s" % (self.text(key, depth + 1), self.text(item, depth + 1))
                     for key, item in pairs]
            start, end = "{", "}"
        else:
            parts = [self.text(item, depth + 1) for item in itertools.islice(value, ITEMS_MAX)]
            start, end = BRACKETS[kind]
            if kind in (set, frozenset) and not value:
                return kind.__name__ + "()"
            if kind is tuple and len(value) == 1:
                end = ",)"
        if len(value) > ITEMS_MAX:
            parts.append("...")
        return start + ", ".join(parts) + end

    def shaped(self, value):
        """Arrays and tables: small arrays of numbers whole, else what they are made of."""
        kind = traceback_text.type_name(value)
        root = looking.root_of(value)
        if root == "numpy":
            dtype = getattr(value, "dtype", None)
            if dtype is None or dtype.hasobject or getattr(value, "size", 1) > 100:
                return "%s(shape=%s, dtype=%s)" % (kind, shape_of(value), dtype)
            return repr(value)
        if looking.is_table(value):
            names = [name if type(name) is str else self.text(name, 1)
                     for name in itertools.islice(value.columns, ITEMS_MAX)]
            more = ", ..." if len(value.columns) > ITEMS_MAX else ""
            return "%s(columns: %s%s)" % (kind, ", ".join(names), more)
        dtype = getattr(value, "dtype", None)
        if dtype is not None:
            return "%s(dtype=%s)" % (kind, dtype)
        return self.guarded(value)

    def guarded(self, value):
        """The object's own __repr__, for a short time."""
        if self.left <= 0:
            return default_text(value)
        begin = time.monotonic()
        until = begin + min(TEXT_S, self.left)

        def watch(frame, event, argument):
            if time.monotonic() > until:
                raise TooSlow
            frame.f_trace_opcodes = True  # Python 3.11 sees no line in `while True: pass`
            return watch

        before = sys.gettrace()
        sys.settrace(watch)
        try:
            text = repr(value)
        except TooSlow:
            text = default_text(value)
        finally:
            sys.settrace(before)
            self.left -= time.monotonic() - begin
        return text if type(text) is str else str.__str__(text)


def default_text(value):
    return "<%s object>" % looking.full_name(type(value))


def cut(text):
    """One line of at most TEXT_CHARS characters."""
    text = text[:4 * TEXT_CHARS]
    if "\n" in text or "\r" in text:
        text = " ".join(text.split())
    return text if len(text) <= TEXT_CHARS else text[:TEXT_CHARS - 3] + "..."


def _int(value):
    return repr(value) if value.bit_length() <= INT_BITS_MAX \
        else "<int of %d bits>" % value.bit_length()


def _text(value):
    return repr(value) if len(value) <= TEXT_CHARS else repr(value[:TEXT_CHARS])


def _deque(value):
    return "%s of %d" % (traceback_text.type_name(value), len(value))


SIMPLE = {int: _int, bool: repr, float: repr, complex: repr, type(None): repr, str: _text,
          bytes: _text, bytearray: _text, range: repr, type(...): repr, type(NotImplemented): repr,
          collections.deque: _deque, collections.OrderedDict: _deque,
          collections.defaultdict: _deque, collections.Counter: _deque}
# What most variables are: nothing of these can lie, so most of the looking round is spared.
PLAIN = frozenset(SIMPLE) | SIZED_TYPES
