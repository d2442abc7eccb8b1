"""The messages that go to who watches: the same members as those of the original, in the same
order.

They are objects with attributes, `model_dump()` and `model_dump_json()`. Members that a class does
not have are passed over, as there.
"""
from __future__ import annotations

import json
import uuid
from typing import Any, Dict, List, Optional


class Model:
    """Members by name, with defaults."""

    FIELDS: Dict[str, Any] = {}

    def __init__(self, **members: Any) -> None:
        for name, value in self.FIELDS.items():
            setattr(self, name, members.get(name, value))

    def model_dump(self) -> Dict[str, Any]:
        def plain(value: Any) -> Any:
            if isinstance(value, Model):
                return value.model_dump()
            return [plain(item) for item in value] if isinstance(value, list) else value
        return {name: plain(getattr(self, name)) for name in self.FIELDS}

    def model_dump_json(self) -> str:
        return json.dumps(self.model_dump(), ensure_ascii=False, separators=(",", ":"))

    dict = model_dump
    json = model_dump_json

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return "%s(%s)" % (type(self).__name__, ", ".join(
            "%s=%r" % (name, getattr(self, name)) for name in self.FIELDS))


class Message(Model):
    """What all messages have."""

    id: str
    msg_type: str
    content: Optional[str]
    FIELDS = {"id": None, "msg_type": "system", "content": None}

    def __init__(self, **members: Any) -> None:
        super().__init__(**members)
        if self.id is None:
            self.id = str(uuid.uuid4())


class SystemMessage(Message):
    type: str
    FIELDS = {**Message.FIELDS, "type": "info"}


class UserMessage(Message):
    FIELDS = {**Message.FIELDS, "msg_type": "user"}


class AgentMessage(Message):
    agent_type: Optional[str]
    FIELDS = {**Message.FIELDS, "msg_type": "agent", "agent_type": None}


class ToolMessage(Message):
    tool_name: str
    input: Optional[Dict[str, Any]]
    output: Optional[List[Any]]
    FIELDS = {**Message.FIELDS, "msg_type": "tool", "tool_name": "execute_code", "input": None,
              "output": None}


class OutputItem(Model):
    res_type: str
    msg: str


class StdOutModel(OutputItem):
    FIELDS = {"res_type": "stdout", "msg": ""}


class StdErrModel(OutputItem):
    FIELDS = {"res_type": "stderr", "msg": ""}


class ResultModel(OutputItem):
    """`format`: text, html, markdown, png, jpeg, svg, pdf, latex, json or javascript."""

    format: str
    FIELDS = {"res_type": "result", "format": "text", "msg": ""}


class ErrorModel(OutputItem):
    name: str
    value: str
    traceback: str
    FIELDS = {"res_type": "error", "name": "", "value": "", "traceback": ""}


class InterpreterMessage(ToolMessage):
    """Code that goes in (`input`), or what came out (`output`: a list of OutputItem)."""
