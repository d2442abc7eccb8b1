"""The model of a timeline: a plain Python that runs the cells of a session again, one by one.

    python timeline_replay.py         one JSON object a line: {"dir": a folder, "cells": [code]}
                                      -> one line: [[what was printed, the error's name or null]]

Each list of cells runs in a fork of this process, which has run none: nothing of one is left for
the next. Fumehood is not imported: what this says of a timeline owes nothing to what is tested.
"""
import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import sys
import types

import numpy  # noqa: F401 (imported once, for all forks)
import pandas  # noqa: F401


def replay(cells):
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    loop = asyncio.new_event_loop()
    found = []
    for code in cells:
        out, error = io.StringIO(), None
        with contextlib.redirect_stdout(out):
            try:
                tree = compile(code, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                waits = eval(tree, main.__dict__)
                if inspect.iscoroutine(waits):
                    loop.run_until_complete(waits)
            except BaseException as caught:
                error = type(caught).__name__
        found.append([out.getvalue(), error])
    return found


def main():
    for line in sys.stdin:
        task = json.loads(line)
        pid = os.fork()
        if pid == 0:
            answers = os.dup(1)
            os.dup2(2, 1)
            os.chdir(task["dir"])
            with open(answers, "w") as file:
                file.write(json.dumps(replay(task["cells"])) + "\n")
            os._exit(0)
        if os.waitpid(pid, 0)[1] != 0:
            print("null", flush=True)


if __name__ == "__main__":
    main()
