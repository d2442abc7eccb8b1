"""The directories of the sessions on this machine: making, finding, listing and removing them.

A session is `<state>/sessions/<id>/`; a name is a symlink in `<state>/by-name/`, made exclusively.
doc/protocol.md ("Starting a keeper") has the form of session.json; this module does what
src/client/store.c and sweep.c do, so that both can be used on the same sessions:

- A name that points nowhere is left from a removal that was cut off and may be taken over; because
  two clients could do that at once, both hold `names.lock` meanwhile.
- A session is removed under the lock that its keeper holds, so a running one cannot be removed. It
  is first renamed to `.removing-<id>`: from then on nobody finds it, and what a crash leaves behind
  `fumehood gc` sweeps.
"""
from __future__ import annotations

import base64
import contextlib
import datetime
import fcntl
import json
import os
import pathlib
import re
import secrets
import shutil
import socket
import stat
import time
import unicodedata
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional

from . import errors, install

ID = re.compile(r"[a-z2-7]{26}\Z")
_ID_PART = re.compile(r"[a-z2-7]{4,26}\Z")
NAME_BYTES_MAX = 128
_REMOVING = ".removing-"
_PAUSE_S, _PAUSE_S_MAX = 0.0005, 0.016


class Place(NamedTuple):
    """A session on this machine."""

    id: str
    name: Optional[str]
    directory: pathlib.Path
    config: Mapping[str, Any]  # session.json; empty when it is damaged


def check_name(name: str) -> None:
    """Raises InvalidError for a name that no session can have."""
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        raise errors.InvalidError("a session's name is UTF-8 text") from None
    if not 1 <= size <= NAME_BYTES_MAX:
        raise errors.InvalidError("a session's name has 1 to %d bytes" % NAME_BYTES_MAX)
    if name[0] in ".-":
        raise errors.InvalidError("a session's name does not begin with '.' or '-'")
    if "/" in name or any(unicodedata.category(letter) == "Cc" for letter in name):
        raise errors.InvalidError("a session's name has no '/' and no control characters")
    if ID.match(name):
        raise errors.InvalidError("this name has the form of an id; choose another")


def _open_part(part: str) -> pathlib.Path:
    path = install.state() / part
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise errors.from_os(error, "cannot make %s" % path) from error
    return path


def sessions() -> pathlib.Path:
    """The directory that holds the sessions' own."""
    return _open_part("sessions")


