"""inspect.getsource for classes that a cell has defined.

inspect finds a function's code by its file name, which is the cell's; of a class it knows only the
module, and `__main__` has no file. So inspect.getfile is asked in another way here: by the class's
own methods, else by the last cell that has a `class` statement with its name.
"""
__builtins__ = dict(__builtins__)

import functools
import inspect
import linecache
import re
import types

from fumehood_guest.traceback_text import of_session


def cell_of(kind):
    """The file name of the cell that has defined a class, or None."""
    for value in list(vars(kind).values()):
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, types.FunctionType) and of_session(value.__code__.co_filename) \
                and value.__qualname__.startswith(kind.__qualname__ + "."):
            return value.__code__.co_filename
    statement = re.compile(r"^\s*class\s+%s\b" % re.escape(kind.__name__), re.MULTILINE)
    for name in reversed(list(linecache.cache)):
        if of_session(name) and statement.search("".join(linecache.getlines(name))):
            return name
    return None


def install():
    plain = inspect.getfile

    @functools.wraps(plain)
    def getfile(object):
        try:
            return plain(object)
        except (TypeError, OSError):
            if isinstance(object, type) and object.__module__ == "__main__":
                name = cell_of(object)
                if name is not None:
                    return name
            raise

    inspect.getfile = getfile
