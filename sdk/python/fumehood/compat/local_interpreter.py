"""LocalCodeInterpreter on a Fumehood session: the original's interface without its faults.

The methods, the three values of execute_code, the marks, the cut, the image lines, the order of the
messages: as the original's (reference in decision 076). What is different, because it was wrong
there:

- The code runs in a sandbox with the work directory as its workspace, and none of the caller's
  variables; `execute_code` waits in a thread, so the event loop goes on.
- A cell has a time limit; a dead interpreter is an error with a sentence, and the session goes on.
- stderr is there, marked [stderr]; a time-out or an error keeps what was printed before.
- send_interrupt_signal() interrupts at once, and never the next cell.
- A section has the texts and images of its own cells, without anybody adding them; images are found
  by what cells wrote, in subfolders, overwritten, of any type, and shown ones get a file.
- The setup (fonts) works for any path, says when it fails, and stands in the notebook.
- cleanup() may be called at any time and leaves nothing.
"""
from __future__ import annotations

import asyncio
import logging
import os
import threading
from typing import Any, Dict, List, Optional, Set, Tuple

from .. import errors
from ..result import FileChange, Output, Result
from ..session import Session
from . import ansi
from .base_interpreter import BaseCodeInterpreter, Publish
from .response import OutputItem, ResultModel, StdErrModel, SystemMessage

logger = logging.getLogger("fumehood")

CELL_S_MAX = 3000
TOTAL_CHARS = 20_000
IMAGE_LINE = "[%s 图片已生成，内容为 base64，未展示]"
_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".svg",
                   ".pdf")
_RICH = {"text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg",
         "application/pdf": "pdf", "text/latex": "latex", "application/json": "json",
         "application/javascript": "javascript"}

# Runs in the session. Only fonts that are there are named: matplotlib would warn of the others at
# each drawing.
SETUP = '''\
import glob
try:
    import matplotlib
    from matplotlib import font_manager
except ImportError:
    pass
else:
    for path in sorted(glob.glob("*.[to]t[fc]") + glob.glob("*.[TO]T[FC]")):
        try:
            font_manager.fontManager.addfont(path)
        except (OSError, RuntimeError) as error:
            print("the font", path, "cannot be used:", error)
    known = {font.name for font in font_manager.fontManager.ttflist}
    wanted = ["SimHei", "Heiti SC", "STHeiti", "PingFang SC", "Noto Sans CJK SC", "Noto Sans SC",
              "WenQuanYi Micro Hei", "Microsoft YaHei"]
    matplotlib.rcParams["font.sans-serif"] = [
        name for name in wanted if name in known] + ["DejaVu Sans", "sans-serif"]
    matplotlib.rcParams["axes.unicode_minus"] = False
    matplotlib.rcParams["font.family"] = "sans-serif"
    del known, wanted
del glob
'''


class Kernel:
    """What `km` and `kc` are asked for, of the session."""

    def __init__(self, interpreter: LocalCodeInterpreter) -> None:
        self._interpreter = interpreter

    def is_alive(self) -> bool:
        session = self._interpreter.session
        return session is not None and not session.closed

    def interrupt_kernel(self) -> None:
        self._interpreter.send_interrupt_signal()

    def restart_kernel(self, **_: Any) -> None:
        self._interpreter.restart_jupyter_kernel()

    def shutdown_kernel(self, **_: Any) -> None:
        self._interpreter._close()

    shutdown = shutdown_kernel


