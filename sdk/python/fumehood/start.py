"""Starting sessions and finding the running ones: src/client/start.c and spare.c in Python.

A session's keeper is found by its socket and nothing else. What can be had of the session that the
pool keeps ready is taken from there (half a millisecond); else a directory is made and a keeper
started on it. The keeper is an orphan in a session of its own: it has no terminal, gets no Ctrl-C,
and is nobody's child to reap.

    connect ── somebody listens ──> hello ──> ready
       │                              └ the end instead: it was stopping. Again
       └─ nobody ──> spawn ──> hello ──> ready
                                 └ refused as busy: another keeper starts or ends. Again
"""
from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from typing import (Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Protocol, Sequence,
                    Tuple, Union)

from . import asking, errors, install, python_path, store
from .channel import Channel

CONTEND_S = 20
_LAST_WORDS = 160
# What a box is built with: a session that has one of these never waits ready.
_LIMITS_OF_BOX = ("processes", "files", "file_bytes", "tmp_bytes")
_SECONDS = ("wall_s", "cpus", "cpu_s")
PathLike = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


@dataclass
class Options:
    """What a new session is to be. None everywhere: what the settings say, else the default."""

    name: Optional[str] = None
    workspace: Optional[PathLike] = None
    workspace_mode: str = "rw"
    python: Optional[str] = None
    timeout: Optional[float] = None
    tier: str = "full"
    tier_floor: Optional[str] = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    allow_net: Sequence[str] = ()
    read: Sequence[PathLike] = ()
    write: Sequence[PathLike] = ()
    env: Union[Mapping[str, Optional[str]], Sequence[str]] = ()
    durability: Optional[str] = None
    notebook_metadata: Optional[Mapping[str, Any]] = None
    spare: Optional[bool] = None
    ends_with_client: bool = True


class Home(Protocol):
    """Where sessions are: on this machine (Here), or with a daemon (daemon.Daemon)."""

    def begin(self, options: Options) -> Begun:
        """A new session."""

    def begin_named(self, options: Options) -> Begun:
        """The session of the name, or a new one."""

    def find(self, session: str, running_only: bool = False) -> Begun:
        """A session that exists."""

    def connect(self, place: store.Place, running_only: bool = False) -> Channel:
        """Another connection to a session; its hello may not have been read."""

    def finish(self, channel: Channel, place: store.Place, stops: bool, removes: bool) -> None:
        """Closes the connection; stops the session, and removes it, if that is wanted."""

    def after(self, ident: str, stops: bool, removes: bool) -> None:
        """The same when the connection is closed."""

    def asking(self, asked: Mapping[str, Any]) -> asking.Source:
        """Begins an ask (asking.body())."""


class Begun(NamedTuple):
    """A connection whose keeper has said hello."""

    channel: Channel
    place: store.Place
    created: bool


# ---------------------------------------------------------------------------------- the wishes


def check(options: Options) -> None:
    if options.tier not in ("full", "degraded", "none"):
        raise errors.UsageError("tier is full, degraded or none, not %s" % options.tier)
    if options.workspace_mode not in ("rw", "ro", "overlay"):
        raise errors.UsageError(
            "workspace_mode is rw, ro or overlay, not %s" % options.workspace_mode)
    if options.workspace is None and options.workspace_mode != "rw":
        raise errors.UsageError("workspace_mode %s needs a workspace" % options.workspace_mode)
    if options.durability not in (None, "process", "power"):
        raise errors.UsageError("durability is process or power, not %s" % options.durability)
    if options.timeout is not None and not options.timeout > 0:
        raise errors.UsageError("timeout is more than 0 seconds")
    for name in ("allow_net", "read", "write"):
        if isinstance(getattr(options, name), (str, bytes)):
            raise errors.UsageError("%s is a list, not one text" % name)


def _workspace(options: Options) -> Optional[str]:
    """The workspace's path, resolved as the C library does it."""
    if options.workspace is None:
        return None
    path = os.fsdecode(options.workspace)
    try:
        real = str(pathlib.Path(path).resolve(strict=True))
    except OSError as error:
        raise errors.from_os(error, "cannot use %s as workspace" % path) from error
    if not os.path.isdir(real):
        raise errors.InvalidError("the workspace %s is no directory" % real)
    return real


