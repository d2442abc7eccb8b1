"""What came of an ask: the result of `fumehood ask`, as doc/ask.md has it.

An Answer says how it is known. `success` alone is not "right": look at `confidence` ("checked",
"agreed" with k of n, "ran") and at `suspicions`. Without success stdout, stderr, code and response
are those of the best program, and `message` says what was wrong with it; `programs` has all of
them, so nothing of a failed ask is lost.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional

from . import errors, html
from .result import FileChange


class Line(Dict[str, Any]):
    """One line of an ask (doc/ask.md, "Lines"), with its commonest members by name."""

    @property
    def type(self) -> str:
        """"ask", "attempt", "token", "code", "output", "verdict", "result" or "error"."""
        return str(self.get("type", ""))

    @property
    def attempt(self) -> int:
        """Which program it is about, from 1; 0: none."""
        value = self.get("attempt")
        return value if isinstance(value, int) else 0

    @property
    def text(self) -> str:
        """What is readable of it: of a token or an output its text, of code the code."""
        key = {"code": "code", "result": "stdout", "ask": "instruction"}.get(
            self.type, "text" if self.type in ("token", "output") else "message")
        value = self.get(key)
        return value if isinstance(value, str) else ""

    @property
    def reasoning(self) -> bool:
        """Of a token: it is what the model thinks, and no part of its answer."""
        return self.get("reasoning") is True


@dataclass
class Program:
    """A program that was asked for, and what it did."""

    attempt: int = 0
    status: str = ""      # ok, error, died, timeout, interrupted, empty, no_code, repeated, model
    kind: str = "sample"  # or "repair" of the attempt `of`
    of: Optional[int] = None
    code: str = ""
    response: str = ""    # all that the model wrote
    stdout: str = ""
    stderr: str = ""
    error: Mapping[str, Any] = field(default_factory=dict)  # ename, evalue, line, source
    suspicions: List[str] = field(default_factory=list)
    group: Optional[int] = None  # programs of one outcome share it
    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Program:
        return cls(_number(item, "attempt"), _text(item, "status"), _text(item, "kind") or "sample",
                   item.get("of"), _text(item, "code"), _text(item, "response"),
                   _text(item, "stdout"), _text(item, "stderr"), item.get("error") or {},
                   _texts(item, "suspicions"), item.get("group"), item)

    def __repr__(self) -> str:
        return "Program(%d, %r, stdout=%r)" % (self.attempt, self.status, self.stdout[:100])


@dataclass
class Answer:
    """What came of an ask."""

    success: bool = False
    stdout: str = ""
    stderr: str = ""
    code: str = ""
    response: str = ""          # the model's whole text of the chosen program
    attempts: int = 0           # how many programs were asked for
    confidence: Optional[str] = None
    agreement: Optional[Mapping[str, int]] = None  # of `n` programs that ran, `k` said the same
    checks: List[Mapping[str, Any]] = field(default_factory=list)
    suspicions: List[str] = field(default_factory=list)
    message: str = ""           # why there is no success
    fault: Optional[Mapping[str, Any]] = None  # `code`, `message`: the model gave no more answers
    programs: List[Program] = field(default_factory=list)
    session: Optional[str] = None
    ask: Optional[str] = None
    cell: Optional[str] = None  # the chosen program's cell in the session
    files: List[FileChange] = field(default_factory=list)
    model: str = ""
    tokens: int = 0
    seconds: float = 0.0
    raw: Mapping[str, Any] = field(default_factory=dict)  # the whole line

    @classmethod
    def read(cls, line: Mapping[str, Any]) -> Answer:
        return cls(
            bool(line.get("success")), _text(line, "stdout"), _text(line, "stderr"),
            _text(line, "code"), _text(line, "response"), _number(line, "attempts"),
            line.get("confidence"), line.get("agreement"), list(line.get("checks") or ()),
            _texts(line, "suspicions"), _text(line, "message"), line.get("fault"),
            [Program.read(item) for item in line.get("programs") or ()], line.get("session"),
            line.get("ask"), line.get("cell"),
            [FileChange.read(item) for item in line.get("files") or ()], _text(line, "model"),
            _number(line, "tokens"), float(line.get("seconds") or 0), line)

    @property
    def ok(self) -> bool:
        return self.success

    @property
    def text(self) -> str:
        """What to say: what the program printed; without success, what was wrong."""
        return self.stdout if self.success else self.message or self.stderr

    @property
    def known(self) -> str:
        """How it is known, in words: "3 of 5 programs agree"."""
        if not self.success:
            return "no program succeeded"
        if self.confidence == "agreed" and self.agreement:
            return "%s of %s programs agree" % (self.agreement.get("k"), self.agreement.get("n"))
        return {"checked": "every check holds", "ran": "one program ran; nothing was checked"}.get(
            self.confidence or "", self.confidence or "")

    def raise_for_error(self) -> Answer:
        """Raises AnswerError without success; returns itself."""
        if self.success:
            return self
        raise errors.AnswerError(self.message or "no program succeeded", self)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return "Answer(success=%r, confidence=%r, stdout=%r)" % (
            self.success, self.confidence, self.stdout[:200])

    def _repr_html_(self) -> str:
        return html.answer(self)


def _text(item: Mapping[str, Any], key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""


def _texts(item: Mapping[str, Any], key: str) -> List[str]:
    return [str(one) for one in item.get(key) or ()]


def _number(item: Mapping[str, Any], key: str) -> int:
    value = item.get(key)
    return int(value) if isinstance(value, (int, float)) else 0