class LocalCodeInterpreter(BaseCodeInterpreter):
    """Parameters of the original, and: `timeout`, seconds a cell may run; `publish`, who is told;
    all others go to Session (`allow_net`, `memory`, `python` …)."""

    #: whether outputs other than text, PNG and JPEG are pushed, too. A page that shows them must
    #: not run what is in them.
    push_rich = False

    def __init__(self, task_id: str, work_dir: str, notebook_serializer: Any, *,
                 timeout: float = CELL_S_MAX, publish: Optional[Publish] = None,
                 **session_options: Any) -> None:
        super().__init__(task_id, work_dir, notebook_serializer, publish)
        self.km: Optional[Kernel] = None
        self.kc: Optional[Kernel] = None
        self.interrupt_signal = False
        self.session: Optional[Session] = None
        self._options = {"timeout": timeout, **session_options}
        self._sections: Dict[str, Optional[str]] = {}  # of each cell
        self._ours: Set[str] = set()  # files that were written here, not by a cell
        self._others: Set[Tuple[str, str]] = set()  # cell and file that came before it: uploads
        self._since = 0
        self._unclaimed: Dict[str, Optional[str]] = {}  # image files, and their sections
        self._lock = threading.Lock()

    # ---- begin and end

    async def initialize(self) -> None:
        logger.info("starting a session for %s", self.task_id)
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        self._create_work_dir()
        self.session = Session(workspace=self.work_dir, **self._options)
        self.km = self.kc = Kernel(self)
        self._since = self.session.status().last_seq
        self._pre_execute_code()

    def _create_work_dir(self) -> None:
        self.work_dir = os.path.abspath(self.work_dir)
        os.makedirs(self.work_dir, exist_ok=True)

    def _pre_execute_code(self) -> None:
        """Fonts of the work directory, and settings under which Chinese text is drawn."""
        if hasattr(self.notebook_serializer, "add_setup_cell"):
            self.notebook_serializer.add_setup_cell(SETUP)
        result = self._session().run(SETUP)
        if not result.ok or result.stdout:
            logger.warning("the setup of the session: %s", result.text)

    def _session(self) -> Session:
        if self.session is None:
            raise errors.UsageError("call initialize() first")
        if self.session.closed:
            raise errors.GoneError("the session was cleaned up: call initialize() again")
        return self.session

    def _close(self) -> None:
        with self._lock:
            session, self.session = self.session, None
            self.km = self.kc = None
        if session is not None:
            session.close()

    async def cleanup(self) -> None:
        """Ends the session. The notebook and the work directory stay."""
        await asyncio.to_thread(self._close)

    def restart_jupyter_kernel(self) -> None:
        """A new interpreter in the same work directory."""
        self._create_work_dir()
        self._session().restart()
        self.interrupt_signal = False
        self._pre_execute_code()

    def send_interrupt_signal(self) -> None:
        """Interrupts the cell that runs, if one does."""
        session = self.session
        if session is not None and not session.closed:
            self.interrupt_signal = session.interrupt()

    # ---- running

    async def execute_code(self, code: str) -> Tuple[str, bool, str]:
        """Runs a cell: (text for the model, whether it failed, the error's text)."""
        logger.info("running code of %s", self.task_id)
        self._session()
        # In threads, as all that waits for a disk or a cell: the event loop goes on.
        await asyncio.to_thread(self.notebook_serializer.add_code_cell_to_notebook, code)
        await self._publish(SystemMessage(content="开始执行代码"))
        result = await self._run(code)
        await self._publish(SystemMessage(content="代码执行完成"))
        await asyncio.to_thread(self._record, result)
        texts, shown = self._items(result)
        error = self._error_text(result)
        if error and not any(output.error for output in result.outputs):
            texts.append(self._truncate_text(error))
            shown.append(StdErrModel(msg=error))
        text = self._truncate_text("\n".join(texts), TOTAL_CHARS)
        if self.current_section is not None:
            super().add_content(self.current_section, text)
        await self._push_to_websocket(shown)
        return text, not result.ok, self._truncate_text(error) if error else ""

    async def _run(self, code: str) -> Result:
        """In a thread; a task that is cancelled interrupts the cell and waits for its end."""
        waiting = asyncio.ensure_future(asyncio.to_thread(self._run_cell, code))
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            await asyncio.to_thread(self.send_interrupt_signal)
            await asyncio.wait((waiting,))
            raise

    def _run_cell(self, code: str) -> Result:
        section = self.current_section
        try:
            result = self._session().run(code, max_chars=0)
        except errors.GoneError as error:
            self._close()
            self._open()  # the record goes on in the notebook; the variables are gone
            return Result(status="died", reason=str(error), state="reset")
        finally:
            self.interrupt_signal = False
        self._sections[result.cell] = section
        self._others.update((result.cell, change.path)
                            for change in result.files if change.background)
        self._keep_shown(result, section)
        return result

    def _keep_shown(self, result: Result, section: Optional[str]) -> None:
        """Images that a cell has shown and not written get files, so that they can be used."""
        if not result.images or any(_is_image(change) for change in result.files):
            return
        number = 0
        for image in result.images:
            end = image.mime.partition("/")[2].partition("+")[0]
            path = None
            while path is None or os.path.lexists(os.path.join(self.work_dir, path)):
                number += 1
                path = "figure-%s-%d.%s" % (result.cell, number, "jpg" if end == "jpeg" else end)
            try:
                self._session().files.put(path, image.data)
            except errors.Error as error:
                logger.warning("a figure of %s gets no file: %s", result.cell, error)
                return
            self._ours.add(path)
            self._unclaimed[path] = section

    def execute_code_(self, code: str) -> List[Tuple[str, str]]:
        """Runs a cell without a record: its outputs as (mark, text)."""
        result = self._run_cell(code)
        marks = [mark for output in result.outputs for mark in self._marks(output)]
        if not result.ok and not any(output.error for output in result.outputs):
            marks.append(("error", self._error_text(result)))
        return marks

    def _marks(self, output: Output) -> List[Tuple[str, str]]:
        """An output as the original's marks: text, HTML, PNG, JPEG, in this order."""
        if output.error is not None:
            return [("error", self.delete_color_control_char(output.text))]
        if output.kind in ("stdout", "stderr"):
            return [(output.kind, ansi.settle(output.text))]
        begin = "execute_result" if output.kind == "result" else "display"
        text, found = output.data.get("text/plain"), []
        drawn = "image/png" in output.data or "image/jpeg" in output.data
        if isinstance(text, str) and not (drawn and text.startswith("<Figure size ")):
            found.append((begin + "_text", text))
        for mime, end in (("text/html", "_html"), ("image/png", "_png"), ("image/jpeg", "_jpeg")):
            if isinstance(output.data.get(mime), str):
                found.append((begin + end, output.data[mime]))
        return found

    def _items(self, result: Result) -> Tuple[List[str], List[OutputItem]]:
        """The texts for the model, and what is pushed."""
        texts: List[str] = []
        shown: List[OutputItem] = []
        for output in result.outputs:
            for mark, text in self._marks(output):
                if mark == "error":
                    texts.append(self._truncate_text(self._error_text(result)))
                    shown.append(StdErrModel(msg=self._error_text(result)))
                elif mark.endswith(("_png", "_jpeg")):
                    texts.append(IMAGE_LINE % mark)
                    shown.append(ResultModel(format=mark.rpartition("_")[2], msg=text.strip()))
                elif not mark.endswith("_html"):
                    texts.append(self._truncate_text("[%s]\n%s" % (mark, text)))
                    shown.append(StdErrModel(msg=text) if mark == "stderr"
                                 else ResultModel(format="text", msg=text))
            if self.push_rich:
                shown += [ResultModel(format=form, msg=str(output.data[mime]))
                          for mime, form in _RICH.items() if mime in output.data]
        return texts, shown

    def _error_text(self, result: Result) -> str:
        """The traceback; of a time-out or a death also what that means."""
        if result.ok:
            return ""
        raised = [output.text for output in result.outputs if output.error]
        if raised and result.status == "error":
            return self.delete_color_control_char(raised[-1])
        return "\n".join([self.delete_color_control_char(text) for text in raised[-1:]]
                         + [result.explain()])

    def _record(self, result: Result) -> None:
        """Puts the outputs into the notebook."""
        serializer = self.notebook_serializer
        outputs = list(result.outputs)
        if not result.ok and not any(output.error for output in outputs):
            failure = result.error
            outputs.append(Output("error", str(failure), error=failure))
        if hasattr(serializer, "add_outputs"):
            serializer.add_outputs(outputs, result.execution_count)
            return
        for output in outputs:  # one that has only the original's methods
            for mark, text in self._marks(output):
                if mark == "error":
                    serializer.add_code_cell_error_to_notebook(text)
                elif mark.endswith(("_png", "_jpeg")):
                    serializer.add_image_to_notebook(text, "image/" + mark.rpartition("_")[2])
                elif not mark.endswith("_html"):
                    serializer.add_code_cell_output_to_notebook(text)

    # ---- sections and images

    def add_section(self, section_name: str) -> None:
        """Begins a section, with a heading in both notebooks."""
        is_new = section_name not in self.section_output
        super().add_section(section_name)
        if self.session is not None and not self.session.closed:
            self.session.section(section_name)
        if is_new and hasattr(self.notebook_serializer, "add_markdown_segmentation_to_notebook"):
            self.notebook_serializer.add_markdown_segmentation_to_notebook(
                "## " + section_name, section_name)

    async def get_created_images(self, section: str) -> List[str]:
        """Image files that cells of this section have made or changed since the last call, as paths
        from the work directory. A section that was never begun: those of all cells."""
        return await asyncio.to_thread(self._created_images, section)

    def _created_images(self, section: str) -> List[str]:
        session = self._session()
        changes, self._since = session.changes(self._since)
        for change in changes:
            if change.change == "deleted":
                self._unclaimed.pop(change.path, None)
            elif (change.path in self._ours or change.cell is None
                  or (change.cell, change.path) in self._others):
                continue
            elif _is_image(change):
                self._unclaimed[change.path] = self._sections.get(change.cell)
        found = [path for path, owner in self._unclaimed.items()
                 if section not in self.section_output or owner == section]
        for path in found:
            del self._unclaimed[path]
        found = sorted(path for path in found if os.path.lexists(
            os.path.join(self.work_dir, path)))
        self.last_created_images.update(found)
        self.section_output.get(section, {"images": []})["images"].extend(found)
        return found


def _is_image(change: FileChange) -> bool:
    return change.mime.startswith("image/") or change.path.lower().endswith(_IMAGE_SUFFIXES)
