"""The notebook that Fumehood writes, against nbformat and against a second fold written here.

Random journals go through the program notebook_fold (built from src/notebook). For each: the
notebook is valid by nbformat, reading and writing it with nbformat gives the same bytes, and its
outputs are those of the plain model below, which shares no code with the C one.

    FUMEHOOD_BUILD=builddir pytest test/flow/test_notebook_bytes.py       (needs nbformat)
"""

import json
import math
import os
import pathlib
import random
import re
import subprocess
import warnings

import nbformat
import pytest

FOLD = pathlib.Path(os.environ.get("FUMEHOOD_BUILD", "build")) / "src/notebook/notebook_fold"

BATCHES, JOURNALS = 25, 20  # 500 journals

CANONICAL = [
    "0",
    "-1",
    "7",
    "1.0",
    "-0.0",
    "0.1",
    "1e+22",
    "1e-07",
    "1.5e+300",
    "5e-324",
    "9007199254740993",
    "-9223372036854775808",
    "9223372036854775807",
    "18446744073709551615",
    "123456789012345678901234567890",
    "3.141592653589793",
]
# Numbers that Python reads and writes in another form: Fumehood keeps the digits.
ODD = [
    "1E5",
    "1e5",
    "1e22",
    "1e400",
    "-1e400",
    "-0",
    "0.10",
    "1.00",
    "1e0",
    "0.1e1",
    "3.14159265358979323846",
    "1e-400",
    "123456789012345678901234567890.0",
]
BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
SPECIAL = (
    [chr(c) for c in range(0x20)]
    + list(BREAKS)
    + [
        '"',
        "\\",
        "/",
        "\x7f",
        "\x80",
        "\xa0",
        "\xe9",
        "\u20ac",
        "\u0301",
        "\ufeff",
        "\ufffd",
        "\uffff",
        "\U0001f600",
        "\U0010ffff",
        "\r\n",
        "\n\r",
        "\x1b[31m",
        "\b",
        "\r",
        "\n",
    ]
)
MIMES = [
    "text/plain",
    "text/html",
    "text/markdown",
    "text/latex",
    "text/x+json",
    "image/png",
    "image/jpeg",
    "image/svg+xml",
    "application/javascript",
    "application/pdf",
    "application/json",
    "application/vnd.plotly.v1+json",
    "application/+json",
    "application/geo+json",
    "application/vnd.vegalite.v5.json",
    "image/svg+json",
    "application/json;charset=utf8",
    "application/x\n+json",
    "",
    "a\0b",
    "a",
    "\U0001f600",
    "\ufffe",
]


class Raw:
    """A piece of JSON text as it stands in the journal."""

    def __init__(self, text):
        self.text = text


