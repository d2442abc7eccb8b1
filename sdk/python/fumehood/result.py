"""What came of a cell: its outputs in order, its images, its error, what became of files.

A Result is a fold over the cell's events (doc/protocol.md, "Events"). Outputs are what a notebook
would show: adjacent text of one stream is one output, `update_display` changes the display it
names, `clear` takes away what was there. `text` is the text for a model, made by Fumehood itself;
`stdout` and `stderr` are all that was written, also what was cleared.
"""
from __future__ import annotations

import base64
import binascii
import json
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Union

from . import errors, html

IMAGE_MIMES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml")
_SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif",
             "image/webp": ".webp", "image/svg+xml": ".svg"}


class Event(Dict[str, Any]):
    """One line of the journal, as doc/protocol.md has it, with its commonest members by name."""

    @property
    def type(self) -> str:
        return str(self["type"])

    @property
    def seq(self) -> int:
        return int(self.get("seq", 0))

    @property
    def cell(self) -> Optional[str]:
        return self.get("cell")

    @property
    def text(self) -> str:
        """What is readable of it: text of a stream, text/plain of a value, an exception."""
        if self.type == "error":
            return "%s: %s" % (self.get("ename"), self.get("evalue"))
        data = self.get("data")
        return _joined(data.get("text/plain", "") if isinstance(data, dict)
                       else self.get("text", ""))


@dataclass
class Image:
    """An image that was displayed."""

    mime: str
    data: bytes

    @property
    def base64(self) -> str:
        return base64.b64encode(self.data).decode("ascii")

    def save(self, path: Union[str, os.PathLike[str]]) -> str:
        """Writes it to a file; returns the path. One without a suffix gets that of the type."""
        name = os.fspath(path)
        if not os.path.splitext(name)[1]:
            name += _SUFFIXES.get(self.mime, "")
        with open(name, "wb") as file:
            file.write(self.data)
        return name

    def _repr_mimebundle_(self, **_: Any) -> Dict[str, str]:
        if self.mime == "image/svg+xml":  # shown as an image, an SVG runs no script
            return {"text/html": html.image(self.mime, self.data)}
        return {self.mime: self.base64}

    def __repr__(self) -> str:
        return "Image(%r, %d bytes)" % (self.mime, len(self.data))


