"""Where Fumehood is on this machine, and how the user has set it.

The program is looked for in $FUMEHOOD, beside this package (a build tree, or the `bin` of the
environment that the package is in), and on PATH. The directories are those of the XDG
specification, as base/paths.c has them: `state` for the sessions, `runtime` for sockets.

The settings (Python, limits, durability) are those that the command line uses. Their rules are the
program's: it is asked once (`fumehood config --json`, `fumehood version`: a few milliseconds), and
again only when something has changed that they can depend on: variables, the current directory, the
file, the program.
"""
from __future__ import annotations

import json
import os
import pathlib
import pwd
import shutil
import stat
import subprocess
import sys
import threading
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from . import errors, python_path

ASK_S_MAX = 60  # a shim of pyenv on a cold network home may need seconds
_SETTING_VARIABLES = ("FUMEHOOD", "XDG_", "PYENV", "ASDF", "MISE", "HOME", "PATH")


class Settings(NamedTuple):
    """What holds for sessions that are started now."""

    version: str
    python: str                  # absolute path
    timeout: float               # seconds, of a cell
    durability: str
    spare: bool
    limits: Mapping[str, Any]    # those that the user has set; None: no limit


def _is_program(path: pathlib.Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def program() -> pathlib.Path:
    """The program `fumehood`. Raises NotInstalledError."""
    chosen = os.environ.get("FUMEHOOD")
    if chosen:
        path = pathlib.Path(chosen)
        path = path / "fumehood" if path.is_dir() else path
        if _is_program(path):
            return path.absolute()
        raise errors.NotInstalledError(
            "FUMEHOOD is %s, and no program is there: set it to the path of fumehood" % chosen)
    here = pathlib.Path(__file__).resolve().parent
    beside = [here / "fumehood", pathlib.Path(sys.prefix) / "bin" / "fumehood"]
    if len(here.parents) > 2:
        beside.append(here.parents[2] / "build" / "fumehood")  # <repository>/sdk/python/fumehood
    for path in beside:
        if _is_program(path):
            return path
    found = shutil.which("fumehood")
    if found:
        return pathlib.Path(found).absolute()
    raise errors.NotInstalledError(
        "fumehood is not installed: it is not on PATH. Install it, or set FUMEHOOD to its path")


def keeper() -> pathlib.Path:
    """The program `fumehood-keeper` that belongs to `fumehood`."""
    name = "fumehood-keeper"
    libexec = os.environ.get("FUMEHOOD_LIBEXEC", "")
    if libexec.startswith("/"):
        chosen = pathlib.Path(libexec) / name
        if _is_program(chosen):
            return chosen
        raise errors.NotInstalledError("%s (from FUMEHOOD_LIBEXEC) is no program" % chosen)
    folder = program().resolve().parent
    places = (folder / name, folder.parent / "libexec" / "fumehood" / name)
    for path in places:
        if _is_program(path):
            return path
    raise errors.NotInstalledError(
        "%s is not installed: it was looked for at %s and %s" % ((name,) + places))


# --------------------------------------------------------------------------------- directories


def _absolute(variable: str) -> Optional[str]:
    value = os.environ.get(variable, "")
    return value if value.startswith("/") else None


def _home() -> str:
    home = _absolute("HOME")
    if home is None:
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            home = ""
    if not home.startswith("/"):
        raise errors.NotFoundError("no home directory: set HOME to an absolute path")
    return home


def state() -> pathlib.Path:
    """The directory of all sessions: made when it is missing."""
    base = _absolute("XDG_STATE_HOME") or _home() + "/.local/state"
    path = pathlib.Path(base) / "fumehood"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise errors.from_os(error, "cannot make %s" % path) from error
    return path


def runtime() -> pathlib.Path:
    """The directory of the sockets: made when it is missing, and refused when it is not ours, since
    in /tmp anyone can plant one."""
    base = _absolute("XDG_RUNTIME_DIR")
    if base and os.path.isdir(base):
        path = pathlib.Path(base) / "fumehood"
    else:
        path = pathlib.Path("/tmp/fumehood-%d" % os.geteuid())
    try:
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            pass
        status = path.lstat()
    except OSError as error:
        raise errors.from_os(error, "cannot make %s" % path) from error
    if not stat.S_ISDIR(status.st_mode):
        raise errors.DeniedError("%s is no directory: remove it" % path)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise errors.DeniedError(
            "%s belongs to someone else or has rights for others: remove it" % path)
    return path


# ------------------------------------------------------------------------------------ settings

_known: Dict[Tuple[object, ...], Settings] = {}
_known_lock = threading.Lock()
_KNOWN_MAX = 64


def _stamp(path: pathlib.Path) -> Tuple[object, ...]:
    try:
        status = path.stat()
    except OSError:
        return (str(path),)
    return (str(path), status.st_mtime_ns, status.st_size, status.st_ino)


def _config_file() -> pathlib.Path:
    chosen = os.environ.get("FUMEHOOD_CONFIG")
    if chosen:
        return pathlib.Path(chosen)
    base = _absolute("XDG_CONFIG_HOME") or _home() + "/.config"
    return pathlib.Path(base) / "fumehood" / "config.json"


def _ask(path: pathlib.Path, environment: Mapping[str, str], *words: str) -> str:
    try:
        done = subprocess.run([str(path), *words], env=dict(environment), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=ASK_S_MAX)
    except OSError as error:
        raise errors.from_os(error, "cannot run %s" % path) from error
    except subprocess.TimeoutExpired:
        raise errors.TimedOutError("%s %s gave no answer within %d s"
                                   % (path, words[0], ASK_S_MAX)) from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise errors.InvalidError(said or "%s %s failed" % (path, words[0]))
    return done.stdout.decode("utf-8", "replace")


def _read(path: pathlib.Path, environment: Mapping[str, str]) -> Settings:
    version = json.loads(_ask(path, environment, "version", "--json"))["version"]
    lines = [json.loads(line) for line in _ask(path, environment, "config", "--json").splitlines()]
    values: Dict[str, Any] = {line["key"]: line["value"] for line in lines}
    given = {line["key"] for line in lines if line["from"] != "default"}
    python = values.get("python")
    if not python:
        raise errors.NotFoundError(
            "no Python was found: install python3, or name one by `python` or FUMEHOOD_PYTHON")
    limits = {key[len("limits."):]: values[key] for key in given if key.startswith("limits.")}
    return Settings(version, python_path.resolve(str(python)), float(values.get("timeout") or 300),
                    str(values.get("durability") or "process"), bool(values.get("spare", True)),
                    limits)


def settings(python: Optional[str] = None) -> Settings:
    """The settings in force; `python`: that is asked for instead, as `--python` takes it."""
    path = program()
    environment = dict(os.environ)
    if python is not None:
        if not python:
            raise errors.UsageError("python is a path or a name, not an empty text")
        environment["FUMEHOOD_PYTHON"] = python
    try:
        folder: Optional[str] = os.getcwd()
    except OSError:
        folder = None
    key: Tuple[object, ...] = (
        _stamp(path), _stamp(_config_file()), folder, python,
        tuple(sorted(item for item in environment.items()
                     if item[0].startswith(_SETTING_VARIABLES))))
    with _known_lock:
        found = _known.get(key)
    if found is None or not os.access(found.python, os.X_OK):
        found = _read(path, environment)
        with _known_lock:
            if len(_known) >= _KNOWN_MAX:
                _known.clear()
            _known[key] = found
    return found
