"""A connection that threads share, without a thread of its own.

Whoever waits for something reads for all: the one whose turn it is takes what comes off the socket
and hands it to the Link; the others wait until it has, or until it leaves. So nothing is
read while nobody waits (the keeper does not mind: it reads on from the journal), a lone thread pays
for no hand-over, and there is no thread that could be left behind.

Ctrl-C raises wherever Python happens to be, but never inside of a C function. So a piece that was
received goes from the socket into `_pieces` in one call of C (deque.extend over an iterator that
calls recv), and what is done to it afterwards can be repeated (wire.py). The same on the way out.
For that reason, too, the turn to read is no lock but the name of a thread: it is given up on the
way out of a `try` that began before it was taken, and a thread whose name was left there can go on.

After os.fork() the child has the parent's connection in its hands: it closes its copy and every
call says so. What the parent waits for is not touched.
"""
from __future__ import annotations

import itertools
import os
import select
import socket
import ssl
import threading
import time
import weakref
from collections import deque
from functools import partial
from typing import Any, Callable, Deque, Dict, Mapping, Optional, Protocol, Tuple

from . import errors
from .wire import Answer, Codec, Feed, LineCodec, Link

READ_BYTES = 1 << 18
# What a fork has to reach: Channel and AsyncChannel.
CHANNELS: weakref.WeakSet[Forgetful] = weakref.WeakSet()
AGAIN = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Forgetful(Protocol):
    """Who has a connection that a fork copies."""

    def forget(self) -> None: ...


