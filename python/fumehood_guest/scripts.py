"""A cell whose code is a script: what Python itself would tell the script of where it lies.

For as long as it runs `__file__` is its path, `sys.argv` that path and the words behind it, and the
first entry of `sys.path` its folder in place of the session's own. Afterwards all three are what
they were, as after IPython's %run: the next cell belongs to the session again. What the script has
changed by itself is left alone. Tracebacks name the file, because its code is compiled under its
name.
"""
__builtins__ = dict(__builtins__)

import json
import os
import sys

from fumehood_guest import traceback_text

_ABSENT = object()


class Script:
    def __init__(self, body):
        order = json.loads(body)
        self.code = order["code"]
        self.file = order.get("file")
        self.argv = [self.file or ""] + order.get("argv", [])
        self.folder = os.path.dirname(self.file) if self.file else None
        self.old_file = self.old_argv = None
        self.replaced = False

    def enter(self, ns):
        self.old_argv, sys.argv = sys.argv, self.argv
        if self.file is None:
            return
        traceback_text.scripts.add(self.file)
        self.old_file = ns.get("__file__", _ABSENT)
        ns["__file__"] = self.file
        self.replaced = sys.path[:1] == [""]
        if self.replaced:
            sys.path[0] = self.folder
        else:
            sys.path.insert(0, self.folder)

    def leave(self, ns):
        if sys.argv is self.argv:
            sys.argv = self.old_argv
        if self.file is None:
            return
        if ns.get("__file__") is self.file:
            if self.old_file is _ABSENT:
                del ns["__file__"]
            else:
                ns["__file__"] = self.old_file
        for place, entry in enumerate(sys.path):
            if entry is self.folder:  # the very object: an equal one is the script's own
                sys.path[place:place + 1] = [""] if self.replaced else []
                return
