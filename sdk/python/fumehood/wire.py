"""What one connection has asked and been told: pure, without a socket.

Link has the requests whose answers are awaited and the cells whose events are wanted; it is fed
messages and makes requests. Codecs turn a stream of bytes into messages and back: LineCodec one
JSON object a line, as keepers speak; the daemon's WebSocket has its own (daemon.py).

Answers: a request has a number as its id, and its answer is found by that. A `run` and a `note`
have none, because it would be the cell's, which the keeper shall choose (c1, c2, …); those come in
order.

Everything here may be cut off anywhere by an exception of a signal handler (Ctrl-C) and be
repeated: a message is fed with its position in the stream, and is taken once.
"""
from __future__ import annotations

import json
from collections import deque
from typing import (Any, Callable, Deque, Dict, List, Mapping, NamedTuple, Optional, Protocol,
                    Sequence, Tuple)

from . import errors

MESSAGE_BYTES_MAX = 1 << 30
_WITHOUT_ID = ("run", "note")
_EARLY_MAX = 100_000  # events of cells whose `run` has not been answered yet


class Found(NamedTuple):
    """A message in a buffer: its bytes, and where the next one begins. `reply`: bytes that the
    codec itself has to send (a pong)."""

    payload: Optional[bytes]
    end: int
    reply: bytes = b""


class Codec(Protocol):
    """Bytes to messages, and back. Without state: it can be asked twice."""

    def encode(self, payload: bytes) -> bytes: ...

    def worthwhile(self, new: Sequence[bytes], size: int) -> bool:
        """Whether looking for a message can succeed, of `size` bytes, of which `new` came last."""

    def find(self, buffer: bytes, start: int) -> Optional[Found]: ...


class LineCodec:
    """One JSON object a line."""

    def encode(self, payload: bytes) -> bytes:
        return payload + b"\n"

    def worthwhile(self, new: Sequence[bytes], size: int) -> bool:
        ends = any(b"\n" in piece for piece in new)
        if size > MESSAGE_BYTES_MAX and not ends:
            raise errors.LimitError("the keeper sent a line of more than 1 GiB")
        return ends

    def find(self, buffer: bytes, start: int) -> Optional[Found]:
        end = buffer.find(b"\n", start)
        return None if end < 0 else Found(buffer[start:end], end + 1)


class Answer:
    """A request under way. `message` is its answer, once it is there."""

    __slots__ = ("message", "position", "follow", "queued")

    def __init__(self, follow: Optional[Feed] = None) -> None:
        self.message: Optional[Mapping[str, Any]] = None
        self.position = -1
        self.follow = follow
        self.queued = False  # it will be sent, or was

    def done(self) -> bool:
        return self.message is not None

    def take(self) -> Mapping[str, Any]:
        """The reply; raises what it was refused with."""
        assert self.message is not None
        if self.message["type"] == "refused":
            raise errors.from_refusal(self.message)
        return self.message


class Feed:
    """The events of one cell that nobody has taken yet."""

    __slots__ = ("events", "ended", "cell")

    def __init__(self) -> None:
        self.events: Deque[Dict[str, Any]] = deque()
        self.ended = False
        self.cell: Optional[str] = None


