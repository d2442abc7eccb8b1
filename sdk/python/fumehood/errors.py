"""The exceptions: one class for each code that Fumehood gives.

A code is a word of the session protocol ("busy", "no_space"; doc/protocol.md). Every exception is
an Error with that word in `code` and a sentence in its text that says what to do. What the code in
a cell does wrong is no exception here: it is the status of a Result, and CellError only for who
asks for one (Result.raise_for_error).
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Dict, Mapping, Optional, Type

if TYPE_CHECKING:
    from .answer import Answer
    from .result import Result


class Error(Exception):
    """Fumehood could not do what it was asked for. `code` says what kind of failure it is."""

    code = "internal"

    def __init__(self, message: str, code: Optional[str] = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else ""


class UsageError(Error, ValueError):
    """A parameter makes no sense."""

    code = "usage"


class InvalidError(Error, ValueError):
    """A request, a file or a value is not of the right form."""

    code = "invalid"


class DuplicateError(Error):
    """The id or the name is taken, or a session of this name exists with other options."""

    code = "duplicate"


class NotFoundError(Error, LookupError):
    """There is no such session, cell or file."""

    code = "not_found"

    def __str__(self) -> str:
        return self.message


class NotInstalledError(NotFoundError):
    """The program `fumehood` was not found."""


class BusyError(Error):
    """Someone else owns it now, a cell is running, or the queue is full."""

    code = "busy"


class DeniedError(Error, PermissionError):
    """Rights are missing, or the policy forbids it."""

    code = "denied"


class UnsupportedError(Error):
    """This version, engine or kernel cannot do it."""

    code = "unsupported"


class LimitError(Error):
    """A named limit was met."""

    code = "limit"


class NoSpaceError(Error):
    """The disk is full."""

    code = "no_space"


class TimedOutError(Error, TimeoutError):
    """It took too long."""

    code = "timeout"


class CorruptError(Error):
    """A file or a message of Fumehood's is damaged."""

    code = "corrupt"


class GoneError(Error, ConnectionError):
    """The session has stopped, its keeper has died, or the connection was closed."""

    code = "gone"


class SandboxError(Error):
    """The sandbox could not be built as the policy demands. `fumehood doctor` says why."""

    code = "sandbox"


class EngineError(Error):
    """The interpreter could not be started."""

    code = "engine"


class DiskError(Error):
    """A system call failed (code `io`): most often the disk."""

    code = "io"


class InternalError(Error):
    """A bug of Fumehood's."""

    code = "internal"


class CellError(Error):
    """A cell did not end well. Raised by Result.raise_for_error() alone; `result` is that
    result."""

    code = "cell"

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class AnswerError(Error):
    """An ask had no success. Raised by Answer.raise_for_error() alone; `answer` is that answer."""

    code = "answer"

    def __init__(self, message: str, answer: Answer) -> None:
        super().__init__(message)
        self.answer = answer


CODES: Mapping[str, Type[Error]] = {
    kind.code: kind
    for kind in (UsageError, InvalidError, DuplicateError, NotFoundError, BusyError, DeniedError,
                 UnsupportedError, LimitError, NoSpaceError, TimedOutError, CorruptError, GoneError,
                 SandboxError, EngineError, DiskError, InternalError)
}


def make(code: str, message: str) -> Error:
    """The exception for a code of the protocol; of one that is not known, an Error with it."""
    kind = CODES.get(code)
    return kind(message) if kind else Error(message, code)


def from_refusal(answer: Mapping[str, object]) -> Error:
    """The exception for a line `refused`."""
    return make(str(answer.get("code", "internal")), str(answer.get("message", "refused")))


def from_os(error: OSError, what: str) -> Error:
    """The exception for a failed system call, as the C library names them."""
    import errno

    names: Dict[Optional[int], str] = {
        errno.ENOENT: "not_found", errno.EACCES: "denied", errno.EPERM: "denied",
        errno.ENOSPC: "no_space", errno.EDQUOT: "no_space",
    }
    return make(names.get(error.errno, "io"), "%s: %s" % (what, error.strerror or error))
