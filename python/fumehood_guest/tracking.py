"""Which objects of some classes are alive, so that a woken copy can put them right (restore.py).

An object is noted when it is made: to look for it later would mean to walk the whole heap. Its
class stays as it is, but for an `__init__` of ours around its own: signature, documentation,
pickling and subclasses see no difference. Objects are held weakly, and by number: what a subclass
makes of `__eq__` and `__hash__` does not matter.
"""
__builtins__ = dict(__builtins__)

import functools
import itertools
import weakref


class Tracked:
    """Living objects, in the order of their making."""

    def __init__(self):
        self._objects = weakref.WeakValueDictionary()
        self.alive = self._objects.data  # false: there is none; asked without running any code
        self._numbers = itertools.count()

    def add(self, thing):
        self._objects[next(self._numbers)] = thing

    def __iter__(self):
        return iter(list(self._objects.values()) if self.alive else ())

    def __len__(self):
        return len(self._objects)

    def watch(self, kind):
        """Notes every instance of the class `kind` from now on. Returns its own `__init__`."""
        plain = kind.__init__
        add = self.add

        @functools.wraps(plain)
        def __init__(self, *args, **kwargs):
            plain(self, *args, **kwargs)
            add(self)

        kind.__init__ = __init__
        return plain
