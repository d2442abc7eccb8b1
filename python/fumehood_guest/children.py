"""Functions and classes of cells in processes that are no copies of the guest.

multiprocessing with `spawn` or `forkserver` sends functions and classes by name, and the child
finds them by importing the main program's file again. A session has no such file, and running its
cells again would do everything twice. So here a name of `__main__` travels with all it needs, as a
bundle:

- functions and classes as their definitions (definitions.py), which the child executes: their
  decorators and defaults run there, nothing else of their cells does;
- modules by name, to be imported;
- any other global that they use, as the value it has when the bundle is made. One that cannot be
  pickled arrives as a stand-in that says so when it is used.

A bundle goes inside the pickle, or, when it is large, lies in a memfd of the sender that the
receivers read once. The child puts names into its own `__main__` that are not there yet, and new
definitions of those that came this way: what an initializer has set there stays. A process that is
a copy of the guest (`fork`) has all names, and never looks into a bundle.

Nothing happens before the first process is started with `spawn` or `forkserver`, and when none of
them is alive functions travel by name again. The hooks are
ForkingPickler.reducer_override (pickle, "Custom Reduction for Types, Functions, and Other
Objects"), and one more value among those that prepare the child, whose unpickling imports this
module there.
"""
__builtins__ = dict(__builtins__)

import builtins
import functools
import importlib
import io
import linecache
import marshal
import os
import pickle
import sys
import types

MAIN = "__main__", "__mp_main__"
WRAPPER = type(functools.lru_cache(len))
INLINE_BYTES_MAX = 1 << 16
FILES_MAX = 8  # memfds that are kept: a task that names an older one may have been read
FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BEGIN = """\
import sys
sys.path.insert(0, %r)
try:
    from fumehood_guest import children
finally:
    del sys.path[0]
children.begin()
"""
NO_SOURCE = "%s cannot be sent to another process: no cell defines it at the top level. Define " \
    "it there, with def or class, or in a module of the workspace"
LAMBDA = "%s cannot be sent to another process, because it has no name there: define it with def " \
    "at the top level of a cell"
NOT_SENT = "the session's variable %r is not in this process: %s. Make it inside the function, " \
    "pass it as an argument, or set it in the initializer of the pool"


class State:
    def __init__(self):
        self.active = False  # a process that is no copy has been started
        self.flags = lambda: 0   # __future__ imports of the session
        self.count = lambda: 0   # cells so far
        self.stamp = None        # what `tickets` is good for
        self.tickets = {}        # {name: ticket}
        self.files = {}          # {digest: memfd}
        self.received = {}       # {name: (codes, texts)}, of definitions that were installed here
        self.seen = set()        # digests of bundles that were installed


state = State()


def plain_name(value):
    """The name in `__main__` by which a function or class is found, with dots; None when it is not
    from there or not found."""
    name = getattr(value, "__qualname__", None)
    if getattr(value, "__module__", None) not in MAIN or type(name) is not str:
        return None
    found = sys.modules.get("__main__")
    for part in name.split("."):
        found = getattr(found, part, None)
    return name if found is value else None


# ---------------------------------------------------------------- sending

class ValuePickler:
    """Pickles a value and notes the names of `__main__` in it, which stay names."""

    def __new__(cls, out, names):
        from multiprocessing.reduction import ForkingPickler

        class Pickler(ForkingPickler):
            def reducer_override(self, value):
                if type(value) is types.FunctionType or isinstance(value, (type, WRAPPER)):
                    name = plain_name(value)
                    if name is not None:
                        names[name.split(".")[0]] = None
                return NotImplemented

        return Pickler(out)


def is_definition(value):
    """Made by a statement of a cell, and known by its name: no instance of a class from there. A
    function that another one has made is known nowhere else."""
    if type(value) is types.FunctionType and "<locals>" in value.__qualname__:
        return True
    return getattr(value, "__module__", None) in MAIN and (
        isinstance(value, type) or type(value).__module__ not in MAIN)


