"""The journal as an iterator, and values that are too large for an event.

A keeper answers `events` on the connection that asks, and a second one there replaces the first; so
each iteration has a connection of its own. Nothing is read ahead of who iterates.
"""
from __future__ import annotations

import base64
import json
from collections import deque
from typing import Any, Deque, Dict, Iterator, Mapping, Optional

from .channel import Channel
from .result import Event
from .run import blobs_of
from .wire import Link


class Tail:
    """Takes the place of a Link's own delivery: every event is wanted."""

    def __init__(self, link: Link) -> None:
        self.events: Deque[Event] = deque()
        link.last_seq = 0  # the journal's past is wanted, too
        link.on_event = self._take

    def _take(self, event: Dict[str, Any]) -> None:
        self.events.append(Event(event))


def request(since: int, follow: bool, cell: Optional[str], lossy: bool) -> Dict[str, Any]:
    body: Dict[str, Any] = {"op": "events", "since": since, "follow": follow}
    if lossy:
        body["lossy"] = True
    if cell is not None:
        body["cell"] = cell
    return body


def read(channel: Channel, since: int, follow: bool, cell: Optional[str], lossy: bool
         ) -> Iterator[Event]:
    """The events; closes the connection at the end."""
    try:
        channel.take_hello()
        if not follow or cell is not None:
            channel.renew = None  # it would go on with all events, for ever
        tail = Tail(channel.link)
        answer = channel.post(request(since, follow, cell, lossy))
        channel.wait(answer.done)
        to = int(answer.take()["to"])
        # Without `follow` the answer to another request comes behind the last event.
        last = None if follow else channel.post({"op": "status"})
        stopped = False
        while not stopped:
            channel.wait(lambda: bool(tail.events) or (last is not None and last.done()))
            if not tail.events:
                return
            event = tail.events.popleft()
            stopped = follow and event.type == "stopped"
            if follow or event.seq <= to:
                yield event
    finally:
        channel.close()


def with_blobs(event: Event, found: Mapping[str, bytes]) -> Event:
    """The event with values in the places of links. An image is base64, as everywhere."""
    made = Event(json.loads(json.dumps(event)))

    def put(value: Any, mime: str) -> Any:
        if isinstance(value, dict):
            if isinstance(value.get("$blob"), str):
                data = found[value["$blob"]]
                return _value(data, mime)
            return {key: put(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [put(item, mime) for item in value]
        return value
    made.update({key: put(value, key) for key, value in made.items()})
    assert not blobs_of(made)
    return made


def _value(data: bytes, mime: str) -> Any:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(data).decode("ascii")
    if mime == "application/json" or mime.endswith("+json"):
        try:
            return json.loads(text)
        except ValueError:
            pass
    return text