@dataclass
class CellFailure:
    """The exception that ended a cell."""

    name: str
    value: str
    traceback: List[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(self.traceback) or (
            "%s: %s" % (self.name, self.value) if self.value else self.name)


@dataclass
class FileChange:
    """What became of a file of the workspace while the cell ran."""

    path: str                # from the workspace
    change: str              # "created", "changed" or "deleted"
    bytes: int
    mime: str
    cell: Optional[str] = None
    background: bool = False  # it happened before the cell began: threads that went on, uploads

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> FileChange:
        path = item.get("path")
        if "path_base64" in item:  # it is no UTF-8
            path = os.fsdecode(base64.b64decode(item["path_base64"]))
        return cls(str(path), str(item.get("change", "")), int(item.get("bytes") or 0),
                   str(item.get("mime", "")), item.get("cell"),
                   item.get("origin") == "background")


@dataclass
class Output:
    """One output: `kind` is "stdout", "stderr", "display", "result" or "error"."""

    kind: str
    text: str = ""
    data: Dict[str, Any] = field(default_factory=dict)
    metadata: Dict[str, Any] = field(default_factory=dict)
    display_id: Optional[str] = None
    execution_count: Optional[int] = None
    error: Optional[CellFailure] = None

    @property
    def images(self) -> List[Image]:
        """Its images: of several forms of one, the first of IMAGE_MIMES."""
        for mime in IMAGE_MIMES:
            if mime in self.data:
                found = _image(mime, self.data[mime])
                if found:
                    return [found]
        return []

    def to_notebook(self) -> Dict[str, Any]:
        """As an output of a code cell (nbformat 4)."""
        if self.kind in ("stdout", "stderr"):
            return {"output_type": "stream", "name": self.kind, "text": self.text}
        if self.error is not None:
            return {"output_type": "error", "ename": self.error.name, "evalue": self.error.value,
                    "traceback": list(self.error.traceback)}
        made: Dict[str, Any] = {"output_type": "display_data", "data": self.data,
                                "metadata": self.metadata}
        if self.kind == "result":
            made.update(output_type="execute_result", execution_count=self.execution_count)
        return made


def _joined(value: Any) -> str:
    if isinstance(value, list):  # notebooks have lists of lines
        return "".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def _image(mime: str, value: Any) -> Optional[Image]:
    text = _joined(value)
    if mime == "image/svg+xml":
        return Image(mime, text.encode("utf-8", "replace"))
    try:
        return Image(mime, base64.b64decode("".join(text.split()), validate=True))
    except (binascii.Error, ValueError):
        return None


@dataclass
class Result:
    """A cell that has ended."""

    cell: str = ""
    status: str = "died"      # ok, error, interrupted, timeout, died or cancelled
    reason: Optional[str] = None
    state: str = "gone"       # of the variables: kept, recovered, rolled_back, reset or gone
    recovers_to: Optional[str] = None  # the cell after which they are, if cells before are lost
    rolled_back: List[str] = field(default_factory=list)  # cells that are lost with this one
    lost: Mapping[str, Any] = field(default_factory=dict)  # what did not come back
    text: str = ""            # for a model
    outputs: List[Output] = field(default_factory=list)
    stdout: str = ""
    stderr: str = ""
    files: List[FileChange] = field(default_factory=list)
    execution_count: Optional[int] = None
    duration: float = 0.0     # seconds
    cpu: float = 0.0          # seconds of processor time
    memory_peak: int = 0      # bytes
    limit: Optional[Mapping[str, Any]] = None  # that was met: {"name", "value", "unit"}
    dropped: int = 0          # bytes of output beyond its limit
    finished: Event = field(default_factory=Event)

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def value(self) -> Optional[Output]:
        """The last expression's value, with all its forms."""
        found = [output for output in self.outputs if output.kind == "result"]
        return found[-1] if found else None

    @property
    def result(self) -> Optional[str]:
        """The last expression's value as text, as its repr."""
        value = self.value
        return value.text if value else None

    @property
    def error(self) -> Optional[CellFailure]:
        """The exception that ended it. Of a death or a time-out without one, what is known."""
        found = [output.error for output in self.outputs if output.error]
        if found:
            return found[-1]
        if self.ok:
            return None
        return CellFailure(_FAILURES.get(self.status, self.status), self.explain())

    @property
    def images(self) -> List[Image]:
        return [image for output in self.outputs for image in output.images]

    def raise_for_error(self) -> Result:
        """Raises CellError unless the status is ok; returns itself."""
        if self.ok:
            return self
        raise errors.CellError("the cell %s ended as %s: %s" % (
            self.cell, self.status, self.error), self)

    def explain(self) -> str:
        what = {"interrupted": "the cell was interrupted",
                "timeout": "the cell ran longer than it may",
                "died": "the interpreter died",
                "cancelled": "the cell never ran"}.get(self.status, self.status)
        reason = " (%s)" % self.reason if self.reason else ""
        state = {"kept": "", "reset": "; all variables are gone",
                 "gone": "; the session has ended"}.get(
                     self.state, "; the variables are those after the cell %s" % self.recovers_to
                     if self.recovers_to else "; the variables are those before this cell")
        return what + reason + ("" if self.status == "cancelled" else state)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return "Result(cell=%r, status=%r, text=%r)" % (self.cell, self.status, self.text[:200])

    def _repr_html_(self) -> str:
        return html.result(self)


_FAILURES = {"interrupted": "KeyboardInterrupt", "timeout": "TimeoutError", "died": "Died",
             "cancelled": "Cancelled"}


class Collector:
    """The fold."""

    def __init__(self) -> None:
        self.result = Result()
        self._out: List[str] = []
        self._err: List[str] = []
        self._run: List[str] = []  # of the stream that was written to last
        self._clear = False
        self._seq = 0

    def take(self, event: Event) -> bool:
        """Takes an event; False when it was taken before."""
        if event.seq <= self._seq:
            return False
        self._seq = event.seq
        getattr(self, "_take_" + event.type, self._ignore)(event)
        return True

    def _ignore(self, event: Event) -> None:
        pass

    def _add(self, output: Output) -> None:
        self._close_run()
        if self._clear:
            self.result.outputs.clear()
            self._clear = False
        self.result.outputs.append(output)

    def _close_run(self) -> None:
        if self._run:
            self.result.outputs[-1].text = "".join(self._run)
            self._run = []

    def _take_stream(self, event: Event) -> None:
        name, text = str(event["name"]), str(event["text"])
        (self._err if name == "stderr" else self._out).append(text)
        if not self._run or self.result.outputs[-1].kind != name or self._clear:
            self._add(Output(name))
        self._run.append(text)

    def _bundle(self, event: Event, kind: str) -> Output:
        data = dict(event.get("data") or {})
        return Output(kind, _joined(data.get("text/plain", "")), data,
                      dict(event.get("metadata") or {}), event.get("display_id"),
                      event.get("execution_count"))

    def _take_display(self, event: Event) -> None:
        self._add(self._bundle(event, "display"))

    def _take_result(self, event: Event) -> None:
        self._add(self._bundle(event, "result"))

    def _take_update_display(self, event: Event) -> None:
        new = self._bundle(event, "display")
        for output in self.result.outputs:
            if output.display_id is not None and output.display_id == new.display_id:
                output.text, output.data, output.metadata = new.text, new.data, new.metadata

    def _take_clear(self, event: Event) -> None:
        self._close_run()
        if event.get("wait"):
            self._clear = True
        else:
            self.result.outputs.clear()

    def _take_error(self, event: Event) -> None:
        failure = CellFailure(str(event.get("ename", "")), str(event.get("evalue", "")),
                              [str(line) for line in event.get("traceback") or ()])
        self._add(Output("error", str(failure), error=failure))

    def _take_truncated(self, event: Event) -> None:
        self.result.dropped += int(event.get("bytes_dropped") or 0)

    def _take_finished(self, event: Event) -> None:
        self._close_run()
        result, usage = self.result, event.get("usage") or {}
        result.cell = str(event["cell"])
        result.status = str(event.get("status", "died"))
        result.reason, result.state = event.get("reason"), str(event.get("state", "kept"))
        result.recovers_to = event.get("recovers_to")
        result.rolled_back = list(event.get("rolled_back") or ())
        result.lost = event.get("lost") or {}
        result.text = str(event.get("text") or "")
        result.stdout, result.stderr = "".join(self._out), "".join(self._err)
        result.execution_count = event.get("execution_count")
        result.duration = (event.get("duration_us") or 0) / 1e6
        result.cpu = (usage.get("cpu_us") or 0) / 1e6
        result.memory_peak = int(usage.get("rss_peak") or 0)
        result.limit = event.get("limit")
        result.files = [FileChange.read(item) for item in event.get("files") or ()]
        result.finished = event
