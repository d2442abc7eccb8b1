"""BaseCodeInterpreter: what an interpreter of the original has, whatever runs the code.

Sections are buckets for texts and images; `_truncate_text` is how a text is cut for the model;
`_push_to_websocket` is the hook through which outputs leave. By default they go to `publish`, a
function of (task_id, message) that may be a coroutine function; without one nobody is told.
"""
from __future__ import annotations

import abc
import inspect
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from . import ansi
from .response import InterpreterMessage, Message, OutputItem

CUT = "\n... (内容已截断) ...\n"
ITEM_CHARS = 1000
Publish = Callable[[str, Message], Any]


class BaseCodeInterpreter(abc.ABC):
    """The interface."""

    def __init__(self, task_id: str, work_dir: str, notebook_serializer: Any,
                 publish: Optional[Publish] = None) -> None:
        self.task_id = task_id
        self.work_dir = work_dir
        self.notebook_serializer = notebook_serializer
        self.publish = publish
        self.section_output: Dict[str, Dict[str, List[str]]] = {}
        self.last_created_images: Set[str] = set()
        self.current_section: Optional[str] = None

    @abc.abstractmethod
    async def initialize(self) -> None: ...

    @abc.abstractmethod
    def _pre_execute_code(self) -> Any: ...

    @abc.abstractmethod
    async def execute_code(self, code: str) -> Tuple[str, bool, str]: ...

    @abc.abstractmethod
    async def cleanup(self) -> None: ...

    @abc.abstractmethod
    async def get_created_images(self, section: str) -> List[str]: ...

    # ---- telling

    async def _publish(self, message: Message) -> None:
        if self.publish is not None:
            told = self.publish(self.task_id, message)
            if inspect.isawaitable(told):
                await told

    async def _push_to_websocket(self, content_to_display: Optional[List[OutputItem]]) -> None:
        await self._publish(InterpreterMessage(output=content_to_display))

    # ---- sections

    def add_section(self, section_name: str) -> None:
        """Begins a section; one that is there already goes on."""
        self.section_output.setdefault(section_name, {"content": [], "images": []})
        self.current_section = section_name

    def add_content(self, section: str, text: str) -> None:
        """Adds a text to a section. What the interpreter has added itself is not added again."""
        content = self.section_output.setdefault(
            section, {"content": [], "images": []})["content"]
        if not content or content[-1] != text:
            content.append(text)

    def get_code_output(self, section: str) -> str:
        """The texts of a section; empty when there is none of that name."""
        return "\n".join(self.section_output.get(section, {}).get("content", ()))

    # ---- texts

    def delete_color_control_char(self, string: str) -> str:
        return ansi.strip(string)

    def _truncate_text(self, text: str, max_length: int = ITEM_CHARS) -> str:
        if len(text) <= max_length:
            return text
        half = max_length // 2
        return text[:half] + CUT + text[-half:]