class Link:
    """One connection, as it stands."""

    def __init__(self) -> None:
        self.hello: Optional[Mapping[str, Any]] = None
        self.failure: Optional[errors.Error] = None
        self.subscribed = False
        self.last_seq = 0
        self.on_event: Optional[Callable[[Dict[str, Any]], None]] = None  # wants all of them
        self._count = 0
        self._waiting: Dict[object, Answer] = {}  # by the request's id
        self._ordered: Deque[Answer] = deque()
        self._feeds: Dict[str, Feed] = {}
        self._early: List[Dict[str, Any]] = []

    # ---- out

    def request(self, body: Mapping[str, Any], answer: Answer) -> bytes:
        """The message of a request, whose answer `answer` will have. What is not sent after all is
        to be taken back: forget()."""
        ident = body.get("id")
        if ident is None and body["op"] in _WITHOUT_ID:
            payload = _dump(body)
            self._ordered.append(answer)
            return payload
        if ident is None:
            self._count += 1
            ident = self._count
            body = {**body, "id": ident}
        payload = _dump(body)
        self._waiting[ident] = answer
        return payload

    def forget(self, answer: Answer) -> None:
        """Nobody will answer this."""
        if answer in self._ordered:
            self._ordered.remove(answer)

    def subscription(self) -> bytes:
        """The request that is sent before a first run: all events from now on. Asked for twice, the
        second replaces the first; what comes twice is taken once."""
        return self.request({"op": "events", "since": self.last_seq, "follow": True}, Answer())

    def lost(self, error: errors.Error) -> None:
        """The connection is another one: requests without an answer have none, and events go on
        behind the last that was taken, as soon as a subscription is sent."""
        refused = {"type": "refused", "code": error.code, "message": error.message}
        for answer in [*self._waiting.values(), *self._ordered]:
            if answer.message is None:
                if answer.follow is not None:
                    answer.follow.ended = True
                answer.message = refused
        self._waiting.clear()
        self._ordered.clear()
        self._early.clear()
        self.subscribed = False
        self.failure = None

    @property
    def follows(self) -> bool:
        """Whether somebody waits for events."""
        return bool(self._feeds) or self.on_event is not None

    # ---- in

    def feed(self, payload: bytes, position: int) -> None:
        """Takes a message. `position`: where it stands in the stream."""
        try:
            message = json.loads(payload)
            kind = message.get("type") if isinstance(message, dict) else None
        except (ValueError, RecursionError):
            kind = None
        if not isinstance(kind, str):
            raise errors.CorruptError("the keeper sent what is no message")
        if "seq" in message:
            self._event(message)
        elif kind in ("reply", "refused"):
            self._answer(message, position)
        elif kind == "hello":
            self.hello = message
            self.last_seq = max(self.last_seq, int(message.get("last_seq", 0)))
        elif kind == "warning":
            # Only durability `power` sends one without a number: what comes behind it is not
            # promised, so nobody may take it for done.
            raise errors.DiskError(str(message.get("message", "the disk has failed")))

    def fail(self, error: errors.Error) -> None:
        """The connection has ended; what waits will raise this."""
        if self.failure is None:
            if self.hello is not None and isinstance(error, errors.GoneError) and error.args:
                name = self.hello.get("session", "")
                error.args = ("%s (session %s)" % (error.args[0], name),)
            self.failure = error

    def _answer(self, message: Mapping[str, Any], position: int) -> None:
        ident = message.get("id")
        if ident is None:
            if self._ordered and self._ordered[0].position == position:
                return
            while self._ordered and self._ordered[0].message is not None:
                self._ordered.popleft()
            if not self._ordered:
                if self.hello is None and message["type"] == "refused":
                    self.fail(errors.from_refusal(message))  # the session could not begin
                return
            answer: Optional[Answer] = self._ordered[0]
        else:
            answer = self._waiting.get(ident)
        if answer is None:
            return
        if answer.follow is not None:
            self._claim(answer.follow, message)
        answer.position = position
        answer.message = message
        if ident is not None:
            self._waiting.pop(ident, None)

    def _claim(self, feed: Feed, message: Mapping[str, Any]) -> None:
        """A run was answered: its events are wanted, also those that came before the answer."""
        cell = message.get("cell")
        if message["type"] != "reply" or not isinstance(cell, str):
            feed.ended = True
            return
        feed.cell = cell
        self._feeds[cell] = feed
        for event in tuple(self._early):
            self._deliver(event)
        self._early = []

    def _event(self, event: Dict[str, Any]) -> None:
        seq = event["seq"]
        if seq <= self.last_seq and event["type"] != "gap":
            return
        if self.on_event is not None:
            self.on_event(event)
        else:
            self._deliver(event)
        self.last_seq = seq

    def _is_claiming(self) -> bool:
        return any(answer.message is None and answer.follow is not None
                   for answer in self._ordered) or any(
            answer.follow is not None for answer in list(self._waiting.values()))

    def _deliver(self, event: Dict[str, Any]) -> None:
        cell = event.get("cell")
        if cell is None:
            return
        feed = self._feeds.get(cell)
        if feed is None:
            if len(self._early) < _EARLY_MAX and self._is_claiming():
                self._early.append(event)
            return
        feed.events.append(event)
        if event["type"] == "finished":
            feed.ended = True
            self._feeds.pop(cell, None)


def _dump(body: Mapping[str, Any]) -> bytes:
    """As the protocol wants it. A lone surrogate goes as an escape, which the keeper repairs."""
    try:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError) as error:
        raise errors.UsageError("a request is no JSON: %s" % error) from None
