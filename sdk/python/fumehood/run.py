"""Run: a cell that was sent, and is waited for.

It is an iterator over the cell's events as they come, and `result()` waits for the end. Who leaves
without waiting (Ctrl-C, an exception of a callback, `break`) interrupts the cell: nobody would
see its end.
"""
from __future__ import annotations

import queue
from types import TracebackType
from typing import (TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, Mapping, Optional, Type,
                    Union)

from . import calls, errors
from .result import Collector, Event, Output, Result
from .wire import Answer, Feed

if TYPE_CHECKING:
    from .session import Session

# What answers prompts: a function of (prompt, is_password), or the answers themselves, in order.
Input = Union[str, Iterable[str], "queue.Queue[Optional[str]]",
              Callable[[str, bool], Optional[str]]]
_ABANDON_S = 1.0  # what the interrupt of an abandoned cell may take


class Handlers:
    """Who hears of what while the cell runs. Each may be None."""

    def __init__(self, on_event: Optional[Callable[[Event], object]] = None,
                 on_stdout: Optional[Callable[[str], object]] = None,
                 on_stderr: Optional[Callable[[str], object]] = None,
                 on_output: Optional[Callable[[Output], object]] = None) -> None:
        self.on_event, self.on_output = on_event, on_output
        self.on_stdout, self.on_stderr = on_stdout, on_stderr

    def tell(self, event: Event, collector: Collector) -> List[object]:
        """Calls who hears of the event; returns what they returned."""
        kind, made = event.type, []
        if kind == "stream":
            heard = self.on_stderr if event["name"] == "stderr" else self.on_stdout
            if heard:
                made.append(heard(event.text))
            if self.on_output:
                made.append(self.on_output(Output(str(event["name"]), event.text)))
        elif kind in ("display", "result", "error") and self.on_output:
            made.append(self.on_output(collector.result.outputs[-1]))
        if self.on_event:
            made.append(self.on_event(event))
        return made


def answers(given: Input) -> Callable[[str, bool], Optional[str]]:
    """What answers prompts, as a function. None ends the input: input() raises EOFError."""
    if callable(given):
        return given
    if isinstance(given, queue.Queue):
        waiting = given
        return lambda _prompt, _password: waiting.get()
    lines = iter(given.splitlines() if isinstance(given, str) else given)
    return lambda _prompt, _password: next(lines, None)


def blobs_of(value: Any, found: Optional[List[Mapping[str, Any]]] = None
             ) -> List[Mapping[str, Any]]:
    """The places where a value was too large to come with its event."""
    found = [] if found is None else found
    for item in (value.values() if isinstance(value, dict)
                 else value if isinstance(value, list) else ()):
        if isinstance(item, dict) and isinstance(item.get("$blob"), str):
            found.append(item)
        else:
            blobs_of(item, found)
    return found


class Run:
    """A cell under way. Made by Session.start_run() and Session.stream()."""

    def __init__(self, session: Session, answer: Answer, feed: Feed,
                 input: Optional[Input] = None, handlers: Optional[Handlers] = None) -> None:
        self._session = session
        self._answer = answer
        self._feed = feed
        self._input = answers(input) if input is not None else None
        self._handlers = handlers or Handlers()
        self._collector = Collector()
        self._finished = False

    # ---- what it is

    @property
    def cell(self) -> str:
        """The cell's id. Raises what the run was refused with."""
        self._session._channel.wait(self._answer.done)
        return str(self._answer.take()["cell"])

    @property
    def done(self) -> bool:
        """Whether its end has been taken."""
        return self._finished

    def interrupt(self) -> bool:
        """Interrupts the cell; False when it has ended already."""
        return self._session.interrupt(self.cell)

    # ---- waiting

    def _next(self, timeout: Optional[float] = None) -> Optional[Event]:
        """The next event; None at the end. Raises TimedOutError."""
        feed, channel = self._feed, self._session._channel
        while not self._finished:
            if not channel.wait(lambda: bool(feed.events) or feed.ended, timeout):
                raise errors.TimedOutError("the cell has not ended within %g s" % (timeout or 0))
            if not feed.events:
                self._answer.take()  # refused
                raise errors.InternalError("the cell ended without a word")
            event = Event(feed.events[0])
            if blobs_of(event):
                event = self._session._with_blobs(event)
            self._finished = event.type == "finished"
            fresh = self._collector.take(event)
            feed.events.popleft()
            if fresh:
                return event
        return None

    def _hear(self, event: Event) -> None:
        self._handlers.tell(event, self._collector)
        if event.type == "input_request" and self._input is not None:
            text = self._input(str(event.get("prompt", "")), bool(event.get("password")))
            self._session._answer_prompt(text)

    def __iter__(self) -> Iterator[Event]:
        """The events as they come, to the last. Leaving early interrupts the cell."""
        try:
            while (event := self._next()) is not None:
                self._hear(event)
                yield event
        except BaseException:
            self._abandon()
            raise

    def result(self, timeout: Optional[float] = None) -> Result:
        """Waits for the end. `timeout`: raises TimedOutError when it takes longer; the cell goes
        on, and can be waited for again."""
        try:
            while (event := self._next(timeout)) is not None:
                self._hear(event)
        except errors.TimedOutError:
            raise
        except BaseException:
            self._abandon()
            raise
        return self._collector.result

    def _abandon(self) -> None:
        """Interrupts the cell, if that is quickly done: an exception is on its way."""
        channel = self._session._channel
        if self._finished or channel.link.failure is not None:
            return
        try:
            if channel.wait(self._answer.done, _ABANDON_S):
                channel.post(calls.interrupt(str(self._answer.take()["cell"])).body)
        except errors.Error:
            pass

    def close(self) -> None:
        """Interrupts the cell if it has not ended."""
        self._abandon()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()
