"""Tasks with exact answers: reading them, laying out their files, and what counts as right.

A task is one JSON object a line (../tasks/README.md). Right is exact: standard output without
blanks at ends of lines and empty lines at the end, and every file that is to be there, compared in
the same way.
"""

import importlib.util
import json
import os

FILE_BYTES_MAX = 1 << 20  # of a file that a program wrote


def read(paths, only=()):
    """The tasks of these files, in order; those whose packages are missing are left out and named.

    Returns (tasks, missing), missing: {package: number of tasks}.
    """
    tasks, missing = [], {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in filter(str.strip, file):
                task = json.loads(line)
                if only and task["id"] not in only:
                    continue
                lacks = [name for name in task["needs"] if not importlib.util.find_spec(name)]
                for name in lacks:
                    missing[name] = missing.get(name, 0) + 1
                if not lacks:
                    tasks.append(task)
    return tasks, missing


def lay_out(task, folder):
    for name, content in task["files"].items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(content)


def written(task, folder):
    """Of the files that the task expects, those that are there: {name: content}."""
    found = {}
    for name in task["expect_files"]:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace", newline="") as file:
                found[name] = file.read(FILE_BYTES_MAX)
    return found


def plain(text):
    """Text as it is compared."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines).rstrip("\n")


def is_right(task, stdout, files):
    """Whether an outcome is the task's: `files` as written() gives them."""
    right = plain(stdout) == plain(task["expect_stdout"])
    if not right and task.get("check"):
        try:
            right = bool(eval(task["check"], {"out": plain(stdout), "json": json}))
        except (ValueError, KeyError, IndexError, TypeError):
            right = False
    return right and all(
        name in files and plain(files[name]) == plain(content)
        for name, content in task["expect_files"].items()
    )
