"""Classes under which code for an older interpreter runs: change the import, keep the rest.

    from fumehood.compat import LocalCodeInterpreter, NotebookSerializer

Each class is also in the module of the name that it had: local_interpreter, notebook_serializer,
base_interpreter, interpreter_factory, response.
"""
from __future__ import annotations

from .base_interpreter import BaseCodeInterpreter
from .interpreter_factory import create_interpreter
from .local_interpreter import LocalCodeInterpreter
from .notebook_serializer import NotebookSerializer
from .response import (ErrorModel, InterpreterMessage, OutputItem, ResultModel, StdErrModel,
                       StdOutModel, SystemMessage, ToolMessage, UserMessage)

__all__ = [
    "BaseCodeInterpreter", "ErrorModel", "InterpreterMessage", "LocalCodeInterpreter",
    "NotebookSerializer", "OutputItem", "ResultModel", "StdErrModel", "StdOutModel",
    "SystemMessage", "ToolMessage", "UserMessage", "create_interpreter",
]