class Channel:
    """A connection to a keeper."""

    def __init__(self, sock: socket.socket, codec: Optional[Codec] = None, first: bytes = b""
                 ) -> None:
        sock.setblocking(False)
        #: Makes another connection to the same session, for one that may be lost and can be had
        #: again: that to a daemon. `first`: bytes that have been received already.
        self.renew: Optional[Callable[[], Channel]] = None
        self.link = Link()
        self._sock: Optional[socket.socket] = sock
        self.codec: Codec = codec or LineCodec()
        # Pieces that were received; where the next message in them begins; the position of their
        # first byte in the stream; how many of the pieces are known to end no message.
        self._in: Tuple[Deque[bytes], int, int, int] = (deque([first] if first else ()), 0, 0, 0)
        # Messages to be sent, and how much has been of the first.
        self._out: Tuple[Deque[bytes], Deque[int]] = (deque(), deque())
        self._forked = False
        self._make_locks()
        CHANNELS.add(self)

    def _make_locks(self) -> None:
        self._turn: Dict[str, int] = {}  # whose turn it is to read
        self._sending = threading.RLock()
        self._changed = threading.Condition(threading.Lock())
        self._followers = 0

    # ---- what sessions use

    def call(self, body: Mapping[str, Any], timeout: Optional[float] = None) -> Mapping[str, Any]:
        """Sends a request and waits for its reply; raises what it was refused with."""
        answer = self.post(body)
        if not self.wait(answer.done, timeout):
            raise errors.TimedOutError("the keeper did not answer within %g s" % (timeout or 0))
        return answer.take()

    def post(self, body: Mapping[str, Any]) -> Answer:
        """Sends a request; does not wait. The order on the wire is that of the answers, so both are
        decided under one lock."""
        answer = Answer()
        self._queue(body, answer)
        return answer

    def post_run(self, body: Mapping[str, Any]) -> Tuple[Answer, Feed]:
        """Sends a `run`; its events will be in the feed."""
        feed = Feed()
        answer = Answer(feed)
        self._queue(body, answer)
        return answer, feed

    def wait(self, ready: Callable[[], bool], timeout: Optional[float] = None) -> bool:
        """Waits until ready() is true: False when the time is over before. Raises when the
        connection ends."""
        until = None if timeout is None else time.monotonic() + timeout
        while not ready():
            if self.link.failure is not None and not self._revive():
                raise self._copy_failure()
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return False
            try:
                if not self._take_turn():
                    self._follow(ready, left)
                elif not ready():
                    self._read(left)
            finally:
                self._leave_turn()
        return True

    def take_hello(self, timeout: Optional[float] = None) -> Mapping[str, Any]:
        if not self.wait(lambda: self.link.hello is not None, timeout):
            raise errors.TimedOutError("the session was not ready within %g s" % (timeout or 0))
        assert self.link.hello is not None
        return self.link.hello

    def close(self) -> None:
        """Closes the connection; who waits in another thread gets GoneError."""
        self.link.fail(errors.GoneError("the session was closed"))
        sock, self._sock = self._sock, None
        if sock is not None:
            try:
                if not self._forked:
                    sock.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
            except OSError:
                pass
            sock.close()
        self._tell()

    @property
    def closed(self) -> bool:
        return self._sock is None

    def detach(self) -> Tuple[socket.socket, Deque[bytes]]:
        """Gives the socket away, with what has been received and not been looked at."""
        assert self._sock is not None and not self._out[0]
        sock, self._sock = self._sock, None
        CHANNELS.discard(self)
        return sock, self._in[0]

    # ---- connecting again

    def _poke(self) -> None:
        """Before a request: has a connection that can be renewed been lost meanwhile?"""
        if self.renew is None:
            return
        try:
            if self._take_turn() and self.link.failure is None and self._sock is not None:
                self._read(0)
        finally:
            self._leave_turn()
        if self.link.failure is not None:
            self._revive()

    def _revive(self) -> bool:
        """Connects again, if that can be. Requests that had no answer are refused (code gone);
        cells that run go on, and their events come from where they were."""
        if self.renew is None or self._sock is None or self._forked:
            return False
        try:
            while not self._take_turn():
                self._follow(lambda: False, 0.05)
            with self._sending:
                return self._connect_again(self.renew)
        finally:
            self._leave_turn()

    def _connect_again(self, renew: Callable[[], Channel]) -> bool:
        failure = self.link.failure
        if failure is None:
            return True
        if self._sock is None or failure.code != "gone":
            return False
        fresh, old = renew(), self._sock
        self._sock, pieces = fresh.detach()
        self.codec = fresh.codec
        self._in, self._out = (pieces, 0, 0, 0), (deque(), deque())
        old.close()
        self.link.lost(failure)
        if self.link.follows:
            self._out[0].append(self.codec.encode(self.link.subscription()))
            self.link.subscribed = True
            self._flush()
        return True

    # ---- reading

    def _check(self) -> socket.socket:
        if self.link.failure is not None:
            raise self._copy_failure()
        if self._sock is None:
            raise errors.GoneError("the session was closed")
        return self._sock

    def _copy_failure(self) -> errors.Error:
        """Each thread raises an object of its own: a traceback belongs to one."""
        failure = self.link.failure
        assert failure is not None
        return errors.make(failure.code, failure.message)

    def _take_turn(self) -> bool:
        """Whether it is our turn to read; does not wait. One call of C, and so whole."""
        me = threading.get_ident()
        return self._turn.setdefault("reader", me) == me

    def _leave_turn(self) -> None:
        if self._turn.get("reader") == threading.get_ident():
            del self._turn["reader"]
            self._tell()

    def _follow(self, ready: Callable[[], bool], left: Optional[float]) -> None:
        """Another thread reads: waits until it has taken something, or has left."""
        with self._changed:
            self._followers += 1
            try:
                if self._turn and not ready():
                    self._changed.wait(left)
            finally:
                self._followers -= 1

    def _tell(self) -> None:
        if self._followers:
            with self._changed:
                self._changed.notify_all()

    def _read(self, left: Optional[float]) -> None:
        """Waits for bytes and takes what they hold. In our turn."""
        sock = self._check()
        try:
            if len(self._in[0]) <= self._in[3] and not self._receive(sock):
                _poll(sock, select.POLLIN, left)
                self._receive(sock)
            self._dispatch()
        except errors.Error as error:
            self.link.fail(error)
        except (OSError, ValueError) as error:
            self.link.fail(errors.GoneError("the session is gone: its keeper died (%s)" % error))
        if self._followers:
            self._tell()

    def _receive(self, sock: socket.socket) -> bool:
        pieces = self._in[0]
        before = len(pieces)
        try:
            pieces.extend(itertools.islice(iter(partial(sock.recv, READ_BYTES), None), 1))
        except AGAIN:
            return False
        return len(pieces) > before

    def _dispatch(self) -> None:
        pieces, at, origin, checked = self._in
        new = list(itertools.islice(pieces, checked, None))
        if not new:
            return
        if self.codec.worthwhile(new, sum(map(len, pieces))):
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            while (found := self.codec.find(data, at)) is not None:
                if found.payload is not None:
                    self.link.feed(found.payload, origin + at)
                at = found.end
                self._in = (pieces, at, origin, checked)
                if found.reply:
                    self._send_aside(found.reply)
            rest = data[at:]
            self._in = (deque([rest] if rest else ()), 0, origin + at, 1 if rest else 0)
        else:
            self._in = (pieces, at, origin, len(pieces))
        if new[-1] == b"":
            raise errors.GoneError("the session is gone: its keeper closed the connection")

    # ---- sending

    def _queue(self, body: Mapping[str, Any], answer: Answer) -> None:
        """Sends a request. However that ends: what is registered will be sent, and what will be
        sent is registered."""
        self._poke()
        data = None
        with self._sending:
            try:
                data = self.codec.encode(self.link.request(body, answer))
                if answer.follow is not None and not self.link.subscribed:
                    self._out[0].append(self.codec.encode(self.link.subscription()))
                    self.link.subscribed = True
                self._out[0].append(data)
                answer.queued = True
                self._flush()
            except BaseException:
                if not answer.queued and not any(item is data for item in self._out[0]):
                    self.link.forget(answer)
                raise

    def _send_aside(self, data: bytes) -> None:
        """From the thread that reads, which must not wait for one that sends."""
        if self._sending.acquire(blocking=False):
            try:
                self._out[0].append(data)
                self._flush()
            finally:
                self._sending.release()

    def _flush(self) -> None:
        """Sends what waits. Under `_sending`. While the keeper takes nothing, what it sends is
        received (not looked at), so that neither waits for the other."""
        sock = self._check()
        try:
            while self._out[0]:
                messages, counts = self._out
                left = memoryview(messages[0])[sum(counts):]
                if not left:
                    self._out = (deque(itertools.islice(messages, 1, None)), deque())
                    continue
                try:
                    counts.extend(itertools.islice(iter(partial(sock.send, left), None), 1))
                except AGAIN:
                    self._wait_to_send(sock)
        except OSError as error:
            self.link.fail(errors.GoneError(
                "the session is gone: its keeper closed the connection"))
            raise self._copy_failure() from error

    def _wait_to_send(self, sock: socket.socket) -> None:
        reads = self._turn.get("reader") == threading.get_ident()  # a pong, out of _dispatch()
        try:
            if not reads and self._take_turn():
                _poll(sock, select.POLLIN | select.POLLOUT, None)
                self._receive(sock)
            else:
                _poll(sock, select.POLLOUT, 0.05)
        finally:
            if not reads:
                self._leave_turn()

    # ---- after a fork

    def forget(self) -> None:
        self._forked = True
        self._make_locks()
        self.link.failure = errors.GoneError(
            "this process was forked from the one that has the session: open the session again "
            "(Session.open) to use it here")
        sock, self._sock = self._sock, None
        if sock is not None:
            sock.close()

    @property
    def forked(self) -> bool:
        return self._forked


def _poll(sock: socket.socket, events: int, timeout: Optional[float]) -> None:
    if isinstance(sock, ssl.SSLSocket) and sock.pending():
        return
    poll = select.poll()
    poll.register(sock, events)
    poll.poll(None if timeout is None else int(timeout * 1000) + 1 if timeout > 0 else 0)


def _after_fork() -> None:
    for channel in list(CHANNELS):
        channel.forget()


os.register_at_fork(after_in_child=_after_fork)
