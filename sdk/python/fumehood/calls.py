"""The requests of the session protocol as functions: each makes a body and reads the reply.

Session and AsyncSession differ in how they wait, not in what they say: both take a Request from
here, send its body, and give the reply to `read`. The requests are in doc/protocol.md.
"""
from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass, field
from typing import (Any, Callable, Dict, Generic, List, Mapping, Optional, Sequence, Tuple, TypeVar,
                    Union)

from . import errors
from .result import FileChange

T = TypeVar("T")
TEXT_CHARS = 8000
PART_BYTES = 1 << 20  # of a file or blob, in one request
Path = Union[str, "os.PathLike[str]"]
Reply = Mapping[str, Any]


@dataclass
class Request(Generic[T]):
    """A request, and what its reply means."""

    body: Dict[str, Any]
    read: Callable[[Reply], T]


@dataclass
class Completion:
    """What may stand at the cursor. `start` and `end`: what a match replaces, in characters."""

    matches: List[str]
    start: int
    end: int
    types: List[Mapping[str, Any]] = field(default_factory=list)
    partial: bool = False  # the answer was cut off after two seconds


@dataclass
class Inspection:
    """What the thing at the cursor is."""

    found: bool
    data: Mapping[str, str]
    partial: bool = False

    @property
    def text(self) -> str:
        return self.data.get("text/plain", "")


@dataclass
class Variable:
    """A variable of the session."""

    name: str
    type: str
    repr: str
    module: Optional[str] = None
    shape: Optional[Sequence[int]] = None
    length: Optional[int] = None
    size: Optional[int] = None  # bytes, an estimate


class Variables(List[Variable]):
    """Variables by name. `total`: how many there are; `partial`: time was over."""

    total = 0
    partial = False


@dataclass
class Entry:
    """What is in a folder of the workspace."""

    name: str
    type: str  # "file", "folder", "link" or "other"
    bytes: int
    mode: int
    modified: Any


@dataclass
class Status:
    """How the session is. `raw` has all that the keeper told."""

    state: str
    cell: Optional[str]
    queue: List[str]
    last_seq: int
    tier: str
    notebook: str
    raw: Mapping[str, Any]


def _nothing(_reply: Reply) -> None:
    return None


def _without_none(**members: Any) -> Dict[str, Any]:
    return {key: value for key, value in members.items() if value is not None}


def run(code: str, *, timeout: Optional[float], max_chars: Optional[int], marks: bool, stdin: bool,
        cell: Optional[str], metadata: Optional[Mapping[str, Any]], file: Optional[str],
        argv: Optional[Sequence[str]], atomic: bool = False, try_only: bool = False,
        restore_files: Optional[bool] = None) -> Dict[str, Any]:
    """The body of a run."""
    if not isinstance(code, str):
        raise errors.UsageError("code is text, not %s" % type(code).__name__)
    if timeout is not None and not timeout > 0:
        raise errors.UsageError("timeout is more than 0 seconds")
    body = _without_none(id=cell, timeout=timeout, max_chars=max_chars or None, metadata=metadata,
                         file=file, argv=list(argv) if argv is not None else None,
                         files=restore_files)
    if atomic:
        body["atomic"] = True
    if try_only:
        body["try"] = True
    if marks:
        body["marks"] = True
    if stdin:
        body["allow_stdin"] = True
    return {"op": "run", **body, "code": code}


def interrupt(cell: Optional[str]) -> Request[bool]:
    return Request(_without_none(op="interrupt", cell=cell),
                   lambda reply: bool(reply.get("interrupted")))


def answer(text: Optional[str]) -> Request[None]:
    """Answers a prompt; None: the end of the file."""
    return Request({"op": "input", "eof": True} if text is None else {"op": "input", "text": text},
                   _nothing)


def text(cell: str, max_chars: int, marks: bool) -> Request[str]:
    body: Dict[str, Any] = {"op": "text", "cell": cell, "marks": marks}
    if not marks or max_chars != TEXT_CHARS:
        body["max_chars"] = max_chars
    return Request(body, lambda reply: str(reply["text"]))


def outputs(section: Optional[str], max_chars: int, marks: bool) -> Request[Dict[str, str]]:
    return Request(_without_none(op="outputs", section=section, max_chars=max_chars, marks=marks),
                   lambda reply: {item["cell"]: item["text"] for item in reply["cells"]})


