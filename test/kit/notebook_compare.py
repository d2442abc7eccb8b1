"""What two executions of one notebook have in common, for test_public_notebooks.py.

differences() compares after the normalisations that doc/differences.md lists under "What is not
compared". They are few, and each has a reason: what differs at every run (addresses, times, random
ids), where it ran (folders, the files that stand for cells), and what Fumehood does otherwise by
design everywhere, so that a row for each place would say nothing (the text of tracebacks, streams
in pieces or out of order, a terminal's CR).

A difference is (number of the cell, what) with both values, which are for a human to read. `what`
is `outputs` when their kinds or number differ, else the output's number and a key of it, such as
`2 text/html`.
"""
import base64
import re
import struct

# What is replaced in every text, in this order.
TEXTS = (
    (re.compile(r"0x[0-9a-f]{6,}"), "ADDRESS"),
    (re.compile(r"(?:/tmp/|~/)?ipykernel_\d+/\d+\.py|(?:~/)?<cell \d+>|(?<=\()\d{5,}\.py"), "CELL"),
    (re.compile(r"(?<=CELL:)\d+(?=:)"), "LINE"),
    (re.compile(r"\b\d+(\.\d+)?(e[+-]?\d+)? (s|ms|[µμ]s|ns)\b"), "TIME"),
    # Random ids: matplotlib's animations, pandas' Styler, plotly's, rich's links.
    (re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])|(?<=\bT_)[0-9a-f]{5}(?=[_ \"])"
                r"|\b[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}\b|(?<=\x1b]8;id=)\d+"), "ID"),
    (re.compile(r"<dc:date>[^<]*|(?<=id=\")[a-z]{1,2}[0-9a-f]{10}(?=\")"
                r"|(?<=#)[a-z]{1,2}[0-9a-f]{10}\b"), "ID"),
)


def terminal_line(text):
    """As JupyterLab and Fumehood keep a stream: what `\\r` and `\\b` have overwritten is gone."""
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        shown, at = [], 0
        for character in line:
            if character == "\r":
                at = 0
            elif character == "\b":
                if at:
                    at -= 1
                    del shown[at]
            else:
                shown[at:at + 1] = character
                at += 1
        lines.append("".join(shown))
    return "\n".join(lines)


def normal_text(text, folder):
    if folder:
        text = text.replace(folder, "FOLDER")
    for pattern, word in TEXTS:
        text = pattern.sub(word, text)
    return text


def normal_data(mime, value, folder):
    if mime == "image/png":  # how the pixels are packed is not what anyone sees
        return "PNG %d x %d" % struct.unpack(">II", base64.b64decode(value)[16:24])
    return normal_text(value, folder) if isinstance(value, str) else value


def normal_outputs(outputs, folder):
    """A list of dicts; consecutive streams are one item with a text for each name."""
    made = []
    for output in outputs:
        kind = output["output_type"]
        item = {"kind": kind}
        if kind == "stream":
            if made and made[-1]["kind"] == kind:
                item = made.pop()
            name = output["name"]
            item[name] = item.get(name, "") + output["text"]
        elif kind == "error":
            item.update(ename=output["ename"], evalue=normal_text(output["evalue"], folder))
        else:
            item.update(metadata=output["metadata"], count=output.get("execution_count"))
            item.update((mime, normal_data(mime, value, folder))
                        for mime, value in output["data"].items())
        made.append(item)
    for item in made:
        for name in ("stdout", "stderr"):
            if name in item:
                item[name] = normal_text(terminal_line(item[name]), folder)
    return made


def in_order(outputs):
    """ipykernel's: its thread for what children write may come after the value of the cell."""
    made = []
    for output in outputs:
        late = output["output_type"] == "stream"
        at = len(made)
        while late and at and made[at - 1]["output_type"] == "execute_result":
            at -= 1
        made.insert(at, output)
    return made


def differences_of_cell(theirs, ours):
    if [item["kind"] for item in theirs] != [item["kind"] for item in ours]:
        return [("outputs", theirs, ours)]
    return [("%d %s" % (number, key), their.get(key), our.get(key))
            for number, (their, our) in enumerate(zip(theirs, ours), 1)
            for key in sorted(their.keys() | our.keys()) if their.get(key) != our.get(key)]


def differences(theirs, ours, their_folder, our_folder):
    """Of two notebooks that came from one: {(cell, what): (theirs, ours)}."""
    found = {}
    assert [cell.source for cell in theirs.cells] == [cell.source for cell in ours.cells]
    for number, (their, our) in enumerate(zip(theirs.cells, ours.cells), 1):
        if their.cell_type != "code":
            continue
        if their.execution_count != our.execution_count:
            found[number, "count"] = their.execution_count, our.execution_count
        sides = (normal_outputs(in_order(their.outputs), their_folder),
                 normal_outputs(our.outputs, our_folder))
        for what, one, other in differences_of_cell(*sides):
            found[number, what] = one, other
    return found
