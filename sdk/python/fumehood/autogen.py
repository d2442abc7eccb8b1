"""FumehoodCodeExecutor: AutoGen's CodeExecutor (autogen-core 0.4 and later), in a session.

    from fumehood.autogen import FumehoodCodeExecutor

    async with FumehoodCodeExecutor(timeout=60) as executor:
        agent = CodeExecutorAgent("runner", code_executor=executor)

The blocks of one message run one after the other, to the first that fails; what was printed until
then is in the output, and the exit code is not 0. Variables stay from message to message.
"""
from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

from autogen_core import CancellationToken, Component
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult
from pydantic import BaseModel

from . import errors
from .aio import AsyncSession
from .result import Result

PYTHON = ("python", "python3", "py", "ipython", "")
SHELL = ("bash", "sh", "shell")
TIMED_OUT = 124  # as timeout(1), and AutoGen's own executors


@dataclass
class FumehoodCodeResult(CodeResult):
    """With the files that images were saved to."""

    output_files: List[str] = field(default_factory=list)


class FumehoodCodeExecutorConfig(BaseModel):
    """What dump_component() keeps."""

    timeout: float = 60
    output_dir: Optional[str] = None
    options: Dict[str, Any] = {}


class FumehoodCodeExecutor(CodeExecutor, Component[FumehoodCodeExecutorConfig]):
    """`timeout`: seconds a block may run; `output_dir`: where images are saved; all else: the
    parameters of AsyncSession."""

    component_config_schema = FumehoodCodeExecutorConfig
    component_provider_override = "fumehood.autogen.FumehoodCodeExecutor"

    def __init__(self, *, timeout: float = 60, output_dir: Optional[str] = None,
                 **options: Any) -> None:
        if not timeout > 0:
            raise errors.UsageError("timeout is more than 0 seconds")
        self._timeout, self._output_dir, self._options = timeout, output_dir, options
        self._session: Optional[AsyncSession] = None
        self._count = 0

    @property
    def session(self) -> AsyncSession:
        if self._session is None:
            raise errors.UsageError("the executor is not started: use it as `async with`")
        return self._session

    async def start(self) -> None:
        if self._session is None:
            self._session = await AsyncSession(**self._options).start()

    async def stop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def restart(self) -> None:
        """A new interpreter; files stay."""
        await self.session.restart()

    async def execute_code_blocks(self, code_blocks: List[CodeBlock],
                                  cancellation_token: CancellationToken) -> FumehoodCodeResult:
        await self.start()
        made = FumehoodCodeResult(exit_code=0, output="")
        outputs: List[str] = []
        for block in code_blocks:
            code = _code_of(block)
            if code is None:
                outputs.append("the language %s cannot be run; there are python and bash"
                               % block.language)
                made.exit_code = 1
                break
            task = asyncio.ensure_future(self.session.run(code, timeout=self._timeout))
            cancellation_token.link_future(task)
            result = await task
            outputs.append(result.text)
            made.output_files += await asyncio.to_thread(self._save, result)
            made.exit_code = _exit_code(result)
            if made.exit_code:
                break
        made.output = "\n".join(outputs)
        return made

    def _save(self, result: Result) -> List[str]:
        """Saves the images; without output_dir they are only named in the text."""
        if self._output_dir is None:
            return []
        os.makedirs(self._output_dir, exist_ok=True)
        saved = []
        for image in result.images:
            path = None
            while path is None or os.path.exists(path):
                self._count += 1
                path = os.path.join(self._output_dir, "image-%d%s" % (
                    self._count, ".jpg" if image.mime == "image/jpeg" else
                    "." + image.mime.partition("/")[2].partition("+")[0]))
            saved.append(image.save(path))
        return saved

    def _to_config(self) -> FumehoodCodeExecutorConfig:
        return FumehoodCodeExecutorConfig(timeout=self._timeout, output_dir=self._output_dir,
                                          options=self._options)

    @classmethod
    def _from_config(cls, config: FumehoodCodeExecutorConfig) -> FumehoodCodeExecutor:
        return cls(timeout=config.timeout, output_dir=config.output_dir, **config.options)


def _code_of(block: CodeBlock) -> Optional[str]:
    language = block.language.strip().lower()
    if language in PYTHON:
        return block.code
    if language in SHELL:
        shell = "bash" if language == "bash" else "sh"
        return ("import subprocess\n"
                "status = subprocess.run([%r, '-c', %r]).returncode\n"
                "if status:\n    raise SystemExit(status)\n" % (shell, block.code))
    return None


def _exit_code(result: Result) -> int:
    if result.ok:
        return 0
    if result.status == "timeout":
        return TIMED_OUT
    failure = result.error
    if failure is not None and failure.name == "SystemExit" and failure.value.isdigit():
        return int(failure.value)
    return 1