def policy_of(options: Options) -> Optional[Dict[str, Any]]:
    """The policy of all options together: what is named beside `policy` goes over it, as with the
    command line. A variable that is null takes its value from this process."""
    made: Dict[str, Any] = dict(options.policy)
    for key, given in (("net", options.allow_net), ("read", options.read),
                       ("write", options.write)):
        if given:
            made[key] = list(made.get(key) or ()) + [
                str(item) if key == "net" else os.path.abspath(os.fsdecode(item)) for item in given]
    if options.tier_floor is not None:
        made["tier_floor"] = options.tier_floor
    given_env: Mapping[str, Optional[str]] = options.env if isinstance(
        options.env, Mapping) else {name: None for name in options.env}
    if isinstance(made.get("env"), Mapping) or given_env:
        wanted = {**(made.get("env") or {}), **given_env}
        made["env"] = {name: os.environ[name] if value is None else value
                       for name, value in wanted.items()
                       if value is not None or name in os.environ}
    return made or None


def _limits_of(options: Options, settings: install.Settings, policy: Mapping[str, Any]
               ) -> Dict[str, Any]:
    made: Dict[str, Any] = {key: value for key, value in settings.limits.items()
                            if key not in policy}
    made["wall_s"] = settings.timeout if options.timeout is None else options.timeout
    made.update(options.limits)
    for key, value in made.items():
        if isinstance(value, float) and value.is_integer() and key not in _SECONDS:
            made[key] = int(value)
    if made["wall_s"] == int(made["wall_s"]):
        made["wall_s"] = int(made["wall_s"])
    return made


def _chosen(options: Options, settings: install.Settings) -> Dict[str, Any]:
    """The members that session.json and the request `start` have in common."""
    policy = policy_of(options)
    chosen: Dict[str, Any] = {}
    if options.name is not None:
        chosen["name"] = options.name
    if policy is not None:
        chosen["policy"] = policy
    chosen["limits"] = _limits_of(options, settings, policy or {})
    chosen["ends_with_client"] = options.ends_with_client
    chosen["durability"] = options.durability or settings.durability
    if options.notebook_metadata is not None:
        chosen["notebook"] = {"metadata": dict(options.notebook_metadata)}
    try:
        json.dumps(chosen, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise errors.UsageError("an option is no JSON: %s" % error) from None
    return chosen


# ------------------------------------------------------------------------------------ the spare


def _is_eligible(options: Options, settings: install.Settings, chosen: Mapping[str, Any]) -> bool:
    wanted = settings.spare if options.spare is None else options.spare
    return (wanted and options.workspace is None and options.tier == "full"
            and not set(chosen.get("policy", ())) - {"net"}
            and not set(_LIMITS_OF_BOX) & set(chosen["limits"]))


def _take_spare(settings: install.Settings, chosen: Mapping[str, Any]) -> Optional[Begun]:
    """The session that the pool has ready; None: the ordinary way. Only what that would do just the
    same is asked for here, so falling back is always right."""
    state = install.state()
    identity = "%s\n%s\n%s" % (settings.python, state, settings.version)
    name = hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]
    sock = store.connect("spare-%s.sock" % name)
    if sock is None:
        return None
    request = json.dumps({"op": "start", "session": chosen}, allow_nan=False)
    try:
        sock.sendall(request.encode("ascii") + b"\n")
    except OSError:
        sock.close()
        return None
    channel = Channel(sock)
    try:
        ident = str(channel.take_hello()["session"])
    except errors.Error:
        channel.close()
        return None
    except BaseException:
        channel.close()
        raise
    if not store.ID.match(ident):
        channel.close()
        raise errors.CorruptError("the keeper's hello has no session")
    place = store.Place(ident, chosen.get("name"), state / "sessions" / ident, chosen)
    if place.name is not None:
        try:
            store.give_name(place.name, ident, chosen["durability"] == "power")
        except BaseException:
            end(channel, place, remove=True)
            raise
    return Begun(channel, place, True)


