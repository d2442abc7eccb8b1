"""A connection in an asyncio event loop: what channel.py is for threads.

The loop tells when there is something to read; what waits is woken after each piece. Everything
here runs in the loop's thread, so nothing is locked; only connecting again, which blocks, is a
thread's work.

            lost, and somebody follows events             connected
  connected ─────────────────────────────> connecting ──────────────> connected
      │   lost, and nobody waits                ^  │ no daemon came back
      └────────────────────> at rest ───────────┘  └─────> failed: the next request tries again
                                     a request
"""
from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import Any, Callable, Deque, List, Mapping, Optional, Tuple

from . import errors
from .channel import AGAIN, CHANNELS, READ_BYTES, Channel
from .wire import Answer, Codec, Feed, Link


class AsyncChannel:
    """A connection to a keeper, taken over from a Channel that has had its hello."""

    def __init__(self, channel: Channel) -> None:
        self.link: Link = channel.link
        self._codec: Codec = channel.codec
        self._loop = asyncio.get_running_loop()
        sock, pieces = channel.detach()
        self._sock: Optional[socket.socket] = sock
        self._pieces: List[bytes] = list(pieces)
        self._checked = 0
        self._position = 1  # behind hello
        self._out: Deque[memoryview] = deque()
        self._writing = False
        self._waiters: List[asyncio.Future[None]] = []
        self.renew = channel.renew
        self._lost = False  # it can be renewed, and has to be before anything is sent
        self._renewing: Optional[asyncio.Future[Channel]] = None
        self._later: List[bytes] = []  # messages that wait for the next connection
        self.forked = False
        self._loop.add_reader(sock.fileno(), self._readable)
        CHANNELS.add(self)
        if self._pieces:
            self._loop.call_soon(self._taken_over)

    # ---- what sessions use

    async def call(self, body: Mapping[str, Any], timeout: Optional[float] = None
                   ) -> Mapping[str, Any]:
        answer = self.post(body)
        if not await self.wait(answer.done, timeout):
            raise errors.TimedOutError("the keeper did not answer within %g s" % (timeout or 0))
        return answer.take()

    def post(self, body: Mapping[str, Any]) -> Answer:
        self._may_send()
        answer = Answer()
        self._send(self.link.request(body, answer))
        return answer

    def post_run(self, body: Mapping[str, Any]) -> Tuple[Answer, Feed]:
        self._may_send()
        feed = Feed()
        answer = Answer(feed)
        payload = self.link.request(body, answer)
        if not self.link.subscribed:
            self._send(self.link.subscription())
            self.link.subscribed = True
        self._send(payload)
        return answer, feed

    async def wait(self, ready: Callable[[], bool], timeout: Optional[float] = None) -> bool:
        """Waits until ready() is true; False when the time is over before."""
        until = None if timeout is None else self._loop.time() + timeout
        while not ready():
            if self._lost and self.link.failure is None:
                self._begin_renewal()
            self._check()
            left = None if until is None else until - self._loop.time()
            if left is not None and left <= 0:
                return False
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            await asyncio.wait((waiter,), timeout=left)
        return True

    def close(self) -> None:
        self.link.fail(errors.GoneError("the session was closed"))
        sock, self._sock = self._sock, None
        if sock is None:
            return
        if not self._loop.is_closed():
            self._loop.remove_reader(sock.fileno())
            self._loop.remove_writer(sock.fileno())
            self._wake()
        sock.close()

    @property
    def closed(self) -> bool:
        return self._sock is None

    # ---- connecting again (channel.py: Channel._revive)

    def _lose(self) -> None:
        """Requests that had no answer are refused (code gone); cells that run go on."""
        failure = self.link.failure
        if self.renew is None or failure is None or failure.code != "gone":
            return
        self._lost = True
        self._out.clear()
        self._writing = False
        self.link.lost(failure)
        if self.link.follows:
            self._begin_renewal()

    def _begin_renewal(self) -> None:
        if self._renewing is None and self.renew is not None:
            self._renewing = self._loop.run_in_executor(None, self.renew)
            self._renewing.add_done_callback(self._renewed)

    def _renewed(self, done: asyncio.Future[Channel]) -> None:
        self._renewing = None
        error = None if done.cancelled() else done.exception()
        if self._sock is None:  # closed meanwhile
            if not done.cancelled() and error is None:
                done.result().close()
            return
        if done.cancelled() or error is not None:
            self._not_renewed(error)
        else:
            self._go_on(done.result())
        self._wake()

    def _not_renewed(self, error: Optional[BaseException]) -> None:
        """Who waits hears why; the next request tries again."""
        why = error if isinstance(error, errors.Error) else errors.GoneError(
            "the daemon could not be reached again: %s" % error)
        self.link.lost(why)
        self.link.fail(why)
        self._later.clear()

    def _go_on(self, fresh: Channel) -> None:
        old, self._codec = self._sock, fresh.codec
        sock, pieces = fresh.detach()
        self._sock, self._pieces = sock, list(pieces)
        self._checked, self._position, self._lost = 0, 1, False
        if old is not None:
            old.close()
        self._loop.add_reader(sock.fileno(), self._readable)
        if self._pieces:
            self._loop.call_soon(self._taken_over)
        later, self._later = self._later, []
        if self.link.follows and not self.link.subscribed:
            self._send_raw(self._codec.encode(self.link.subscription()))
            self.link.subscribed = True
        for payload in later:
            self._send_raw(self._codec.encode(payload))

    # ---- bytes

    def _check(self) -> socket.socket:
        if self.link.failure is not None:
            raise errors.make(self.link.failure.code, self.link.failure.message)
        if self._sock is None:
            raise errors.GoneError("the session was closed")
        return self._sock

    def _may_send(self) -> None:
        """Before a request is registered: a renewal that failed is tried again."""
        if self._lost and self._renewing is None and self._sock is not None:
            self.link.failure = None
        self._check()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _fail(self, error: errors.Error) -> None:
        self.link.fail(error)
        if self._sock is not None:
            self._loop.remove_reader(self._sock.fileno())
            self._loop.remove_writer(self._sock.fileno())
            self._lose()
        self._wake()

    def _taken_over(self) -> None:
        """Looks at what had come before the socket was ours."""
        try:
            self._dispatch()
        except errors.Error as error:
            self._fail(error)
        self._wake()

    def _readable(self) -> None:
        if self._sock is None:
            return
        try:
            piece = self._sock.recv(READ_BYTES)
            self._pieces.append(piece)
            self._dispatch()
            if not piece:
                raise errors.GoneError(
                    "the session is gone: its keeper closed the connection")
        except AGAIN:
            return
        except errors.Error as error:
            self._fail(error)
        except OSError as error:
            self._fail(errors.GoneError("the session is gone: its keeper died (%s)" % error))
        self._wake()

    def _dispatch(self) -> None:
        new = self._pieces[self._checked:]
        if not self._codec.worthwhile(new, sum(map(len, self._pieces))):
            self._checked = len(self._pieces)
            return
        data, at = b"".join(self._pieces), 0
        while (found := self._codec.find(data, at)) is not None:
            if found.payload is not None:
                self.link.feed(found.payload, self._position)
            if found.reply:
                self._send_raw(found.reply)
            at = found.end
            self._position += 1
        rest = data[at:]
        self._pieces = [rest] if rest else []
        self._checked = len(self._pieces)

    def _send(self, payload: bytes) -> None:
        if self._lost:
            self._later.append(payload)
            self._begin_renewal()
        else:
            self._send_raw(self._codec.encode(payload))

    def _send_raw(self, data: bytes) -> None:
        self._out.append(memoryview(data))
        if not self._writing:
            self._flush()

    def _flush(self) -> None:
        sock = self._sock
        if sock is None:
            return
        try:
            while self._out:
                sent = sock.send(self._out[0])
                if sent == len(self._out[0]):
                    self._out.popleft()
                else:
                    self._out[0] = self._out[0][sent:]
        except AGAIN:
            pass
        except OSError:
            self._out.clear()
            self._fail(errors.GoneError("the session is gone: its keeper closed the connection"))
            return
        if bool(self._out) != self._writing:
            self._writing = bool(self._out)
            if self._writing:
                self._loop.add_writer(sock.fileno(), self._flush)
            else:
                self._loop.remove_writer(sock.fileno())

    def forget(self) -> None:
        """After a fork, in the child."""
        self.forked = True
        self.link.failure = errors.GoneError(
            "this process was forked from the one that has the session: open the session again "
            "(AsyncSession.open) to use it here")
        sock, self._sock = self._sock, None
        if sock is not None:
            sock.close()
