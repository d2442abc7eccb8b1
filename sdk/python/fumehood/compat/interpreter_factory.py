"""create_interpreter: the original's factory. There is one kind, and it is local."""
from __future__ import annotations

from typing import Any

from .. import errors
from .local_interpreter import CELL_S_MAX, LocalCodeInterpreter


async def create_interpreter(kind: str = "local", *, task_id: str, work_dir: str,
                             notebook_serializer: Any, timeout: float = CELL_S_MAX,
                             **options: Any) -> LocalCodeInterpreter:
    """An interpreter that has been initialised. `timeout`: seconds a cell may run."""
    if kind not in ("local", "remote"):
        raise errors.UsageError("kind is local or remote, not %s" % kind)
    made = LocalCodeInterpreter(task_id, work_dir, notebook_serializer, timeout=timeout, **options)
    await made.initialize()
    return made