# ----------------------------------------------------------------------------------- the keeper


def _spawn(directory: pathlib.Path) -> socket.socket:
    """Starts a keeper; returns our end of the connection. A shell of a moment stands between, so
    that the keeper is init's child and not ours."""
    program = str(install.keeper())
    ours, theirs = socket.socketpair()
    with theirs:
        log = os.open(directory / "keeper.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND
                      | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", '"$0" --session "$1" --fd "$2" &',
                 program, str(directory), str(theirs.fileno())],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                pass_fds=(theirs.fileno(),), start_new_session=True)
        except BaseException as error:
            ours.close()
            if isinstance(error, OSError):
                raise errors.from_os(error, "cannot start %s" % program) from error
            raise
        finally:
            os.close(log)
    if done.returncode != 0:
        ours.close()
        raise errors.EngineError("cannot start %s" % program)
    return ours


def _last_words(directory: pathlib.Path, error: errors.Error) -> errors.Error:
    """The last line of keeper.log: the only words of a keeper that crashed."""
    try:
        lines = (directory / "keeper.log").read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    if not lines:
        return error
    return errors.make(error.code, "the keeper ended at its start: " + lines[-1][-_LAST_WORDS:])


def connect(place: store.Place, running_only: bool = False) -> Channel:
    """Connects to a session, starting a keeper when none runs."""
    until = time.monotonic() + CONTEND_S
    while True:
        sock, spawned = store.connect(place.id + ".sock"), False
        if sock is None and running_only:
            raise errors.NotFoundError("the session %s is not running" % place.id)
        if sock is None:
            sock, spawned = _spawn(place.directory), True
        channel = Channel(sock)
        try:
            hello = channel.take_hello()
            if hello.get("protocol") != 1:
                raise errors.UnsupportedError(
                    "the keeper does not speak version 1 of the protocol; stop the session with "
                    "the version of Fumehood that started it")
            return channel
        except errors.Error as error:
            channel.close()
            # Of several keepers that start at once one takes the lock; one that somebody else has
            # started and that is about to end tells us what was the answer to him.
            again = error.code == "busy" if spawned else error.code in (
                "gone", "engine", "sandbox", "not_found", "io")
            if not again or time.monotonic() >= until:
                raise _last_words(place.directory, error) if (
                    spawned and error.code == "gone") else error
            time.sleep(0.01)
        except BaseException:
            channel.close()
            raise


def begin(options: Options) -> Begun:
    """A new session."""
    check(options)
    workspace = _workspace(options)
    if workspace is not None:
        python_path.check_workspace(
            options.python or os.environ.get("FUMEHOOD_PYTHON") or "python3", workspace)
    settings = install.settings(options.python)
    chosen = _chosen(options, settings)
    if options.name is not None:
        store.check_name(options.name)
    if _is_eligible(options, settings, chosen):
        spare = _take_spare(settings, chosen)
        if spare is not None:
            return spare
    place = store.create({**chosen, "python": settings.python, "tier": options.tier}, workspace,
                         options.workspace_mode)
    try:
        return Begun(connect(place), place, True)
    except BaseException:
        _remove_quietly(place, 5)
        raise


def find(session: str, running_only: bool = False) -> Begun:
    """A session that exists."""
    place = store.find(session)
    channel = connect(place, running_only)
    try:
        # The hello of a session that runs already was written when it became ready.
        seq = channel.call({"op": "status"}).get("last_seq")
        channel.link.last_seq = max(channel.link.last_seq, int(seq or 0))
    except BaseException:
        channel.close()
        raise
    return Begun(channel, place, False)


def _path_of(workspace: Mapping[str, Any]) -> bytes:
    """The workspace of a session.json, as bytes."""
    if "path_base64" in workspace:
        return base64.b64decode(workspace["path_base64"])
    return os.fsencode(str(workspace.get("path") or ""))


