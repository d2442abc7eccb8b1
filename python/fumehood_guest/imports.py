"""Something to do right after a module has been imported, whenever that is.

A cold guest imports nothing in advance, yet asyncio, getpass and matplotlib need a touch before the
session's code uses them; importing them for that would cost more than a cell.
"""
__builtins__ = dict(__builtins__)

import importlib.machinery
import sys

_wanted = {}  # {name: [actions]}


class _Loader:
    """The module's own loader, with a call after it."""

    def __init__(self, loader, name):
        self._loader, self._name = loader, name

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        for action in _wanted.pop(self._name, ()):
            action(module)

    def __getattr__(self, name):
        return getattr(self._loader, name)


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in _wanted:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Loader(spec.loader, name)
        return spec


def when_imported(name, action):
    """Calls action(module) now, or right after the import of `name`."""
    if name in sys.modules:
        action(sys.modules[name])
        return
    _wanted.setdefault(name, []).append(action)
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