def to_json(value):
    """JSON text in which Raw values stand as they are."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return "{%s}" % ",".join(json.dumps(k) + ":" + to_json(v) for k, v in value.items())
    if isinstance(value, list):
        return "[%s]" % ",".join(map(to_json, value))
    return json.dumps(value)


def repair(text):
    """What becomes of lone surrogates."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def plain(value):
    """The value that a journal line means."""
    if isinstance(value, Raw):
        return plain(json.loads(value.text))
    if isinstance(value, str):
        return repair(value)
    if isinstance(value, dict):
        return {repair(k): plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value


# --------------------------------------------------------------------------- random journals


class Maker:
    def __init__(self, seed, numbers):
        self.random = random.Random(seed)
        self.numbers = numbers

    def text(self, most=30):
        """A string, as JSON text: some characters as escapes, some surrogates alone."""
        r = self.random
        parts = []
        for _ in range(r.choice([0, 1, 3, r.randint(0, most)])):
            kind = r.random()
            if kind < 0.45:
                parts.append(r.choice("abc xyz"))
            elif kind < 0.93:
                char = r.choice(SPECIAL)
                quoted = json.dumps(char, ensure_ascii=r.random() < 0.5)
                parts.append(quoted[1:-1])
            else:
                parts.append(
                    r.choice(["\\ud800", "\\udfff", "\\udc00", "\\ud83d\\ude00", "\\ud800x"])
                )
        return Raw('"%s"' % "".join(parts))

    def value(self, depth=3):
        r = self.random
        kind = r.randrange(9 if depth else 5)
        if kind == 0:
            return r.choice([None, True, False])
        if kind in (1, 2):
            return Raw(r.choice(self.numbers))
        if kind in (3, 4):
            return self.text()
        if kind in (5, 6):
            return [self.value(depth - 1) for _ in range(r.randint(0, 4))]
        return {
            k: self.value(depth - 1)
            for k in r.sample(
                ["", "b", "a", "B", "ab", "\xe9", "\U0001f600", "\uffff", "a\nb", "a\0"],
                r.randint(0, 4),
            )
        }

    def deep(self):
        value = Raw("1")
        for _ in range(self.random.randint(50, 150)):
            value = [value] if self.random.random() < 0.5 else {"k": value}
        return value

    def bundle(self):
        r = self.random
        data = {}
        for mime in r.sample(MIMES, r.randint(0, 5)):
            kind = r.random()
            if kind < 0.5:
                data[mime] = self.text()
            elif kind < 0.7:
                data[mime] = [self.text() for _ in range(r.randint(0, 4))]
            elif kind < 0.97:
                data[mime] = self.value()
            else:
                data[mime] = self.deep()
        return data

    def show(self, kind, cell):
        event = {
            "type": kind,
            "cell": cell,
            "data": self.bundle(),
            "metadata": self.random.choice(
                [{}, {"image/png": {"width": Raw("3")}, "a": self.value()}]
            ),
        }
        if self.random.random() < 0.6 or kind == "update_display":
            event["display_id"] = self.random.choice([None, "d1", "d2", "d3", "d\0e", "unknown"])
        if kind == "result":
            event["execution_count"] = self.random.choice([None, 1, 12])
        return event

    def output(self, cell):
        r = self.random
        kind = r.choice(
            ["stream"] * 8 + ["display", "display", "update_display", "result", "error", "clear"]
        )
        if kind == "stream":
            return {
                "type": kind,
                "cell": cell,
                "name": r.choice(["stdout", "stdout", "stderr"]),
                "text": self.text(60),
            }
        if kind == "error":
            return {
                "type": kind,
                "cell": cell,
                "ename": self.text(),
                "evalue": self.text(),
                "traceback": [self.text() for _ in range(r.randint(0, 3))],
            }
        if kind == "clear":
            return {"type": kind, "cell": cell, "wait": r.random() < 0.5}
        return self.show(kind, cell)

    def note(self, number):
        r = self.random
        kind = r.choice(["markdown", "raw", "code"])
        event = {"type": "note", "text": self.text(), "cell_type": kind}
        if r.random() < 0.5:
            event["id"] = "note-%d" % number
        if r.random() < 0.3:
            event["attachments"] = {
                "a.png": {"image/png": self.text()},
                "b": self.bundle(),
                "": None,
            }
        if r.random() < 0.5:
            event["metadata"] = {"tags": ["x", "y"], "free": self.value(), "trusted": True}
        return event

    def journal(self):
        r = self.random
        events = [
            {
                "type": "session",
                "id": "s1",
                "versions": {"python": "3.11.2", "fumehood": "0.1.0"},
                "notebook": {"metadata": {"free": self.value(), "title": self.text()}},
            }
        ]
        cells = []
        for number in range(r.randint(1, 5)):
            if r.random() < 0.4:
                events.append(self.note(number))
            if r.random() < 0.3:
                events.append({"type": "section", "title": self.text(), "level": r.randint(1, 4)})
            cell = "c%d" % number
            cells.append(cell)
            events.append(
                {
                    "type": "cell",
                    "cell": cell,
                    "code": self.text(80),
                    "metadata": {"free": self.value(), "collapsed": r.random() < 0.5},
                }
            )
            events.append({"type": "started", "cell": cell})
            for _ in range(r.randint(0, 14)):
                events.append(self.output(cell if r.random() < 0.8 else r.choice(cells)))
            if r.random() < 0.2:
                events.append(
                    {"type": "truncated", "cell": cell, "name": "stdout", "bytes_dropped": 7}
                )
            if r.random() < 0.9:
                status = r.choice(["ok", "ok", "error", "died", "timeout", "interrupted"])
                events.append(
                    {
                        "type": "finished",
                        "cell": cell,
                        "status": status,
                        "reason": r.choice([None, "a reason"]),
                        "execution_count": number + 1,
                    }
                )
        return events


def lines_of(events):
    out = []
    for number, event in enumerate(events, 1):
        head = '{"seq":%d,"t":"2026-11-29T17:16:54.%06dZ",' % (number, number)
        out.append(head + to_json(event)[1:])
    return "\n".join(out).encode() + b"\n"


def fold(data, *options):
    run = subprocess.run([FOLD, *options], input=data, capture_output=True, timeout=60)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout


# --------------------------------------------------------------------------- the second fold


class Stream:
    """JupyterLab's rule, one character at a time. Its one oversight is left out: inside a line its
    backspace deletes the character under the cursor as well."""

    def __init__(self, name):
        self.name, self.chars, self.at = name, [], 0

    def put(self, text):
        for char in text:
            if char == "\n":
                self.chars.append(char)
                self.at = len(self.chars)
            elif char == "\r":
                while self.at > 0 and self.chars[self.at - 1] != "\n":
                    self.at -= 1
            elif char == "\b":
                if self.at > 0 and self.chars[self.at - 1] != "\n":
                    self.at -= 1
                    del self.chars[self.at]
            else:
                self.chars[self.at : self.at + 1] = [char]
                self.at += 1

    def output(self):
        return {"output_type": "stream", "name": self.name, "text": "".join(self.chars)}


def text_of(value):
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return "".join(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def bundle_of(data):
    return {
        mime: value if re.fullmatch(r"application/(.*\+)?json", mime) else text_of(value)
        for mime, value in data.items()
    }


class Fold:
    def __init__(self):
        self.cells, self.pending, self.failed = {}, set(), set()

    def add(self, cell, output):
        if cell in self.pending:
            self.cells[cell] = []
            self.pending.discard(cell)
        self.cells[cell].append(output)

    def put(self, cell, name, text):
        last = self.cells[cell][-1:]
        if (
            cell in self.pending
            or not last
            or not isinstance(last[0], Stream)
            or last[0].name != name
        ):
            self.add(cell, Stream(name))
        self.cells[cell][-1].put(text)

    def update(self, event):
        ident = event.get("display_id")
        for outputs in self.cells.values():
            for out in outputs:
                if ident is not None and isinstance(out, dict) and out.get("id") == ident:
                    out.update(data=bundle_of(event["data"]), metadata=event["metadata"])

    def remark(self, cell, text):
        pending = cell in self.pending
        self.pending.discard(cell)
        last = self.cells[cell][-1:]
        if last and isinstance(last[0], Stream) and last[0].name == "stderr":
            if last[0].chars and last[0].chars[-1] != "\n":
                text = "\n" + text
        self.put(cell, "stderr", text)
        if pending:
            self.pending.add(cell)

    def finish(self, cell, event):
        name = {
            "died": ("Died", "the interpreter died"),
            "timeout": ("Timeout", "the cell took longer than it may"),
            "interrupted": ("Interrupted", "the cell was interrupted"),
        }.get(event["status"])
        if name and cell not in self.failed:
            evalue = event["reason"] or name[1]
            self.pending.discard(cell)
            self.cells[cell].append(
                {
                    "output_type": "error",
                    "ename": name[0],
                    "evalue": evalue,
                    "traceback": [name[0] + ": " + evalue],
                }
            )

    def apply(self, event):
        kind, cell = event["type"], event.get("cell")
        if kind == "cell":
            self.cells[cell] = []
        elif kind == "stream":
            if event["text"]:
                self.put(cell, event["name"], event["text"])
        elif kind == "clear":
            self.pending.add(cell)
            if not event["wait"]:
                self.cells[cell] = []
                self.pending.discard(cell)
        elif kind == "update_display":
            self.update(event)
        elif kind in ("display", "result"):
            output = {
                "output_type": "display_data" if kind == "display" else "execute_result",
                "id": event.get("display_id"),
                "data": bundle_of(event["data"]),
                "metadata": event["metadata"],
            }
            if kind == "result":
                output["execution_count"] = event["execution_count"]
            self.add(cell, output)
            self.update(event)
        elif kind == "error":
            self.failed.add(cell)
            self.add(
                cell,
                dict({k: event[k] for k in ("ename", "evalue", "traceback")}, output_type="error"),
            )
        elif kind == "truncated":
            self.remark(cell, "[fumehood: 7 bytes of stdout dropped: output limit]\n")
        elif kind == "finished":
            self.finish(cell, event)

    def outputs(self, cell):
        return [
            (
                out.output()
                if isinstance(out, Stream)
                else {k: v for k, v in out.items() if k != "id"}
            )
            for out in self.cells[cell]
        ]


# --------------------------------------------------------------------------- tests


def read_strictly(text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nb = nbformat.reads(text, as_version=4)
        nbformat.validate(nb)
    return nb


def check_outputs(events, nb):
    model = Fold()
    for event in map(plain, events):
        model.apply(event)
    code = [c for c in nb["cells"] if c["cell_type"] == "code"]
    cells = [c for c in code if c["id"] in model.cells]
    for note in code:  # those that were not run
        if note["id"] not in model.cells:
            assert note["outputs"] == [] and note["execution_count"] is None
    assert [c["id"] for c in cells] == list(model.cells)
    codes = [plain(e)["code"] for e in events if e["type"] == "cell"]
    assert [c["source"] for c in cells] == codes
    for cell in cells:
        assert cell["outputs"] == model.outputs(cell["id"])


def same(a, b):
    """Equality that tells 1 from 1.0 and 0.0 from -0.0."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_bytes_are_those_of_nbformat(batch):
    for number in range(JOURNALS):
        events = Maker(batch * JOURNALS + number, CANONICAL).journal()
        data = lines_of(events)
        ours = fold(data)
        nb = read_strictly(ours.decode("utf-8", "strict"))
        assert (nbformat.writes(nb) + "\n").encode() == ours
        check_outputs(events, nb)
        assert fold(data, "--each") == ours
        joined = fold(data, "--joined")
        assert b"\n" not in joined
        assert same(json.loads(joined), nb)


@pytest.mark.parametrize("seed", range(10000, 10040))
def test_odd_numbers_keep_their_digits(seed):
    """Here the bytes are not those of nbformat, and only here: it would print 1E5 as 100000.0, -0
    as 0 and 1e400 as Infinity, which is no JSON. Every line that differs holds one such number.
    """
    events = Maker(seed, CANONICAL + ODD).journal()
    events.append({"type": "cell", "cell": "odd", "code": ""})
    events.append(
        {
            "type": "display",
            "cell": "odd",
            "metadata": {},
            "data": {"application/json": [Raw(n) for n in ODD]},
        }
    )
    ours = fold(lines_of(events)).decode()
    nb = read_strictly(ours)
    theirs = (nbformat.writes(nb) + "\n").split("\n")
    differing = []
    for mine, other in zip(ours.split("\n"), theirs, strict=True):
        if mine == other:
            continue
        digits = re.fullmatch(r' *(?:".*": )?(\S+?),?', mine).group(1)
        assert digits in ODD
        read = float(re.fullmatch(r' *(?:".*": )?(\S+?),?', other).group(1))
        assert read == float(digits) or math.isinf(read)
        differing.append(digits)
    assert set(ODD) == set(differing)
    for digits in ODD:
        assert re.search(r"^ *%s,?$" % re.escape(digits), ours, re.M)


def one_cell(*events):
    return lines_of([{"type": "cell", "cell": "c", "code": "x"}, *events])


@pytest.mark.parametrize("char", range(0x100))
def test_every_character_in_every_place(char):
    text = "a" + chr(char) + "b" + chr(char)
    event = {
        "type": "display",
        "cell": "c",
        "metadata": {text: text},
        "data": {
            m: text for m in ("text/plain", "image/svg+xml", "image/png", "application/json")
        },
    }
    ours = fold(
        one_cell(
            event,
            {"type": "stream", "cell": "c", "name": "stdout", "text": text},
            {"type": "error", "cell": "c", "ename": text, "evalue": text, "traceback": [text]},
            {"type": "note", "text": text},
        )
    )
    nb = read_strictly(ours.decode())
    assert (nbformat.writes(nb) + "\n").encode() == ours
    assert nb.cells[0].outputs[0].data["text/plain"] == text
    assert nb.cells[1].source == text


def test_integer_that_python_would_not_read():
    """More than 4300 digits: json.loads() refuses the file, so it is written as a string."""
    ours = fold(
        one_cell(
            {
                "type": "display",
                "cell": "c",
                "metadata": {},
                "data": {"application/json": [Raw("9" * 4300), Raw("9" * 4301)]},
            }
        )
    )
    nb = read_strictly(ours.decode())
    assert nb.cells[0].outputs[0].data["application/json"] == [int("9" * 4300), "9" * 4301]


def test_empty_journal():
    ours = fold(b"")
    assert (nbformat.writes(read_strictly(ours.decode())) + "\n").encode() == ours


def test_many_small_streams():
    lines = [
        {"type": "stream", "cell": "c", "name": "stdout", "text": "%d\n" % i} for i in range(20000)
    ]
    nb = read_strictly(fold(one_cell(*lines)).decode())
    assert nb.cells[0].outputs[0].text == "".join("%d\n" % i for i in range(20000))


@pytest.mark.parametrize("seed", range(20000, 20060))
def test_rolled_back(seed):
    """Left out or kept: the bytes stay those of nbformat, the outputs those of the model."""
    pick = random.Random(seed)
    events = Maker(seed, CANONICAL).journal()
    cells = [event["cell"] for event in events if event["type"] == "cell"]
    undone = cells[pick.randint(0, len(cells)) :]
    for event in events:
        if event["type"] == "finished":
            event["state"] = "kept"
    before = cells[: len(cells) - len(undone)]
    events.append(
        {"type": "rollback", "cell": before[-1] if before else None, "rolled_back": undone}
    )
    data = lines_of(events)
    for options, want in (((), before), (("--keep",), cells)):
        ours = fold(data, *options)
        nb = read_strictly(ours.decode("utf-8", "strict"))
        assert (nbformat.writes(nb) + "\n").encode() == ours
        assert fold(data, "--each", *options) == ours
        assert same(json.loads(fold(data, "--joined", *options)), nb)
        assert [cell["id"] for cell in nb["cells"] if cell["id"] in cells] == want
        for cell in nb["cells"]:
            marked = cell["id"] in undone
            assert ("rolled-back" in cell["metadata"].get("tags", [])) == marked
            if marked:
                assert cell["outputs"].pop()["text"].startswith("[fumehood: rolled back")
        if options:
            check_outputs(events, nb)
