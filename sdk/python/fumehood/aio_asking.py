"""AsyncAsking: an ask under way, for asyncio. As Asking (asking.py), with the same lines.

The child's stdout is read by the loop. A daemon's answer is read by a thread of the loop's
executor, which a cancelled task wakes by shutting the connection down.
"""
from __future__ import annotations

import asyncio
import inspect
from types import TracebackType
from typing import AsyncIterator, Callable, Optional, Type, Union

from . import errors
from .answer import Answer, Line
from .asking import LINE_BYTES_MAX, Child, Fold, Source, read

_POLL_S = 0.01
_STOP_POLLS = 500


class AsyncAsking:
    """An ask under way: iterate over its lines, or wait for its result(). It begins when it is
    waited for."""

    def __init__(self, begin: Callable[[], Union[Child, Source]],
                 on_line: Optional[Callable[[Line], object]] = None) -> None:
        self._begin, self._on_line = begin, on_line
        self._source: Union[Child, Source, None] = None
        self._reader: Optional[asyncio.StreamReader] = None
        self._transport: Optional[asyncio.ReadTransport] = None
        self._fold = Fold()
        self._ended = self._stopped = False

    async def _start(self) -> Union[Child, Source]:
        if self._source is None:
            future = asyncio.get_running_loop().run_in_executor(None, self._begin)
            try:
                self._source = await asyncio.shield(future)
            except asyncio.CancelledError:
                future.add_done_callback(_drop)
                raise
            if isinstance(self._source, Child):
                self._reader = asyncio.StreamReader(LINE_BYTES_MAX)
                protocol = asyncio.StreamReaderProtocol(self._reader)
                self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                    lambda: protocol, self._source.out)
        return self._source

    async def _read(self) -> Optional[bytes]:
        source = await self._start()
        if self._reader is None:
            return await asyncio.to_thread(source.next)
        try:
            return await self._reader.readline() or None
        except ValueError:
            raise errors.LimitError("fumehood ask printed a line of more than %d MiB"
                                    % (LINE_BYTES_MAX >> 20)) from None

    async def _next(self) -> Optional[Line]:
        if self._ended:
            return None
        data = await self._read()
        if data is None:
            await self.close(False)
            return None
        line = read(data)
        self._fold.take(line)
        if self._on_line:
            heard = self._on_line(line)
            if inspect.isawaitable(heard):
                await heard
        return line

    async def __aiter__(self) -> AsyncIterator[Line]:
        """The lines as they come, to the last. Leaving early cancels the ask."""
        try:
            while (line := await self._next()) is not None:
                yield line
        except BaseException:
            await self.close()
            raise
        if self._fold.answer is None:
            await self.result()

    async def result(self) -> Answer:
        """Waits for the end. Raises what kept it from an answer."""
        try:
            while await self._next() is not None:
                pass
        except BaseException:
            await self.close()
            raise
        if self._source is None:
            raise errors.make("cancelled", "the ask was cancelled")
        return self._fold.result(self._source, self._stopped)

    @property
    def done(self) -> bool:
        return self._ended

    def cancel(self) -> None:
        """Stops model and programs; result() then raises an Error with the code "cancelled"."""
        if not self._ended:
            self._stopped = True
            if self._source is not None:
                self._source.stop()
            else:
                self._ended = True

    async def close(self, stop: bool = True) -> None:
        """Ends it, if it has not ended."""
        if self._ended:
            return
        self._ended, self._stopped = True, self._stopped or stop
        source = self._source
        if source is None:
            return
        if not isinstance(source, Child):
            source.close()  # shuts a connection down: waits for nobody
            return
        if stop:
            source.stop()
        if self._transport is not None:
            self._transport.close()  # closes the pipe: what is still to be printed is not awaited
        await asyncio.shield(self._reap(source))

    async def _reap(self, child: Child) -> None:
        """Waits for the process without a thread; one that does not end is killed."""
        for _ in range(_STOP_POLLS):
            if child.process.poll() is not None:
                break
            await asyncio.sleep(_POLL_S)
        else:
            child.process.kill()
            child.process.wait()
        child.release()

    async def __aenter__(self) -> AsyncAsking:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self.close()


def _drop(begun: asyncio.Future[Union[Child, Source]]) -> None:
    """Nobody waits any more for what was being started."""
    if not begun.cancelled() and begun.exception() is None:
        begun.result().close()
