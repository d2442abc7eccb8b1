"""Which Python: from what a person names to the one absolute path of an environment.

The path is the environment's identity (the pool's socket is named by it), so it must come out as
src/base/python.c makes it: a directory becomes its bin/python, a name is looked for on PATH, links
are followed except inside a venv, where the link is what makes Python find pyvenv.cfg. A shim of
pyenv, asdf or mise is run and asked.
"""
from __future__ import annotations

import os
import shutil
import subprocess
from typing import Optional

from . import errors

SHIM_S_MAX = 10


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _in_directory(directory: str) -> Optional[str]:
    for name in ("python", "python3"):
        path = os.path.join(directory, "bin", name)
        if _is_program(path):
            return path
    return None


def _executable(name: str) -> str:
    bare = "/" not in name
    found = shutil.which(name) if bare else None
    if found:
        return found
    if os.path.isdir(name):
        inside = _in_directory(name)
        if inside:
            return inside
        raise errors.NotFoundError("%s has no bin/python: it is no Python environment" % name)
    if bare:
        raise errors.NotFoundError(
            "no Python called %s is on PATH, and no environment of this name is in the current "
            "directory" % name)
    if not os.path.exists(name):
        raise errors.NotFoundError("the Python %s cannot be used: there is no such file" % name)
    if not _is_program(name):
        raise errors.InvalidError("%s is no executable file" % name)
    return name


def _is_shim(path: str) -> bool:
    if os.path.dirname(path).endswith("/shims"):
        return True
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _ask_shim(shim: str) -> str:
    try:
        done = subprocess.run([shim, "-I", "-c", "import sys; print(sys.executable)"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=SHIM_S_MAX, start_new_session=True)
    except subprocess.TimeoutExpired:
        raise errors.TimedOutError(
            "the Python %s was asked for sys.executable and gave no answer within %d s"
            % (shim, SHIM_S_MAX)) from None
    except OSError as error:
        raise errors.from_os(error, "the Python %s cannot be run" % shim) from error
    lines = done.stdout.decode("utf-8", "surrogateescape").rstrip("\r\n").split("\n")
    if done.returncode != 0 or not lines[-1].startswith("/") or not _is_program(lines[-1]):
        raise errors.EngineError("the Python %s does not work: %s"
                                 % (shim, lines[-1] or "it said nothing"))
    return lines[-1]


def _canonical(path: str) -> str:
    directory = os.path.realpath(os.path.dirname(path) or ".")
    real = os.path.realpath(path)
    if not (os.path.exists(os.path.join(directory, "..", "pyvenv.cfg"))
            or os.path.exists(os.path.join(directory, "pyvenv.cfg"))):
        return real
    plain = os.path.join(directory, "python")
    if os.path.exists(plain) and os.path.realpath(plain) == real:
        return plain
    return os.path.join(directory, os.path.basename(path))


def check_workspace(name: str, workspace: str) -> None:
    """Refuses a Python that is a script in the workspace: to resolve it, it would be run, outside
    of any sandbox, and a session may have written it."""
    try:
        path = _executable(name)
    except errors.Error:
        return  # said when it is resolved
    real, top = os.path.realpath(path), os.path.realpath(workspace)
    if _is_shim(path) and os.path.commonpath((real, top)) == top:
        raise errors.DeniedError(
            "the Python %s is a script in the workspace, which a session may have written: it is "
            "not run. Name the interpreter that it starts" % path)


def resolve(name: str) -> str:
    """The absolute path that `name` stands for."""
    if not name:
        raise errors.NotFoundError("the name of the Python is empty")
    path = _executable(name)
    return _canonical(_ask_shim(path) if _is_shim(path) else path)