def _differs(place: store.Place, options: Options) -> Optional[str]:
    """The first option that the session was not made with."""
    config = place.config
    workspace = config.get("workspace") or {}
    if options.workspace is not None:
        if os.fsencode(_workspace(options) or "") != _path_of(workspace):
            return "workspace"
        if options.workspace_mode != workspace.get("mode", "rw"):
            return "workspace_mode"
    if options.python is not None:
        if workspace.get("path"):
            python_path.check_workspace(options.python, str(workspace["path"]))
        if install.settings(options.python).python != config.get("python"):
            return "python"
    if options.tier != "full" and options.tier != config.get("tier", "full"):
        return "tier"
    if options.durability is not None and options.durability != config.get("durability"):
        return "durability"
    policy = policy_of(options)
    if policy is not None and policy != config.get("policy"):
        return "policy"
    for name, value in options.limits.items():
        if (config.get("limits") or {}).get(name) != value:
            return "limits"
    return None


def begin_named(options: Options) -> Begun:
    """The session of this name, or a new one: it lives on."""
    assert options.name is not None
    for _ in range(3):
        try:
            place = store.find(options.name)
        except errors.NotFoundError:
            try:
                return begin(options)
            except errors.DuplicateError:  # someone else has made it just now
                continue
        check(options)
        option = _differs(place, options)
        if option:
            raise errors.DuplicateError(
                "the session %s exists with another %s; leave the option out or take another name"
                % (options.name, option))
        return find(place.id)
    raise errors.BusyError("the session %s is made and removed again and again" % options.name)


# -------------------------------------------------------------------------------------- the end

STOP_S_MAX = 30
REMOVE_S_MAX = 10


def _remove_quietly(place: store.Place, wait_s: float) -> None:
    try:
        store.remove(place.id, wait_s)
    except errors.Error:
        pass


def stop(channel: Channel) -> None:
    """Stops the session; one that is gone already has stopped."""
    try:
        channel.call({"op": "stop"}, STOP_S_MAX)
    except errors.GoneError:
        pass


def end(channel: Channel, place: store.Place, remove: bool) -> None:
    """Stops the session, and removes it if that is wanted."""
    try:
        stop(channel)
    finally:
        channel.close()
        if remove:
            store.remove(place.id, REMOVE_S_MAX)


class Here:
    """The sessions of this machine, in the directory of this moment."""

    def __init__(self) -> None:
        self._base = str(store.sessions())

    def begin(self, options: Options) -> Begun:
        return begin(options)

    def begin_named(self, options: Options) -> Begun:
        return begin_named(options)

    def find(self, session: str, running_only: bool = False) -> Begun:
        return find(session, running_only)

    def connect(self, place: store.Place, running_only: bool = False) -> Channel:
        return connect(place, running_only)

    def finish(self, channel: Channel, place: store.Place, stops: bool, removes: bool) -> None:
        try:
            if stops and not channel.closed:
                stop(channel)
        finally:
            channel.close()
            self.after(place.id, stops, removes)

    def after(self, ident: str, stops: bool, removes: bool) -> None:
        if not removes or str(store.sessions()) != self._base:
            return
        try:
            store.remove(ident, REMOVE_S_MAX)
        except errors.NotFoundError:
            pass

    def asking(self, asked: Mapping[str, Any]) -> asking.Source:
        return asking.Child(asked)


# Sessions that nobody has closed: (id, what removes it). A keeper ends by itself then; what it has
# left is removed when the next session ends.
abandoned: List[Tuple[str, Callable[[], None]]] = []


def sweep() -> None:
    """Removes what was left by sessions that nobody has closed."""
    for _ in range(len(abandoned)):
        try:
            ident, remove = abandoned.pop()
        except IndexError:
            return
        try:
            remove()
        except errors.BusyError:
            abandoned.insert(0, (ident, remove))
        except errors.Error:
            pass


def copy_file(source: str, to: PathLike) -> str:
    """A copy at another place, whole or not at all; returns its path."""
    path = os.fsdecode(to)
    if os.path.isdir(path):
        path = os.path.join(path, os.path.basename(source))
    new = "%s.%d.tmp" % (path, os.getpid())
    try:
        try:
            shutil.copyfile(source, new)
            os.replace(new, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(new)
            raise
    except OSError as error:
        raise errors.from_os(error, "cannot write %s" % path) from error
    return path
