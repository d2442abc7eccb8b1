"""NotebookSerializer: a notebook that grows while an agent works, in a file that is always whole.

The same methods as the original's. Where it differs, so that nothing is lost (decision 076):

- a text output has `text/plain` beside its HTML, and the HTML is a fragment, not a document;
- the file is exchanged at once (temporary file, fsync, rename), with the bytes that nbformat.write
  would give;
- a notebook that is there is not overwritten but put aside as `notebook-1.ipynb`, `-2` …;
- the folder is made when it is missing; output before any code cell gets one.

LocalCodeInterpreter uses more than the original's methods: `add_outputs`, with which streams,
values and errors become what Jupyter makes of them.
"""
from __future__ import annotations

import itertools
import json
import logging
import os
import pathlib
import uuid
from typing import Any, Dict, List, Optional, Sequence

from ..result import Output
from . import ansi

logger = logging.getLogger("fumehood")

_SPLIT_MIMES = ("application/javascript", "image/svg+xml")


class Node(Dict[str, Any]):
    """An object of the notebook, with its members as attributes, as nbformat's."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


def _lines(value: Any) -> Any:
    return value.splitlines(True) if isinstance(value, str) else value


def _split(cell: Dict[str, Any]) -> Dict[str, Any]:
    """A cell as it stands in the file: text as a list of lines."""
    made = {**cell, "source": _lines(cell["source"])}
    if "outputs" in cell:
        made["outputs"] = [_split_output(output) for output in cell["outputs"]]
    return made


def _split_output(output: Dict[str, Any]) -> Dict[str, Any]:
    if output["output_type"] == "stream":
        return {**output, "text": _lines(output["text"])}
    if "data" not in output:
        return output
    return {**output, "data": {
        mime: _lines(value) if mime.startswith("text/") or mime in _SPLIT_MIMES else value
        for mime, value in output["data"].items()}}


class NotebookSerializer:
    """Collects cells and keeps them in `work_dir/notebook_name`. Without a work_dir nothing is
    written."""

    def __init__(self, work_dir: Optional[str] = None, notebook_name: str = "notebook.ipynb"
                 ) -> None:
        self.nb = Node()
        self.notebook_path: Optional[str] = None
        self.initialized = True
        self.segmentation_output_content: Dict[str, str] = {}
        self.current_segmentation = ""
        self._began = False
        self.init_notebook(work_dir, notebook_name)

    def init_notebook(self, work_dir: Optional[str] = None, notebook_name: str = "notebook.ipynb"
                      ) -> None:
        """An empty notebook; where it will be written."""
        self.nb = Node(cells=[], metadata=Node(
            kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
            language_info={"name": "python"}), nbformat=4, nbformat_minor=5)
        self._began = False
        if work_dir:
            base, extension = os.path.splitext(notebook_name)
            if extension.lower() != ".ipynb":
                notebook_name += ".ipynb"
            self.notebook_path = os.path.join(work_dir, notebook_name)

    def ansi_to_html(self, ansi_text: str) -> str:
        return ansi.to_html(ansi_text)

    # ---- the file

    def write_to_notebook(self) -> None:
        """Writes all of it, whole or not at all."""
        if not self.notebook_path:
            return
        path = pathlib.Path(self.notebook_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not self._began:
            _put_aside(path)
            self._began = True
        whole = {**self.nb, "cells": [_split(cell) for cell in self.nb["cells"]]}
        text = json.dumps(whole, ensure_ascii=False, indent=1, sort_keys=True,
                          separators=(",", ": ")) + "\n"
        new = path.with_name(".%s.%s.tmp" % (path.name, uuid.uuid4().hex[:8]))
        try:
            with open(new, "wb") as file:
                file.write(text.encode("utf-8", "replace"))
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise

    # ---- cells

    def _add_cell(self, cell: Dict[str, Any]) -> Node:
        made = Node(cell, id=uuid.uuid4().hex[:8])
        self.nb["cells"].append(made)
        return made

    def _code_cell(self, source: str, metadata: Optional[Dict[str, Any]] = None) -> Node:
        return self._add_cell({"cell_type": "code", "metadata": Node(metadata or {}),
                               "execution_count": None, "source": source, "outputs": []})

    def _last_code_cell(self) -> Node:
        for cell in reversed(self.nb["cells"]):
            if cell["cell_type"] == "code":
                found: Node = cell
                return found
        return self._code_cell("")

    def _add_output(self, output: Dict[str, Any]) -> None:
        self._last_code_cell()["outputs"].append(Node(output))
        self.write_to_notebook()

    def _remember(self, text: str) -> None:
        if self.current_segmentation:
            self.segmentation_output_content[self.current_segmentation] = (
                self.segmentation_output_content.get(self.current_segmentation, "") + text)

    # ---- what the original has

    def add_code_cell_to_notebook(self, code: str) -> None:
        self._code_cell(code)
        self.write_to_notebook()

    def add_code_cell_output_to_notebook(self, output: str) -> None:
        """A text output of the last code cell, with its colours."""
        self._remember(output)
        self._add_output({"output_type": "display_data", "metadata": {},
                          "data": {"text/plain": ansi.strip(output),
                                   "text/html": self.ansi_to_html(output)}})

    def add_code_cell_error_to_notebook(self, error: str) -> None:
        """An error: its name and value are read from the last line of the traceback."""
        lines = ansi.strip(error).strip().splitlines()
        name, _, value = (lines[-1] if lines else "Error").partition(": ")
        if not name.replace(".", "_").isidentifier():
            name, value = "Error", lines[-1] if lines else ""
        self._add_output({"output_type": "error", "ename": name, "evalue": value,
                          "traceback": [error]})

    def add_image_to_notebook(self, image: str, mime_type: str) -> None:
        """An image, in base64."""
        self._add_output({"output_type": "display_data", "metadata": {},
                          "data": {mime_type: image}})

    def add_markdown_to_notebook(self, content: str, title: Optional[str] = None) -> None:
        if title:
            content = "##### %s:\n%s" % (title, content)
        self._add_cell({"cell_type": "markdown", "metadata": Node(), "source": content})
        self.write_to_notebook()

    def add_markdown_segmentation_to_notebook(self, content: str, segmentation: str) -> None:
        """Begins a segmentation: the texts behind it can be asked for by its name."""
        self.current_segmentation = segmentation
        self.segmentation_output_content[segmentation] = ""
        self.add_markdown_to_notebook(content)

    def get_notebook_output_content(self, segmentation: str) -> str:
        """The text outputs of a segmentation; empty when there is none of that name."""
        return self.segmentation_output_content.get(segmentation, "")

    # ---- what LocalCodeInterpreter uses besides

    def add_setup_cell(self, code: str) -> None:
        """The code that prepared the session: without it the notebook would not run again."""
        self._code_cell(code, {"tags": ["setup"], "jupyter": {"source_hidden": True}})
        self.write_to_notebook()

    def add_outputs(self, outputs: Sequence[Output], execution_count: Optional[int]) -> None:
        """All outputs of the last code cell, each as what it is."""
        cell = self._last_code_cell()
        cell["execution_count"] = execution_count
        for output in outputs:
            cell["outputs"].append(Node(output.to_notebook()))
            if output.error is None and output.text:
                self._remember(output.text)
        self.write_to_notebook()

    @property
    def cells(self) -> List[Node]:
        found: List[Node] = self.nb["cells"]
        return found


def _put_aside(path: pathlib.Path) -> None:
    """Gives what is there another name: the record of an earlier run is nobody's to overwrite.

    It keeps its old name, too, until the new notebook takes that: whoever reads finds one of the
    two at any moment."""
    if not path.exists():
        return
    for number in itertools.count(1):
        aside = path.with_name("%s-%d%s" % (path.stem, number, path.suffix))
        if aside.exists():
            if aside.samefile(path):  # one that was killed here had come so far
                return
            continue
        try:
            os.link(path, aside)  # fails when the name is taken
        except FileExistsError:
            continue
        except OSError:  # a file system without links
            os.rename(path, aside)
        logger.warning("%s was there: it is %s now", path, aside.name)
        return
