"""AsyncSession: Session for asyncio, with the same names.

    async with fumehood.AsyncSession() as session:
        result = await session.run("6 * 7")
        async for event in session.stream("for i in range(3): print(i)"):
            print(event.text, end="")

It belongs to the event loop in which it was started. What can take long on this machine (starting a
keeper, removing a directory) is done by a thread of the loop's executor. A task that is cancelled
while it waits for a cell interrupts the cell.
"""
from __future__ import annotations

import asyncio
import inspect
import os
import weakref
from types import TracebackType
from typing import (Any, AsyncIterator, Awaitable, Callable, Dict, Iterable, List, Mapping,
                    Optional, Sequence, Tuple, Type, TypeVar, Union)

from . import asking, calls, errors, start
from .aio_asking import AsyncAsking
from .aio_channel import AsyncChannel
from .aio_files import AsyncFiles
from .answer import Answer, Line
from .channel import Channel
from .events import Tail, request, with_blobs
from .result import Collector, Event, FileChange, Output, Result
from .run import Handlers, answers, blobs_of
from .session import SessionBase, _drop, home_of, options
from .start import PathLike
from .wire import Answer as Reply, Feed

T = TypeVar("T")
AsyncInput = Union[str, Iterable[str], "asyncio.Queue[Optional[str]]",
                   Callable[[str, bool], Union[Optional[str], Awaitable[Optional[str]]]]]


async def _in_thread(home: start.Home, begin: Callable[[], start.Begun], removes: bool
                     ) -> start.Begun:
    """Starts or opens a session. When the wait is cancelled, nothing of it stays."""
    loop = asyncio.get_running_loop()
    future = loop.run_in_executor(None, begin)

    def give_back(done: asyncio.Future[start.Begun]) -> None:
        if not done.cancelled() and done.exception() is None:
            begun = done.result()
            ends = removes and begun.created
            loop.run_in_executor(None, home.finish, begun.channel, begun.place, ends, ends)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        future.add_done_callback(give_back)
        raise


class AsyncRun:
    """A cell under way: iterate over its events, or wait for its result()."""

    def __init__(self, session: AsyncSession, answer: Reply, feed: Feed,
                 input: Optional[AsyncInput], handlers: Handlers) -> None:
        self._session, self._answer, self._feed = session, answer, feed
        self._queue = input if isinstance(input, asyncio.Queue) else None
        others: Any = None if isinstance(input, asyncio.Queue) else input
        self._input = None if others is None else answers(others)
        self._handlers, self._collector = handlers, Collector()
        self._finished = False

    async def cell(self) -> str:
        """The cell's id. Raises what the run was refused with."""
        await self._session._channel.wait(self._answer.done)
        return str(self._answer.take()["cell"])

    @property
    def done(self) -> bool:
        return self._finished

    async def interrupt(self) -> bool:
        return await self._session.interrupt(await self.cell())

    async def _next(self, timeout: Optional[float] = None) -> Optional[Event]:
        feed, channel = self._feed, self._session._channel
        while not self._finished:
            if not await channel.wait(lambda: bool(feed.events) or feed.ended, timeout):
                raise errors.TimedOutError("the cell has not ended within %g s" % (timeout or 0))
            if not feed.events:
                self._answer.take()  # refused
                raise errors.InternalError("the cell ended without a word")
            event = Event(feed.events.popleft())
            if blobs_of(event):
                event = await self._session._with_blobs(event)
            self._finished = event.type == "finished"
            if self._collector.take(event):
                return event
        return None

    async def _hear(self, event: Event) -> None:
        for heard in self._handlers.tell(event, self._collector):
            if inspect.isawaitable(heard):
                await heard
        if event.type != "input_request":
            return
        if self._queue is not None:
            text = await self._queue.get()
        elif self._input is not None:
            found: Any = self._input(str(event.get("prompt", "")), bool(event.get("password")))
            text = await found if inspect.isawaitable(found) else found
        else:
            return
        try:
            await self._session.input(text)
        except errors.NotFoundError:
            pass  # the cell was interrupted meanwhile

    async def __aiter__(self) -> AsyncIterator[Event]:
        try:
            while (event := await self._next()) is not None:
                await self._hear(event)
                yield event
        except BaseException:
            self.close()
            raise

    async def result(self, timeout: Optional[float] = None) -> Result:
        """Waits for the end. After a TimedOutError it can be waited for again."""
        try:
            while (event := await self._next(timeout)) is not None:
                await self._hear(event)
        except errors.TimedOutError:
            raise
        except BaseException:
            self.close()
            raise
        return self._collector.result

    def close(self) -> None:
        """Interrupts the cell if it has not ended; does not wait."""
        channel = self._session._channel
        if self._finished or channel.link.failure is not None:
            return

        async def interrupt() -> None:
            try:
                channel.post(calls.interrupt(await self.cell()).body)
            except errors.Error:
                pass
        if self._answer.done():
            try:
                channel.post(calls.interrupt(str(self._answer.take()["cell"])).body)
            except errors.Error:
                pass
        else:
            task = asyncio.ensure_future(interrupt())
            self._session._tasks.add(task)
            task.add_done_callback(self._session._tasks.discard)

    async def __aenter__(self) -> AsyncRun:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        self.close()


