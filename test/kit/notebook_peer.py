#!/usr/bin/env python3
"""Executes notebooks with nbclient and ipykernel, for test_public_notebooks.py, which compares.

Usage: notebook_peer.py FOLDER; started with the Python whose kernel is wanted. A line of stdin is
the path of a notebook; it is executed in its own folder, by a kernel of its own, and written back.
A line of stdout answers: null, or the sentence that says what ended the run. FOLDER is for the
kernel's own files.

One process executes many: to import nbclient takes longer than most notebooks.
"""
import json
import os
import pathlib
import sys

import nbclient
import nbformat


def prepare(folder):
    """A kernel `python3` that is this Python, and nothing of the user's."""
    spec = folder / "kernels" / "python3"
    spec.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}",
            "--InteractiveShell.colors=nocolor"]  # as in Fumehood
    spec.joinpath("kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"})
    )
    os.environ.update(
        PATH=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"], SHELL="/bin/bash",
        JUPYTER_PATH=str(folder), HOME=str(folder), IPYTHONDIR=str(folder / "ipython"),
        JUPYTER_RUNTIME_DIR=str(folder / "runtime"), MPLCONFIGDIR=str(folder / "matplotlib")
    )
    os.environ.pop("PYTEST_CURRENT_TEST", None)  # with it ipykernel does not look at descriptors


def show_pages(cell, cell_index, execute_reply):
    """What is for the pager (`name?`) comes with the reply. JupyterLab makes a display of it, as
    Fumehood does; nbclient drops it."""
    for payload in execute_reply["content"].get("payload", ()):
        if payload["source"] == "page":
            cell.outputs.append(nbformat.v4.new_output("display_data", payload["data"]))


def execute(path):
    notebook = nbformat.read(path, as_version=4)
    options = {"allow_errors": True, "timeout": 120, "record_timing": False,
               "on_cell_executed": show_pages}
    resources = {"metadata": {"path": str(path.parent)}}
    error = None
    try:
        nbclient.NotebookClient(notebook, resources=resources, **options).execute()
    except Exception as failure:
        error = "%s: %s" % (type(failure).__name__, failure)
    nbformat.write(notebook, path)
    return error


def main():
    prepare(pathlib.Path(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "w")  # not inherited: a kernel prints to its stdout, too
    os.dup2(2, 1)
    for line in sys.stdin:
        answer = execute(pathlib.Path(line.rstrip("\n")))
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
