"""Sandboxed, stateful Python sessions for agents.

    import fumehood

    with fumehood.Session() as session:
        session.run("x = 6")
        result = session.run("print('hello'); x * 7")
        print(result.stdout, result.result)            # hello, 42
        print(result.text)                             # what to give to a model

Needs the program `fumehood` (on PATH, or named by $FUMEHOOD) and nothing but the standard library.
Modules for others' interfaces are imported by name: fumehood.tools (OpenAI, Anthropic),
fumehood.smolagents, fumehood.autogen, fumehood.compat (LocalCodeInterpreter, NotebookSerializer,
SLMCodeInterpreter).
"""
from __future__ import annotations

from .aio import AsyncRun, AsyncSession
from .aio_asking import AsyncAsking
from .answer import Answer, Line, Program
from .asking import Asking, ask, start_ask
from .calls import Checkpoint, Completion, Entry, Inspection, Rollback, Status, Variable, Variables
from .errors import (AnswerError, BusyError, CellError, CorruptError, DeniedError, DiskError,
                     DuplicateError, EngineError, Error, GoneError, InternalError, InvalidError,
                     LimitError, NoSpaceError, NotFoundError, NotInstalledError, SandboxError,
                     TimedOutError, UnsupportedError, UsageError)
from .result import CellFailure, Event, FileChange, Image, Output, Result
from .run import Run
from .session import Session, remove, sessions

__version__ = "0.1.0"

__all__ = [
    "Answer", "AnswerError", "Asking", "AsyncAsking", "AsyncRun", "AsyncSession", "BusyError",
    "CellError", "CellFailure", "Checkpoint", "Completion", "CorruptError", "DeniedError",
    "DiskError", "DuplicateError", "EngineError", "Entry", "Error", "Event", "FileChange",
    "GoneError", "Image", "Inspection", "InternalError", "InvalidError", "LimitError", "Line",
    "NoSpaceError", "NotFoundError", "NotInstalledError", "Output", "Program", "Result", "Rollback",
    "Run", "SandboxError", "Session", "Status", "TimedOutError", "UnsupportedError", "UsageError",
    "Variable", "Variables", "ask", "remove", "sessions", "start_ask",
]