class Bundle:
    """What has to be installed for a name, in an order in which it can be."""

    def __init__(self):
        self.ns = sys.modules["__main__"].__dict__
        self.entries = []
        self.texts = {}
        self.names = set()

    def add(self, name):
        if name in self.names or name not in self.ns:
            return
        self.names.add(name)
        value = self.ns[name]
        if isinstance(value, Unsent):
            return
        if isinstance(value, types.ModuleType):
            self.add_module(name, value)
        elif not (is_definition(value) and self.add_definition(name, value)):
            self.add_value(name, value)

    def add_module(self, name, module):
        from fumehood_guest import definitions
        whole = module.__name__
        if sys.modules.get(whole) is not module or whole in MAIN:
            self.entries.append(("missing", name, "it is a module that cannot be imported"))
        else:
            self.entries.append(("module", name, [whole] + definitions.modules_below(whole)))

    def add_definition(self, name, value):
        """Whatever its execution needs comes before it, what its calls need somewhere."""
        from fumehood_guest import definitions
        found = state.received.get(name) or definitions.find(name, value, state.flags())
        if found is None:
            return False
        codes, texts = found
        needed = [definitions.names_of(code) for code in codes]
        for now, _ in needed:
            for other in now:
                self.add(other)
        self.entries.append(("definition", name, (codes, list(texts))))
        self.texts.update(texts)
        for _, later in needed:
            for other in later:
                self.add(other)
        return True

    def add_value(self, name, value):
        out, needed = io.BytesIO(), {}
        try:
            ValuePickler(out, needed).dump(value)
        except Exception as error:
            self.entries.append(("missing", name, "%s cannot be pickled (%s: %s)"
                                 % (type(value).__name__, type(error).__name__, error)))
            return
        if name in needed:
            self.entries.append(("missing", name, "no cell defines it at the top level"))
            return
        for other in needed:
            self.add(other)
        self.entries.append(("value", name, out.getvalue()))

    def defines(self, name):
        return any(entry[:2] in (("definition", name), ("value", name)) for entry in self.entries)


def is_needed():
    """Is a process being started, or alive, that is no copy of this one?"""
    from multiprocessing import context, process
    return context.get_spawning_popen() is not None or any(
        getattr(child._popen, "method", "fork") != "fork" for child in list(process._children))


def reduce(pickler, value):
    """ForkingPickler.reducer_override, once a process has been started that needs it."""
    if not state.active or not (type(value) is types.FunctionType
                                or isinstance(value, (type, WRAPPER))) \
            or getattr(value, "__module__", None) not in MAIN or not is_needed():
        return NotImplemented
    name = plain_name(value)
    if name is None:
        if value.__name__ == "<lambda>":
            raise pickle.PicklingError(LAMBDA % value.__qualname__)
        return NotImplemented  # pickle says what is wrong
    return fetch, (name, ticket_for(name.split(".")[0]))


def ticket_for(name):
    """A bundle for this name, as it is sent: (digest, payload) or (digest, path). Made anew for
    each process and each cell, because what it holds may have changed."""
    from multiprocessing import context
    stamp = context.get_spawning_popen(), state.count()
    if state.stamp != stamp:
        state.stamp, state.tickets = stamp, {}
    if name not in state.tickets:
        bundle = Bundle()
        bundle.add(name)
        if not bundle.defines(name):
            raise pickle.PicklingError(NO_SOURCE % name)
        state.tickets[name] = pack(marshal.dumps((bundle.entries, bundle.texts)),
                                   stamp[0] is None)
    return state.tickets[name]


def pack(payload, shared):
    """`shared`: many pickles will name this bundle, so a large one is stored once."""
    import hashlib
    digest = hashlib.sha256(payload).digest()
    if not shared or len(payload) <= INLINE_BYTES_MAX:
        return digest, payload
    if digest not in state.files:
        file = os.memfd_create("fumehood-bundle", os.MFD_CLOEXEC)
        with open(file, "wb", closefd=False) as out:
            out.write(payload)
        state.files[digest] = file
        while len(state.files) > FILES_MAX:
            os.close(state.files.pop(next(iter(state.files))))
    return digest, "/proc/%d/fd/%d" % (os.getpid(), state.files[digest])


# ---------------------------------------------------------------- receiving