class AsyncSession(SessionBase):
    """A session in an event loop; parameters as Session has them. Start it by `async with`, or by
    `await AsyncSession(…).start()`."""

    _channel: AsyncChannel

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
        home = self._home = home_of(daemon, token)
        self._begin: Callable[[], start.Begun] = (
            (lambda: home.begin_named(made)) if name is not None else (lambda: home.begin(made)))
        self._stops, self._removes = name is None, name is None and not keep
        self._started = False
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, session: str, *, running_only: bool = False, daemon: Optional[str] = None,
                   token: Optional[str] = None) -> AsyncSession:
        """The session with this name, id, or unique beginning of an id. close() leaves it."""
        home = home_of(daemon, token)
        return await cls._made(home, lambda: home.find(session, running_only), False)

    @classmethod
    async def _made(cls, home: start.Home, begin: Callable[[], start.Begun], ends: bool
                    ) -> AsyncSession:
        made = cls()
        made._home, made._begin, made._stops, made._removes = home, begin, ends, ends
        return await made.start()

    async def start(self) -> AsyncSession:
        """Starts it, unless it has been; returns itself."""
        if self._started:
            return self
        self._started = True
        begun = await _in_thread(self._home, self._begin, self._removes)
        self._hello = begun.channel.take_hello()
        self._channel, self._place, self.created = (
            AsyncChannel(begun.channel), begun.place, begun.created)
        self.files = AsyncFiles(self)
        self._finalizer = weakref.finalize(self, _drop, self._channel, self.id, self._home,
                                           self._removes, os.getpid())
        return self

    async def __aenter__(self) -> AsyncSession:
        return await self.start()

    async def __aexit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self.close()

    async def _connect(self) -> AsyncChannel:
        home, place = self._home, self._place

        def connect() -> Channel:
            channel = home.connect(place, True)
            channel.take_hello()
            return channel
        return AsyncChannel(await asyncio.to_thread(connect))

    # ---- running code

    def start_run(self, code: str, *, timeout: Optional[float] = None,
                  max_chars: int = calls.TEXT_CHARS, marks: bool = False,
                  input: Optional[AsyncInput] = None, cell: Optional[str] = None,
                  metadata: Optional[Mapping[str, Any]] = None, file: Optional[str] = None,
                  argv: Optional[Sequence[str]] = None, atomic: bool = False,
                  try_only: bool = False, restore_files: Optional[bool] = None,
                  on_event: Optional[Callable[[Event], object]] = None,
                  on_stdout: Optional[Callable[[str], object]] = None,
                  on_stderr: Optional[Callable[[str], object]] = None,
                  on_output: Optional[Callable[[Output], object]] = None) -> AsyncRun:
        """Sends a cell and does not wait."""
        body = calls.run(code, timeout=timeout, max_chars=max_chars, marks=marks,
                       stdin=input is not None, cell=cell, metadata=metadata, file=file, argv=argv,
                       atomic=atomic, try_only=try_only, restore_files=restore_files)
        answer, feed = self._channel.post_run(body)
        return AsyncRun(self, answer, feed, input,
                        Handlers(on_event, on_stdout, on_stderr, on_output))

    async def run(self, code: str, *, timeout: Optional[float] = None,
                  max_chars: int = calls.TEXT_CHARS, marks: bool = False,
                  input: Optional[AsyncInput] = None, cell: Optional[str] = None,
                  metadata: Optional[Mapping[str, Any]] = None, file: Optional[str] = None,
                  argv: Optional[Sequence[str]] = None, atomic: bool = False,
                  try_only: bool = False, restore_files: Optional[bool] = None,
                  on_event: Optional[Callable[[Event], object]] = None,
                  on_stdout: Optional[Callable[[str], object]] = None,
                  on_stderr: Optional[Callable[[str], object]] = None,
                  on_output: Optional[Callable[[Output], object]] = None) -> Result:
        """Runs code as one cell and waits for its end; parameters as Session.run() has them. What
        is called may be a coroutine function."""
        return await self.start_run(
            code, timeout=timeout, max_chars=max_chars, marks=marks, input=input, cell=cell,
            metadata=metadata, file=file, argv=argv, atomic=atomic, try_only=try_only,
            restore_files=restore_files, on_event=on_event, on_stdout=on_stdout,
            on_stderr=on_stderr, on_output=on_output).result()

    def stream(self, code: str, *, timeout: Optional[float] = None,
               max_chars: int = calls.TEXT_CHARS, input: Optional[AsyncInput] = None) -> AsyncRun:
        """Runs code: `async for event in session.stream(code)`."""
        return self.start_run(code, timeout=timeout, max_chars=max_chars, input=input)

    async def interrupt(self, cell: Optional[str] = None) -> bool:
        return await self._ask(calls.interrupt(cell))

    async def input(self, text: Optional[str]) -> None:
        await self._ask(calls.answer(text))

    # ---- a model

    def start_ask(self, instruction: str, *, on_line: Optional[Callable[[Line], object]] = None,
                  **options: Any) -> AsyncAsking:
        """An ask that begins when it is iterated or waited for."""
        if self.closed:
            raise errors.GoneError("the session is closed")
        asked = asking.body(instruction, session=self.id, **options)
        return AsyncAsking(lambda: self._home.asking(asked), on_line)

    async def ask(self, instruction: str, *, on_line: Optional[Callable[[Line], object]] = None,
                  **options: Any) -> Answer:
        """Has a model write programs for the instruction, and runs them; see Session.ask(). A
        cancelled task ends model and programs."""
        return await self.start_ask(instruction, on_line=on_line, **options).result()

    # ---- asking

    async def _ask(self, request: calls.Request[T]) -> T:
        return request.read(await self._channel.call(request.body))

    async def complete(self, code: str, cursor: Optional[int] = None) -> calls.Completion:
        return await self._ask(calls.complete(code, cursor))

    async def inspect(self, code: str, cursor: Optional[int] = None, *, source: bool = False
                      ) -> calls.Inspection:
        return await self._ask(calls.inspect(code, cursor, source))

    async def variables(self, pattern: Optional[str] = None, *, limit: int = 200
                        ) -> calls.Variables:
        return await self._ask(calls.variables(pattern, limit))

    async def text(self, cell: str, *, max_chars: int = calls.TEXT_CHARS, marks: bool = False
                   ) -> str:
        return await self._ask(calls.text(cell, max_chars, marks))

    async def outputs(self, section: Optional[str] = None, *, max_chars: int = calls.TEXT_CHARS,
                      marks: bool = False) -> Dict[str, str]:
        return await self._ask(calls.outputs(section, max_chars, marks))

    async def images(self, since: int = 0, *, section: Optional[str] = None
                     ) -> Tuple[List[Mapping[str, Any]], int]:
        return await self._ask(calls.images(since, section))

    async def changes(self, since: int = 0, *, cell: Optional[str] = None
                      ) -> Tuple[List[FileChange], int]:
        return await self._ask(calls.changes(since, cell))

    async def status(self) -> calls.Status:
        return await self._ask(calls.status())

    async def events(self, since: int = 0, *, follow: bool = False, cell: Optional[str] = None,
                     lossy: bool = False) -> AsyncIterator[Event]:
        """The events after number `since`; see Session.events()."""
        channel = await self._connect()
        try:
            if not follow or cell is not None:
                channel.renew = None  # it would go on with all events, for ever
            tail = Tail(channel.link)
            to = int((await channel.call(request(since, follow, cell, lossy)))["to"])
            last = None if follow else channel.post({"op": "status"})
            stopped = False
            while not stopped:
                await channel.wait(
                    lambda: bool(tail.events) or (last is not None and last.done()))
                if not tail.events:
                    return
                event = tail.events.popleft()
                stopped = follow and event.type == "stopped"
                if follow or event.seq <= to:
                    yield event
        finally:
            channel.close()

    # ---- the record

    async def section(self, title: str, *, level: int = 2) -> None:
        await self._ask(calls.section(title, level))

    async def note(self, text: str, *, cell_type: str = "markdown",
                   metadata: Optional[Mapping[str, Any]] = None) -> str:
        return await self._ask(calls.note(text, cell_type, metadata))

    async def notebook(self, *, rolled_back: Optional[str] = None) -> Dict[str, Any]:
        return await self._ask(calls.notebook(rolled_back))

    async def save(self, path: Optional[PathLike] = None) -> str:
        name: str = await self._ask(calls.save())
        saved = str(self.directory / name)
        return await asyncio.to_thread(start.copy_file, saved, path) if path is not None else saved

    # ---- the session

    async def limits(self, **values: Any) -> Dict[str, Mapping[str, Any]]:
        return await self._ask(calls.limits(values))

    async def policy(self, **values: Any) -> Dict[str, Any]:
        return await self._ask(calls.policy(values))

    async def checkpoint(self, name: str, *, files: Optional[bool] = None) -> calls.Checkpoint:
        """Keeps the variables as they are now, under this name; `files`: those of the workspace,
        too (None: as the workspace is the session's own)."""
        return await self._ask(calls.checkpoint(name, files))

    async def checkpoints(self) -> calls.Checkpoints:
        """The states that are held: named ones, and those after the last cells."""
        return await self._ask(calls.checkpoints())

    async def drop_checkpoint(self, name: str) -> None:
        """Lets a named checkpoint go."""
        await self._ask(calls.drop_checkpoint(name))

    async def rollback(self, to: Optional[str] = None, *, files: Optional[bool] = None
                       ) -> calls.Rollback:
        """Returns to a checkpoint, by its name, or to before a cell; None: before the last one."""
        return await self._ask(calls.rollback(to, files))

    async def reset(self) -> calls.Rollback:
        """An empty session: no variables, the same record."""
        return await self._ask(calls.reset())

    async def fork(self, name: Optional[str] = None, *, at: Optional[str] = None) -> AsyncSession:
        """Another session that goes on from here, or from where rollback(at) would return to.
        close() stops it, and removes it unless it has a name."""
        ident, home = await self._ask(calls.fork(name, at)), self._home
        return await self._made(home, lambda: home.find(ident), name is None)

    async def restart(self) -> None:
        await self._ask(calls.restart())

    async def stop(self, *, drain: bool = False) -> None:
        """Ends the session. It can be opened again, unless close() removes it."""
        try:
            await self._ask(calls.stop(drain))
        finally:
            self._stops = False

    async def remove(self) -> None:
        """Stops the session and removes its record."""
        self._stops = self._removes = True
        await self.close()

    async def close(self) -> None:
        """Ends what began with this object. May be called twice."""
        if not self._started or not hasattr(self, "_channel"):
            return
        self._finalizer.detach()
        if self._channel.forked:
            return
        stops, removes = self._stops, self._removes
        self._stops = self._removes = False
        try:
            if stops and not self._channel.closed and isinstance(self._home, start.Here):
                try:
                    await self._channel.call({"op": "stop"}, start.STOP_S_MAX)
                except errors.GoneError:
                    pass
        finally:
            self._channel.close()
            await asyncio.shield(
                asyncio.to_thread(self._home.after, self.id, stops, removes))

    @property
    def closed(self) -> bool:
        return not hasattr(self, "_channel") or self._channel.closed

    # ---- large values

    async def _with_blobs(self, event: Event) -> Event:
        found: Dict[str, bytes] = {}
        for item in blobs_of(event):
            data = bytearray()
            while True:
                part, total = await self._ask(calls.blob(str(item["$blob"]), len(data)))
                data += part
                if len(data) >= total or not part:
                    break
            found[str(item["$blob"])] = bytes(data)
        return with_blobs(event, found)