def images(since: int, section: Optional[str]) -> Request[Tuple[List[Mapping[str, Any]], int]]:
    return Request(_without_none(op="images", since=since, section=section),
                   lambda reply: (list(reply["images"]), int(reply["last_seq"])))


def changes(since: int, cell: Optional[str]) -> Request[Tuple[List[FileChange], int]]:
    body = {"op": "files", "cell": cell} if cell is not None else {"op": "files", "since": since}
    return Request(body, lambda reply: ([FileChange.read(item) for item in reply["files"]],
                                        int(reply["last_seq"])))


def complete(code: str, cursor: Optional[int]) -> Request[Completion]:
    return Request(_without_none(op="complete", code=code, cursor_pos=cursor), lambda reply: (
        Completion(list(reply["matches"]), int(reply["cursor_start"]), int(reply["cursor_end"]),
                   list((reply.get("metadata") or {}).get("_jupyter_types_experimental") or ()),
                   bool(reply.get("partial")))))


def inspect(code: str, cursor: Optional[int], source: bool) -> Request[Inspection]:
    return Request(_without_none(op="inspect", code=code, cursor_pos=cursor,
                                 detail_level=1 if source else 0), lambda reply: (
        Inspection(bool(reply["found"]), reply.get("data") or {}, bool(reply.get("partial")))))


def _variables(reply: Reply) -> Variables:
    found = Variables(Variable(item["name"], item.get("type", ""), item.get("repr", ""),
                               item.get("module"), item.get("shape"), item.get("length"),
                               item.get("size")) for item in reply["variables"])
    found.total = int(reply.get("total", len(found)))
    found.partial = bool(reply.get("partial"))
    return found


def variables(pattern: Optional[str], limit: int) -> Request[Variables]:
    return Request(_without_none(op="variables", pattern=pattern, max=limit), _variables)


def section(title: str, level: int) -> Request[None]:
    return Request({"op": "section", "title": title, "level": level}, _nothing)


def note(content: str, cell_type: str, metadata: Optional[Mapping[str, Any]]) -> Request[str]:
    return Request(_without_none(op="note", text=content, cell_type=cell_type, metadata=metadata),
                   lambda reply: str(reply["note"]))


def notebook(rolled_back: Optional[str]) -> Request[Dict[str, Any]]:
    return Request(_without_none(op="notebook", rolled_back=rolled_back),
                   lambda reply: dict(reply["notebook"]))


def save() -> Request[str]:
    return Request({"op": "save"}, lambda reply: str(reply["path"]))


def status() -> Request[Status]:
    return Request({"op": "status"}, lambda reply: Status(
        str(reply.get("state")), reply.get("cell"), list(reply.get("queue") or ()),
        int(reply.get("last_seq", 0)), str(reply.get("tier")), str(reply.get("notebook")), reply))


def limits(values: Mapping[str, Any]) -> Request[Dict[str, Mapping[str, Any]]]:
    return Request(_without_none(op="limits", set=dict(values) or None),
                   lambda reply: dict(reply["limits"]))


def policy(values: Mapping[str, Any]) -> Request[Dict[str, Any]]:
    return Request(_without_none(op="policy", set=dict(values) or None),
                   lambda reply: dict(reply["policy"]))


def restart() -> Request[None]:
    return Request({"op": "restart"}, _nothing)


def stop(drain: bool) -> Request[None]:
    return Request({"op": "stop", "mode": "drain" if drain else "now"}, _nothing)


# --------------------------------------------------------------------------------- checkpoints


@dataclass
class Checkpoint:
    """A state of the variables that is held. `name` None: one that was made by itself."""

    number: int
    name: Optional[str]
    cell: Optional[str]  # the last one that is in it
    execution_count: int
    raw: Mapping[str, Any]


class Checkpoints(List[Checkpoint]):
    """Those that are held. `recovers_to`: the cell after which a death now would return to;
    `protected`: whether that is the present state."""

    recovers_to: Optional[str] = None
    protected = False


@dataclass
class Rollback:
    """What a return to another state has done."""

    cell: Optional[str]      # the last one that is in the state now
    rolled_back: List[str]   # cells that no longer are
    lost: Mapping[str, Any]  # what does not come back
    files: Mapping[str, Any]


def _checkpoint(item: Mapping[str, Any]) -> Checkpoint:
    return Checkpoint(int(item["number"]), item.get("name"), item.get("cell"),
                      int(item.get("execution_count") or 0), item)


