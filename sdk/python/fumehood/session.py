"""Session: a sandboxed, stateful Python that is used like an object.

    with fumehood.Session() as session:
        session.run("x = 6")
        print(session.run("x * 7").result)     # 42

A session without a name lasts as long as this object: close() stops it and removes it (keep=True:
its record stays). One with a name lives on: it is made when there is none of that name, else
opened.

Any thread may call anything at any time. Cells of one session run one after the other; interrupt()
and input() from another thread reach the one that runs.
"""
from __future__ import annotations

import base64
import os
import pathlib
import threading
import weakref
from types import TracebackType
from typing import (Any, Callable, Dict, Iterator, List, Mapping, Optional, Protocol, Sequence,
                    Tuple, Type, TypeVar, Union)

from . import asking, calls, errors, start, store
from .answer import Answer, Line
from .channel import Channel
from .files import Files
from .result import Event, FileChange, Output, Result
from .run import Handlers, Input, Run, blobs_of
from .start import PathLike

T = TypeVar("T")


class Closable(Protocol):
    """Channel and AsyncChannel."""

    @property
    def closed(self) -> bool: ...

    def close(self) -> None: ...


def _drop(channel: Closable, ident: str, home: start.Home, removes: bool, owner: int) -> None:
    """The session object has gone without close(): its connection goes, the keeper then ends, and
    what it leaves is removed later."""
    if os.getpid() != owner or channel.closed:
        return
    channel.close()
    if removes:
        start.abandoned.append((ident, lambda: home.after(ident, True, True)))


def home_of(daemon: Optional[str], token: Optional[str]) -> start.Home:
    """Where the sessions are that these parameters mean."""
    if daemon is None:
        if token is not None:
            raise errors.UsageError("a token is for a daemon: give its address as `daemon`")
        return start.Here()
    from .daemon import Daemon

    return Daemon(daemon, token)


class SessionBase:
    """What Session and AsyncSession have in common: which session it is."""

    _place: store.Place
    _hello: Mapping[str, Any]
    _home: start.Home
    _removes = False
    _stops = False

    @property
    def id(self) -> str:
        return self._place.id

    @property
    def name(self) -> Optional[str]:
        return self._place.name

    @property
    def directory(self) -> pathlib.Path:
        """Where its journal, notebook and images are. Of a daemon on another machine: there."""
        return self._place.directory

    @property
    def tier(self) -> str:
        """What holds it: "full", "degraded" or "none"."""
        return str(self._hello.get("tier"))

    @property
    def workspace(self) -> pathlib.Path:
        """The directory it works in, on this machine."""
        place = self._place.config.get("workspace") or {}
        if not isinstance(place, dict):  # of a daemon
            return pathlib.Path(place)
        if "path_base64" in place:
            return pathlib.Path(os.fsdecode(base64.b64decode(place["path_base64"])))
        return pathlib.Path(place.get("path") or self.directory / "workspace")

    def __repr__(self) -> str:
        return "%s(%s)" % (type(self).__name__, repr(self.name) if self.name else self.id)


def options(name: Optional[str], keep: bool, given: Dict[str, Any]) -> start.Options:
    """The parameters of a session as Options."""
    values = {key: value for key, value in given.items() if value is not None}
    return start.Options(name=name, ends_with_client=name is None and not keep, **values)


