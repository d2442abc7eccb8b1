"""Classes under which code for an older interpreter runs: change the import, keep the rest.

    from fumehood.compat import LocalCodeInterpreter, NotebookSerializer
    from fumehood.compat import SLMCodeInterpreter, run_server

Each class is also in the module of the name that it had: local_interpreter, notebook_serializer,
base_interpreter, interpreter_factory, response; code_interpreter, executor, server.
"""
from __future__ import annotations

from .base_interpreter import BaseCodeInterpreter
from .code_interpreter import SLMCodeInterpreter
from .executor import run_code_safely
from .interpreter_factory import create_interpreter
from .local_interpreter import LocalCodeInterpreter
from .notebook_serializer import NotebookSerializer
from .response import (ErrorModel, InterpreterMessage, OutputItem, ResultModel, StdErrModel,
                       StdOutModel, SystemMessage, ToolMessage, UserMessage)
from .server import run_server

__all__ = [
    "BaseCodeInterpreter", "ErrorModel", "InterpreterMessage", "LocalCodeInterpreter",
    "NotebookSerializer", "OutputItem", "ResultModel", "SLMCodeInterpreter", "StdErrModel",
    "StdOutModel", "SystemMessage", "ToolMessage", "UserMessage", "create_interpreter",
    "run_code_safely", "run_server",
]