def _checkpoints(reply: Reply) -> Checkpoints:
    found = Checkpoints(_checkpoint(item) for item in reply["checkpoints"])
    found.recovers_to = reply.get("recovers_to")
    found.protected = bool(reply.get("protected"))
    return found


def _rollback(reply: Reply) -> Rollback:
    return Rollback(reply.get("cell"), list(reply.get("rolled_back") or ()),
                    reply.get("lost") or {}, reply.get("files") or {})


def checkpoint(name: str, files: Optional[bool]) -> Request[Checkpoint]:
    return Request(_without_none(op="checkpoint", name=name, files=files),
                   lambda reply: _checkpoint(reply["checkpoint"]))


def checkpoints() -> Request[Checkpoints]:
    return Request({"op": "checkpoints"}, _checkpoints)


def drop_checkpoint(name: str) -> Request[None]:
    return Request({"op": "checkpoints", "drop": name}, _nothing)


def rollback(to: Optional[str], files: Optional[bool]) -> Request[Rollback]:
    return Request(_without_none(op="rollback", to=to, files=files), _rollback)


def reset() -> Request[Rollback]:
    return Request({"op": "reset"}, _rollback)


def fork(name: Optional[str], at: Optional[str]) -> Request[str]:
    return Request({**_without_none(op="fork", name=name), **({} if at is None else {"from": at})},
                   lambda reply: str(reply["session"]))


# --------------------------------------------------------------------------------------- bytes


def _bytes(reply: Reply) -> Tuple[bytes, int]:
    try:
        return base64.b64decode(reply["data"], validate=True), int(reply["total"])
    except (KeyError, TypeError, binascii.Error) as error:
        raise errors.CorruptError("the keeper's reply holds no data: %s" % error) from None


def blob(sha256: str, offset: int) -> Request[Tuple[bytes, int]]:
    return Request({"op": "blob", "sha256": sha256, "offset": offset, "length": PART_BYTES}, _bytes)


def place(path: Path, key: str = "path") -> Dict[str, str]:
    """A path of the workspace as a member of a request. What is no UTF-8 goes in base64."""
    raw = os.fsencode(path)
    name = raw.decode("utf-8", "surrogateescape")
    while name.startswith("./"):
        name = name[2:]
    for top in ("/workspace", "/mnt/data"):  # as the session sees it
        if name == top or name.startswith(top + "/"):
            name = name[len(top) + 1:]
    name = name.rstrip("/")
    if name in ("", "."):
        return {}
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return {key + "_base64": base64.b64encode(os.fsencode(name)).decode("ascii")}
    return {key: name}


def _named(path: Path) -> Dict[str, str]:
    found = place(path)
    if not found:
        raise errors.UsageError("%r is no path of a file in the workspace" % os.fspath(path))
    return found


def read_file(path: Path, offset: int) -> Request[Tuple[bytes, int]]:
    return Request({"op": "read_file", **_named(path), "offset": offset, "length": PART_BYTES},
                   _bytes)


def write_file(path: Path, upload: str, data: bytes, offset: int, done: bool, mode: int
               ) -> Request[None]:
    return Request({"op": "write_file", **_named(path), "upload": upload, "offset": offset,
                    "data": base64.b64encode(data).decode("ascii"), "done": done, "mode": mode},
                   _nothing)


def _entry(item: Mapping[str, Any]) -> Entry:
    name = item.get("name")
    if "name_base64" in item:
        name = os.fsdecode(base64.b64decode(item["name_base64"]))
    return Entry(str(name), str(item.get("type")), int(item.get("bytes") or 0),
                 int(item.get("mode") or 0), item.get("modified"))


def list_files(path: Path, after: Optional[str]) -> Request[Tuple[List[Entry], bool]]:
    body: Dict[str, Any] = {"op": "list_files", **place(path), "max": 10_000}
    if after is not None:
        body.update(place(after, "after"))
    return Request(body, lambda reply: ([_entry(item) for item in reply["entries"]],
                                        bool(reply.get("more"))))


def remove_file(path: Path, whole: bool) -> Request[None]:
    return Request({"op": "remove_file", **_named(path), "whole": whole}, _nothing)


def make_folder(path: Path) -> Request[None]:
    return Request({"op": "make_folder", **_named(path)}, _nothing)