class Unsent:
    """In place of a variable that could not be sent: using it says why."""

    def __init__(self, name, reason):
        self.__dict__["why"] = NOT_SENT % (name, reason)

    def __repr__(self):
        return "<%s>" % self.__dict__["why"]

    def __getattr__(self, name):
        raise pickle.PicklingError(self.__dict__["why"])

    def __reduce_ex__(self, protocol):
        raise pickle.PicklingError(self.__dict__["why"])


def _refuse(self, *args, **kwargs):
    raise pickle.PicklingError(self.__dict__["why"])


for _name in ("call enter exit aenter aexit await iter next aiter anext len bool contains getitem "
              "setitem delitem setattr add radd sub rsub mul rmul matmul rmatmul truediv rtruediv "
              "floordiv rfloordiv mod rmod pow rpow and rand or ror xor rxor lshift rlshift rshift "
              "rrshift iadd isub imul neg pos abs invert int float index lt le gt ge eq ne hash "
              "format str").split():
    setattr(Unsent, "__%s__" % _name, _refuse)


def fetch(name, ticket):
    """What `name` stands for in this process; called by pickle."""
    main = sys.modules["__main__"]
    base = name.split(".")[0]
    absent = isinstance(main.__dict__.get(base), Unsent) or base not in main.__dict__
    if (absent or base in state.received) and ticket[0] not in state.seen:
        try:
            install(main.__dict__, ticket[1])
            state.seen.add(ticket[0])
        except Exception as error:  # raised here it would end the worker, and nobody be told
            main.__dict__[base] = Unsent(base, "%s: %s" % (type(error).__name__, error))
    found = main
    for part in name.split("."):
        if isinstance(found, Unsent):
            return found
        found = getattr(found, part)
    return found


def install(ns, payload):
    if type(payload) is str:
        with open(payload, "rb") as file:
            payload = file.read()
    entries, texts = marshal.loads(payload)
    for file, text in texts.items():
        linecache.cache[file] = len(text), None, text.splitlines(True), file
    for kind, name, content in entries:
        there = name in ns and not isinstance(ns[name], Unsent)
        try:
            if kind == "definition":
                define(ns, name, content, texts, there)
            elif not there:
                ns[name] = arrived(kind, name, content)
        except Exception as error:
            ns[name] = Unsent(name, "its definition has failed (%s: %s)"
                              % (type(error).__name__, error))


def define(ns, name, content, texts, there):
    codes, files = content
    old = state.received.get(name)
    if there and (old is None or old[0] == codes and list(old[1]) == files):
        return  # it is there by itself, or the same
    for code in codes:
        exec(code, ns)
    state.received[name] = codes, {file: texts[file] for file in files}


def arrived(kind, name, content):
    if kind == "value":
        return pickle.loads(content)
    if kind == "missing":
        return Unsent(name, content)
    for module in content:
        importlib.import_module(module)
    return sys.modules[content[0]]


# ---------------------------------------------------------------- both ends

class Beginning:
    """Among what a child is prepared with: to unpickle it is to run begin() there."""

    def __reduce__(self):
        return exec, (BEGIN % FOLDER, {})


def begin():
    """In a new process: an empty `__main__`, into which bundles are unpacked. It has that very
    name, so that what is sent back is found in the session."""
    from multiprocessing import spawn
    main = types.ModuleType("__main__")
    main.__builtins__ = builtins
    spawn.old_main_modules.append(sys.modules["__main__"])
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main
    hook(spawn)


def hook(spawn):
    """Sets both hooks, into multiprocessing.spawn and its pickler."""
    from multiprocessing.reduction import ForkingPickler
    plain = spawn.get_preparation_data

    @functools.wraps(plain)
    def get_preparation_data(name):
        state.active = True
        state.stamp = None
        data = plain(name)
        for key in ("init_main_from_path", "init_main_from_name"):  # would run a script again
            data.pop(key, None)
        data["fumehood"] = Beginning()
        return data

    spawn.get_preparation_data = get_preparation_data
    ForkingPickler.reducer_override = reduce


def serve(shell, spawn):
    """In the guest, once multiprocessing.spawn is imported."""
    state.flags = lambda: shell.flags
    state.count = lambda: shell.count
    hook(spawn)