class Session(SessionBase):
    """A session. See the parameters' names in `fumehood run --help` and fumehood-policy(5).

    name              an alias: the session of this name is used, or made, and lives on
    workspace         the directory to work in; None: a private one
    workspace_mode    "rw", "ro", or "overlay" (changes are kept aside)
    python            an executable, an environment's directory, or a name on PATH
    timeout           seconds that a cell may run
    memory            bytes of all its processes together; `limits` has the others by their names
    tier, tier_floor  "full", "degraded" or "none"; the weakest that is accepted
    allow_net         hosts that may be reached, such as "pypi.org" or "example.org:443"
    read, write       paths of this machine to be shown
    env               variables: a mapping, or names that are taken from this process
    policy            a policy as fumehood-policy(5) has it; the options above go over it
    durability        "process" or "power"
    keep              the record stays when the session ends
    daemon, token     the address of a daemon that shall have the session (daemon.py), and the
                      token for it
    """

    def __init__(self, name: Optional[str] = None, *, workspace: Optional[PathLike] = None,
                 workspace_mode: str = "rw", python: Optional[str] = None,
                 timeout: Optional[float] = None, memory: Optional[int] = None,
                 limits: Optional[Mapping[str, Any]] = None, tier: str = "full",
                 tier_floor: Optional[str] = None, allow_net: Sequence[str] = (),
                 read: Sequence[PathLike] = (), write: Sequence[PathLike] = (),
                 env: Union[Mapping[str, Optional[str]], Sequence[str]] = (),
                 policy: Optional[Mapping[str, Any]] = None, durability: Optional[str] = None,
                 notebook_metadata: Optional[Mapping[str, Any]] = None,
                 spare: Optional[bool] = None, keep: bool = False,
                 daemon: Optional[str] = None, token: Optional[str] = None) -> None:
        wanted = dict(limits or {})
        if memory is not None:
            wanted["memory_bytes"] = memory
        made = options(name, keep, dict(
            workspace=workspace, workspace_mode=workspace_mode, python=python, timeout=timeout,
            limits=wanted, tier=tier, tier_floor=tier_floor, allow_net=allow_net, read=read,
            write=write, env=env, policy=policy, durability=durability,
            notebook_metadata=notebook_metadata, spare=spare))
        self._home = home_of(daemon, token)
        begun = self._home.begin_named(made) if name is not None else self._home.begin(made)
        self._take(begun, stops=name is None, removes=name is None and not keep)

    @classmethod
    def open(cls, session: str, *, running_only: bool = False, daemon: Optional[str] = None,
             token: Optional[str] = None) -> Session:
        """The session with this name, id, or unique beginning of an id. One that has stopped is
        reopened: its journal and notebook go on, its interpreter is new. close() leaves it."""
        made = cls.__new__(cls)
        made._home = home_of(daemon, token)
        made._take(made._home.find(session, running_only), stops=False, removes=False)
        return made

    def _take(self, begun: start.Begun, stops: bool, removes: bool) -> None:
        self._channel, self._place, self.created = begun
        self._hello = self._channel.take_hello()
        self._stops, self._removes = stops, removes
        self._closing = threading.Lock()
        self.files = Files(self)
        self._finalizer = weakref.finalize(self, _drop, self._channel, self.id, self._home,
                                           removes, os.getpid())

    def _connect(self) -> Channel:
        """Another connection to the same session."""
        return self._home.connect(self._place, running_only=True)

    # ---- running code

    def start_run(self, code: str, *, timeout: Optional[float] = None,
                  max_chars: int = calls.TEXT_CHARS, marks: bool = False,
                  input: Optional[Input] = None, cell: Optional[str] = None,
                  metadata: Optional[Mapping[str, Any]] = None, file: Optional[str] = None,
                  argv: Optional[Sequence[str]] = None, atomic: bool = False,
                  try_only: bool = False, restore_files: Optional[bool] = None,
                  on_event: Optional[Callable[[Event], object]] = None,
                  on_stdout: Optional[Callable[[str], object]] = None,
                  on_stderr: Optional[Callable[[str], object]] = None,
                  on_output: Optional[Callable[[Output], object]] = None) -> Run:
        """Sends a cell and does not wait: the Run is waited for, or iterated. Parameters: run()."""
        body = calls.run(code, timeout=timeout, max_chars=max_chars, marks=marks,
                       stdin=input is not None, cell=cell, metadata=metadata, file=file, argv=argv,
                       atomic=atomic, try_only=try_only, restore_files=restore_files)
        answer, feed = self._channel.post_run(body)
        return Run(self, answer, feed, input, Handlers(on_event, on_stdout, on_stderr, on_output))

    def run(self, code: str, *, timeout: Optional[float] = None, max_chars: int = calls.TEXT_CHARS,
            marks: bool = False, input: Optional[Input] = None, cell: Optional[str] = None,
            metadata: Optional[Mapping[str, Any]] = None, file: Optional[str] = None,
            argv: Optional[Sequence[str]] = None, atomic: bool = False, try_only: bool = False,
            restore_files: Optional[bool] = None,
            on_event: Optional[Callable[[Event], object]] = None,
            on_stdout: Optional[Callable[[str], object]] = None,
            on_stderr: Optional[Callable[[str], object]] = None,
            on_output: Optional[Callable[[Output], object]] = None) -> Result:
        """Runs code as one cell and waits for its end. What the code does wrong is in the result.

        timeout    seconds it may run, at most those of the session; then it is interrupted
        max_chars  length of Result.text; 0: no text is made
        marks      that text in the marked form ([stdout], [execute_result_text], …)
        input      what answers input(): a function of (prompt, is_password), a queue, lines.
                   None: input() raises EOFError. An answer None is the end of the file
        cell       its id, unique in the session
        metadata   for the notebook's cell
        file       the script that the code is from, and argv its arguments
        atomic     a cell that does not end well is undone; try_only: every cell is, when it has
                   ended. restore_files: files of the workspace with it
        on_…       called with each event, text or output, as it comes
        """
        return self.start_run(
            code, timeout=timeout, max_chars=max_chars, marks=marks, input=input, cell=cell,
            metadata=metadata, file=file, argv=argv, atomic=atomic, try_only=try_only,
            restore_files=restore_files, on_event=on_event, on_stdout=on_stdout,
            on_stderr=on_stderr, on_output=on_output).result()

    def stream(self, code: str, *, timeout: Optional[float] = None,
               max_chars: int = calls.TEXT_CHARS, input: Optional[Input] = None) -> Run:
        """Runs code; iterate over the events as they come. `for event in session.stream(code)`."""
        return self.start_run(code, timeout=timeout, max_chars=max_chars, input=input)

    def interrupt(self, cell: Optional[str] = None) -> bool:
        """Interrupts the cell, or whatever runs; whether something was running."""
        return self._ask(calls.interrupt(cell))

    def input(self, text: Optional[str]) -> None:
        """Answers the prompt that waits; None: the end of the file."""
        self._ask(calls.answer(text))

    def _answer_prompt(self, text: Optional[str]) -> None:
        try:
            self._ask(calls.answer(text))
        except errors.NotFoundError:
            pass  # the cell was interrupted meanwhile: nobody waits any more

    # ---- a model

    def start_ask(self, instruction: str, *, on_line: Optional[Callable[[Line], object]] = None,
                  **options: Any) -> asking.Asking:
        """Begins an ask and does not wait: the Asking is iterated (its lines, as they come), or
        waited for."""
        if self.closed:
            raise errors.GoneError("the session is closed")
        asked = asking.body(instruction, session=self.id, **options)
        return asking.Asking(self._home.asking(asked), on_line)

    def ask(self, instruction: str, *, on_line: Optional[Callable[[Line], object]] = None,
            **options: Any) -> Answer:
        """Has a model write programs for the instruction, runs them, and answers with one whose
        outcome holds. The programs see the session's variables and files; the chosen one alone is
        then run in it. `on_line` is called with each line of doc/ask.md. Options: asking.body()."""
        return self.start_ask(instruction, on_line=on_line, **options).result()

    # ---- asking

    def _ask(self, request: calls.Request[T]) -> T:
        return request.read(self._channel.call(request.body))

    def complete(self, code: str, cursor: Optional[int] = None) -> calls.Completion:
        """What may stand at the cursor (in characters; None: at the end)."""
        return self._ask(calls.complete(code, cursor))

    def inspect(self, code: str, cursor: Optional[int] = None, *, source: bool = False
                ) -> calls.Inspection:
        """What the thing at the cursor is; `source`: with its source."""
        return self._ask(calls.inspect(code, cursor, source))

    def variables(self, pattern: Optional[str] = None, *, limit: int = 200) -> calls.Variables:
        """The variables, by name; the pattern has the wildcards *, ? and […]."""
        return self._ask(calls.variables(pattern, limit))

    def text(self, cell: str, *, max_chars: int = calls.TEXT_CHARS, marks: bool = False) -> str:
        """The text of a cell for a model."""
        return self._ask(calls.text(cell, max_chars, marks))

    def outputs(self, section: Optional[str] = None, *, max_chars: int = calls.TEXT_CHARS,
                marks: bool = False) -> Dict[str, str]:
        """The texts of a section's cells (None: of all) by the cells' ids, in order."""
        return self._ask(calls.outputs(section, max_chars, marks))

    def images(self, since: int = 0, *, section: Optional[str] = None
               ) -> Tuple[List[Mapping[str, Any]], int]:
        """Images that were displayed or written since event `since`, and the next `since`."""
        return self._ask(calls.images(since, section))

    def changes(self, since: int = 0, *, cell: Optional[str] = None
                ) -> Tuple[List[FileChange], int]:
        """What is different in the workspace since event `since`, and the next `since`."""
        return self._ask(calls.changes(since, cell))

    def status(self) -> calls.Status:
        return self._ask(calls.status())

    def events(self, since: int = 0, *, follow: bool = False, cell: Optional[str] = None,
               lossy: bool = False) -> Iterator[Event]:
        """The events after number `since`, of one cell or of all. `follow`: also those to come,
        until the session stops. It has a connection of its own, which ends with the iteration."""
        from .events import read

        return read(self._connect(), since, follow, cell, lossy)

    # ---- the record

    def section(self, title: str, *, level: int = 2) -> None:
        """Begins a section: a heading in the notebook, to which the cells behind it belong."""
        self._ask(calls.section(title, level))

    def note(self, text: str, *, cell_type: str = "markdown",
             metadata: Optional[Mapping[str, Any]] = None) -> str:
        """Puts a cell that is not run into the notebook; returns its id."""
        return self._ask(calls.note(text, cell_type, metadata))

    def notebook(self, *, rolled_back: Optional[str] = None) -> Dict[str, Any]:
        """The notebook, as nbformat reads it; cells that were rolled back: "omit" or "keep"."""
        return self._ask(calls.notebook(rolled_back))

    def save(self, path: Optional[PathLike] = None) -> str:
        """Waits until the notebook is saved; returns its path. `path`: a copy is made there."""
        saved = str(self.directory / self._ask(calls.save()))
        return start.copy_file(saved, path) if path is not None else saved

    # ---- the session

    def limits(self, **values: Any) -> Dict[str, Mapping[str, Any]]:
        """The limits: {name: {"value", "changes", "next"?}}. Those that are named are changed."""
        return self._ask(calls.limits(values))

    def policy(self, **values: Any) -> Dict[str, Any]:
        """The policy in force. `policy(net=[…])` allows other hosts from now on."""
        return self._ask(calls.policy(values))

    def checkpoint(self, name: str, *, files: Optional[bool] = None) -> calls.Checkpoint:
        """Keeps the variables as they are now, under this name; `files`: those of the workspace,
        too (None: as the workspace is the session's own)."""
        return self._ask(calls.checkpoint(name, files))

    def checkpoints(self) -> calls.Checkpoints:
        """The states that are held: named ones, and those after the last cells."""
        return self._ask(calls.checkpoints())

    def drop_checkpoint(self, name: str) -> None:
        """Lets a named checkpoint go."""
        self._ask(calls.drop_checkpoint(name))

    def rollback(self, to: Optional[str] = None, *, files: Optional[bool] = None) -> calls.Rollback:
        """Returns to a checkpoint, by its name, or to before a cell; None: before the last one."""
        return self._ask(calls.rollback(to, files))

    def reset(self) -> calls.Rollback:
        """An empty session: no variables, the same record."""
        return self._ask(calls.reset())

    def fork(self, name: Optional[str] = None, *, at: Optional[str] = None) -> Session:
        """Another session that goes on from here, or from where rollback(at) would return to.
        close() stops it, and removes it unless it has a name."""
        ident = self._ask(calls.fork(name, at))
        made = type(self).__new__(type(self))
        made._home = self._home
        made._take(made._home.find(ident), stops=name is None, removes=name is None)
        return made

    def restart(self) -> None:
        """A new interpreter: queued cells are cancelled, variables are gone."""
        self._ask(calls.restart())

    def stop(self, *, drain: bool = False) -> None:
        """Ends the session, now or after the cells that wait. It can be opened again, unless
        close() removes it."""
        try:
            self._ask(calls.stop(drain))
        finally:
            self._stops = False

    def remove(self) -> None:
        """Stops the session and removes its record."""
        self._stops = self._removes = True
        self.close()

    def close(self) -> None:
        """Ends what began with this object: see the head of this file. May be called twice."""
        with self._closing:
            self._finalizer.detach()
            if self._channel.forked:
                return
            stops, removes = self._stops, self._removes
            self._stops = self._removes = False
            self._home.finish(self._channel, self._place, stops, removes)
            start.sweep()

    @property
    def closed(self) -> bool:
        return self._channel.closed

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    # ---- large values

    def _with_blobs(self, event: Event) -> Event:
        """The event, with the values that were too large to come with it."""
        from .events import with_blobs

        found = {item["$blob"]: self._blob(str(item["$blob"])) for item in blobs_of(event)}
        return with_blobs(event, found)

    def _blob(self, sha256: str) -> bytes:
        data = bytearray()
        while True:
            part, total = self._ask(calls.blob(sha256, len(data)))
            data += part
            if len(data) >= total or not part:
                return bytes(data)


def sessions(daemon: Optional[str] = None, token: Optional[str] = None) -> List[store.Place]:
    """All sessions on this machine, or of a daemon, newest first."""
    if daemon is None:
        return store.everyone()
    from .daemon import Daemon

    return [store.Place(str(one["id"]), one.get("name"),
                        pathlib.Path(str(one.get("directory") or "")), one)
            for one in Daemon(daemon, token).sessions()]


def remove(session: str) -> None:
    """Removes the record of a session that is not running (BusyError if it is)."""
    store.remove(store.find(session).id, 0)
