#!/usr/bin/env python3
"""Checks the form of the sources: what CONTRIBUTING.md says and no compiler sees.

Usage: style.py [ROOT]. Prints each complaint as file:line and exits with 1, else with 0.
The layout inside a line is .clang-format's business; its versions differ, so it is not compared
here.
"""
import ast
import os
import re
import sys

COLUMNS = 100
LINES = 650          # "up to about 500", with room for the table that a test may be
FUNCTION_LINES = 80  # "fits a screen"
FOLDERS = ("src", "include", "python", "sdk", "test", "tools", "bench", "examples",
           "editor", ".ci")
ENDINGS = (".c", ".h", ".py", ".sh", ".build", ".ts", ".mjs")
NOT_OURS = ("__pycache__", "node_modules", "dist")
FILES = ("try", "check", "meson.build", "meson_options.txt")
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" "DO", "FIX" "ME", "X" "XX", "HA" "CK")) + r")\b")
TYPEDEF = re.compile(r"^\s*typedef\s+(struct|union|enum)\b")
PYTHON_OLDEST = (3, 9)  # what the zygote and the SDK must run on
OLDEST_FOLDERS = (os.path.join("python", ""), os.path.join("sdk", "python", "fumehood", ""))


def sources(root):
    for name in FILES:
        if os.path.exists(os.path.join(root, name)):
            yield name
    for folder in FOLDERS:
        for top, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = sorted(name for name in folders if name not in NOT_OURS)
            for name in sorted(names):
                if name.endswith(ENDINGS) or folder == ".ci":
                    yield os.path.relpath(os.path.join(top, name), root)


def width(line):
    return len(line.expandtabs(8))


def check_lines(path, lines):
    """Complaints about any text file: (line number, text)."""
    for number, line in enumerate(lines, 1):
        if width(line) > COLUMNS:
            yield number, "%d columns, of at most %d" % (width(line), COLUMNS)
        if line != line.rstrip():
            yield number, "white space at the end"
        if UNFINISHED.search(line) and not path.endswith("style.py"):
            yield number, "unfinished work"
    if lines and not lines[-1].strip():
        yield len(lines), "empty lines at the end"
    if len(lines) > LINES:
        yield len(lines), "more than %d lines" % LINES


def check_c(lines):
    """Complaints about C: the opening comment, tabs, typedefs, long functions."""
    if not lines[0].startswith("/*"):
        yield 1, "no comment that says how the file works"
    start = 0
    for number, line in enumerate(lines, 1):
        if re.match(r" {8}", line) or re.match(r"\t* +\t", line):
            yield number, "spaces where tabs belong"
        if TYPEDEF.match(line):
            yield number, "a typedef hides what it is"
        if line == "{":
            start = number
        if line == "}" and start:
            if number - start > FUNCTION_LINES:
                yield start, "a function of %d lines" % (number - start)
            start = 0


def check_python(path, text):
    """Complaints about Python: it must be read by the oldest one that it is for."""
    oldest = PYTHON_OLDEST if path.startswith(OLDEST_FOLDERS) else sys.version_info[:2]
    try:
        ast.parse(text, path, feature_version=oldest)
    except SyntaxError as error:
        yield error.lineno or 1, "%s (Python %d.%d)" % (error.msg, *oldest)
    if not text.lstrip().startswith(('"""', "#!")):
        yield 1, "no comment that says what the file is for"


def complaints(root):
    for path in sources(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        lines = text.split("\n")
        if lines.pop():
            yield path, len(lines) + 1, "no end of line at the end"
        found = list(check_lines(path, lines))
        if path.endswith((".c", ".h")):
            found += check_c(lines)
        elif path.endswith(".py"):
            found += check_python(path, text)
        elif path.endswith((".ts", ".mjs")) and not text.startswith("/**"):
            found.append((1, "no comment that says how the file works"))
        for number, why in sorted(found):
            yield path, number, why


def main(argv):
    root = argv[1] if len(argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")
    count = 0
    for path, number, why in complaints(root):
        print("%s:%d: %s" % (path, number, why))
        count += 1
    print("%d complaints" % count)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