@contextlib.contextmanager
def _names_locked() -> Iterator[pathlib.Path]:
    names = _open_part("by-name")
    lock = os.open(install.state() / "names.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield names
    finally:
        os.close(lock)


def _owner(link: pathlib.Path) -> Optional[str]:
    """The id that a name points to."""
    try:
        folder, _, ident = os.readlink(link).rpartition("/")
    except OSError:
        return None
    return ident if folder == "../sessions" and ID.match(ident) else None


def give_name(name: str, ident: str, durable: bool = False) -> None:
    """Gives the name to the session; DuplicateError when another one has it. `durable`: returns
    when the disk has it."""
    check_name(name)
    with _names_locked() as names:
        link, target = names / name, "../sessions/" + ident
        try:
            os.symlink(target, link)
        except FileExistsError:
            owner = _owner(link)
            if owner and (sessions() / owner).is_dir():
                raise errors.DuplicateError("there is a session named %s already" % name) from None
            link.unlink()
            os.symlink(target, link)
        except OSError as error:
            raise errors.from_os(error, "cannot make %s" % link) from error
        if durable:
            folder = os.open(names, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _drop_names(ident: str) -> None:
    with _names_locked() as names:
        for link in names.iterdir():
            if _owner(link) == ident:
                link.unlink()


# ------------------------------------------------------------------------------ making, finding


def create(config: Mapping[str, Any], workspace: Optional[str], mode: str) -> Place:
    """Makes the directory of a session. `config`: the members of session.json that were chosen;
    `workspace`: an absolute path, None for a private one."""
    ident = base64.b32encode(secrets.token_bytes(16)).decode("ascii").lower().rstrip("=")
    directory = sessions() / ident
    name = config.get("name")
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    place: Dict[str, Any] = {"mode": mode, "private": workspace is None}
    raw = os.fsencode(workspace or str(directory / "workspace"))
    try:
        place["path"] = raw.decode("utf-8")
    except UnicodeDecodeError:
        place["path_base64"] = base64.b64encode(raw).decode("ascii")
    whole = {"format": 1, "id": ident, "name": name, "created": now, "engine": "python",
             "workspace": place, **{key: value for key, value in config.items() if key != "name"}}
    if name is not None:
        check_name(name)
    try:
        directory.mkdir(mode=0o700)
        if workspace is None:
            (directory / "workspace").mkdir(mode=0o700)
        file = os.open(directory / "session.json",
                       os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(file, "w", encoding="utf-8") as out:
            out.write(json.dumps(whole, ensure_ascii=False, allow_nan=False) + "\n")
        if name is not None:
            give_name(name, ident, config.get("durability") == "power")
    except OSError as error:
        shutil.rmtree(directory, ignore_errors=True)
        raise error if isinstance(error, errors.Error) else errors.from_os(
            error, "cannot make %s" % directory) from error
    except (errors.Error, ValueError, TypeError) as error:
        shutil.rmtree(directory, ignore_errors=True)
        if isinstance(error, errors.Error):
            raise
        raise errors.UsageError("an option is no JSON: %s" % error) from error
    return Place(ident, name, directory, whole)


def _read(ident: str) -> Place:
    directory = sessions() / ident
    config: Mapping[str, Any] = {}
    try:
        text = (directory / "session.json").read_text(encoding="utf-8")
        read = json.loads(text)
        if isinstance(read, dict) and read.get("id") == ident:
            config = read
    except (OSError, ValueError):
        pass
    name = config.get("name")
    if not isinstance(name, str) or _owner(install.state() / "by-name" / name) != ident:
        name = None
    return Place(ident, name, directory, config)


def find(text: str) -> Place:
    """The session with this name, id, or unique beginning of an id (4 characters or more)."""
    owner = None
    with contextlib.suppress(errors.InvalidError):
        check_name(text)
        owner = _owner(_open_part("by-name") / text)
    if owner and (sessions() / owner).is_dir():
        return _read(owner)
    found: List[str] = []
    if _ID_PART.match(text):
        found = [name for name in os.listdir(sessions()) if name.startswith(text)
                 and ID.match(name)]
    if len(found) > 1:
        raise errors.InvalidError(
            "%d sessions have an id that begins with %s; give more of it" % (len(found), text))
    if not found:
        raise errors.NotFoundError("there is no session %s (fumehood ls shows them)" % text)
    place = _read(found[0])
    if not place.config and _is_held(place.directory):
        # the pool's spare: it is no session until somebody has it
        raise errors.NotFoundError("the session %s is not begun yet" % place.id)
    return place


def everyone() -> List[Place]:
    """All sessions, newest first."""
    found = [_read(name) for name in os.listdir(sessions()) if ID.match(name)]
    return sorted((place for place in found if place.config),
                  key=lambda place: str(place.config.get("created", "")), reverse=True)


# ------------------------------------------------------------------------------- being, removing


def connect(name: str) -> Optional[socket.socket]:
    """A connection to a socket of the runtime directory; None when nobody listens there."""
    folder = install.runtime()
    address = str(folder / name)
    directory = -1
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if len(os.fsencode(address)) >= 108:  # sun_path: through a descriptor
            directory = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            address = "/proc/self/fd/%d/%s" % (directory, name)
        sock.connect(address)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        sock.close()
        return None
    except OSError as error:
        sock.close()
        raise errors.from_os(error, "cannot connect to %s" % (folder / name)) from error
    finally:
        if directory >= 0:
            os.close(directory)
    return sock


def is_running(ident: str) -> bool:
    """Whether a keeper listens for the session."""
    sock = connect(ident + ".sock")
    if sock is None:
        return False
    sock.close()
    return True


def _lock(directory: pathlib.Path, make: bool) -> Optional[int]:
    """The session's lock, or None when somebody has it."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    lock = os.open(directory / "lock", flags | (os.O_CREAT if make else 0), 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return lock
    except BlockingIOError:
        os.close(lock)
        return None
    except BaseException:
        os.close(lock)
        raise


def _is_held(directory: pathlib.Path) -> bool:
    try:
        lock = _lock(directory, make=False)
    except OSError:
        return False
    if lock is None:
        return True
    os.close(lock)
    return False


def _remove_tree(path: pathlib.Path) -> None:
    """Also what code has made unreadable for its own user."""
    def again(function: Any, name: str, _info: object) -> None:
        for folder in (os.path.dirname(name), name):
            with contextlib.suppress(OSError):
                if stat.S_ISDIR(os.lstat(folder).st_mode):
                    os.chmod(folder, 0o700)
        if function in (os.rmdir, os.unlink):
            function(name)
        else:
            shutil.rmtree(name)

    shutil.rmtree(path, onerror=again)


def remove(ident: str, wait_s: float) -> None:
    """Removes a session that has stopped, or is about to: BusyError when it still runs after
    `wait_s`."""
    directory = sessions() / ident
    until, pause = time.monotonic() + wait_s, _PAUSE_S
    try:
        while (lock := _lock(directory, make=True)) is None:
            if time.monotonic() >= until:
                raise errors.BusyError("the session is running (fumehood stop ends it)")
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_S_MAX)
        try:
            gone = directory.with_name(_REMOVING + ident)
            directory.rename(gone)
            _drop_names(ident)
            with contextlib.suppress(OSError):
                (install.runtime() / (ident + ".sock")).unlink()
            _remove_tree(gone)
        finally:
            os.close(lock)
    except FileNotFoundError:
        raise errors.NotFoundError("there is no session %s" % ident) from None
    except OSError as error:
        if isinstance(error, errors.Error):
            raise
        raise errors.from_os(error, "cannot remove %s" % directory) from error
