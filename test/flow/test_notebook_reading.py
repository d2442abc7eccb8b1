"""Notebooks as they come: older formats, broken ones, large ones.

They are read by `fumehood run --prepare-only`.

What comes out must always be valid 4.5 for nbformat, and the same as nbformat makes of it where
nbformat can read it.
"""

import copy
import json
import random
import subprocess
import sys

import nbformat
import pytest

from fumehood_kit import FAULT, FUMEHOOD, LONG


def write(folder, content, name="in.ipynb"):
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / name).write_bytes(data)


@pytest.fixture
def read(house, folder):
    """The notebook that comes out, and what was said."""

    def read(content, *options):
        write(folder, content)
        result = house.cli("run", "in.ipynb", "--prepare-only", "-o", "-", *options, cwd=folder)
        assert result.status == 0, result
        made = json.loads(result.out)
        assert nbformat.validator.isvalid(made), result
        return (
            nbformat.from_dict(nbformat.v4.rwbase.rejoin_lines(nbformat.from_dict(made))),
            result.err,
        )

    return read


@pytest.fixture
def refuse(house, folder):
    """What is said when a file is refused."""

    def refuse(content):
        write(folder, content)
        result = house.cli("run", "in.ipynb", "--prepare-only", "-o", "-", cwd=folder)
        assert result.status == FAULT and not result.out, result
        return result.err

    return refuse


def without_ids(made):
    made = copy.deepcopy(made)
    for cell in made.cells:
        cell.pop("id", None)
    return made


# ---------------------------------------------------------------------------------------- version 3


def version_3():
    v3 = nbformat.v3
    outputs = [
        v3.new_output(
            "pyout",
            output_text="5",
            output_html="<b>5</b>\n<i>",
            prompt_number=2,
            metadata={"png": {"width": 1}},
        ),
        v3.new_output(
            "display_data",
            output_png="iVBORw0KGgo=\n",
            output_svg="<svg>\n</svg>",
            output_json='{"a": [1, 2]}',
            output_latex="$x$",
            output_javascript="a\nb",
        ),
        v3.new_output("stream", output_text="out\nmore\n", stream="stderr"),
        v3.new_output("pyerr", ename="E", evalue="v", traceback=["one", "two"]),
    ]
    cells = [
        v3.new_heading_cell("A title\nin two lines", level=1),
        v3.new_heading_cell("Deep", level=4),
        v3.new_heading_cell("", level=2),
        v3.new_text_cell("markdown", "some *text*\nand more"),
        v3.new_text_cell("raw", "raw\n"),
        v3.new_text_cell("html", "<p>"),
        v3.new_code_cell(
            "x = 1\nx",
            prompt_number=2,
            outputs=outputs,
            collapsed=True,
            metadata={"tags": ["a"], "trusted": True},
        ),
        v3.new_code_cell("", prompt_number=None),
    ]
    made = v3.new_notebook(
        metadata=v3.new_metadata("name"),
        worksheets=[
            v3.new_worksheet(cells=cells),
            v3.new_worksheet(cells=[v3.new_code_cell("second")]),
        ],
    )
    made.metadata.signature = "sha256:0"
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    return made


def joined_3(made):
    """Without its line breaks, as programs of that time wrote it too."""
    made = copy.deepcopy(made)
    for sheet in made.worksheets:
        for cell in sheet.cells:
            for key in ("input", "source"):
                if key in cell:
                    cell[key] = cell[key].splitlines()
    return made


@pytest.mark.parametrize("change", [None, joined_3], ids=["as written", "without line ends"])
def test_version_3_as_nbformat(read, change):
    text = nbformat.v3.writes_json(version_3())
    given = json.loads(text) if change is None else change(version_3())
    wanted = nbformat.convert(nbformat.reader.reads(json.dumps(given)), 4)
    nbformat.v4.rwbase.strip_transient(wanted)
    made, said = read(given)
    assert "repaired" not in said, said
    made.metadata.pop("language_info")
    wanted.metadata.pop("language_info", None)
    wanted.metadata.kernelspec = made.metadata.kernelspec
    for cell in wanted.cells:  # nbformat leaves in streams and errors what version 4 does not know
        for output in cell.get("outputs", []):
            if output.output_type in ("stream", "error"):
                output.pop("metadata", None)
    assert without_ids(made) == without_ids(wanted)


def test_version_3_runs(house, folder):
    made = nbformat.v3.new_notebook(
        worksheets=[
            nbformat.v3.new_worksheet(
                cells=[nbformat.v3.new_heading_cell("T"), nbformat.v3.new_code_cell("print(6 * 7)")]
            )
        ]
    )
    (folder / "in.ipynb").write_text(nbformat.v3.writes_json(made))
    result = house.cli("run", "in.ipynb", "--inplace", cwd=folder)
    assert (result.status, result.out) == (0, "42\n"), result
    made = nbformat.read(folder / "in.ipynb", as_version=nbformat.NO_CONVERT)
    nbformat.validate(made)
    assert (made.nbformat, made.nbformat_minor, made.cells[0].source) == (4, 5, "# T")


@pytest.mark.parametrize("version", [1, 2])
def test_older_is_refused_with_the_cure(refuse, version):
    assert "jupyter nbconvert" in refuse({"nbformat": version, "worksheets": []})


# --------------------------------------------------------------------------- version 4, every minor


def good():
    v4 = nbformat.v4
    made = v4.new_notebook(
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3"},
            "language_info": {"name": "python"},
            "free": [1, {"a": None}],
        }
    )
    made.cells = [
        v4.new_markdown_cell("# T\n", attachments={"a.png": {"image/png": "aGk="}}),
        v4.new_raw_cell("raw", metadata={"format": "text/html"}),
        v4.new_code_cell(
            "x\n\n",
            execution_count=3,
            metadata={"tags": ["a"], "collapsed": True},
            outputs=[
                v4.new_output("stream", text="a\nb"),
                v4.new_output("stream", name="stderr", text=""),
                v4.new_output(
                    "execute_result",
                    {
                        "text/plain": "5",
                        "application/json": {"b": [1.0, 1e5]},
                        "application/x+json": 7,
                    },
                    execution_count=3,
                ),
                v4.new_output(
                    "display_data",
                    {"image/svg+xml": "<svg>\n", "text/html": "a\u2028b\f"},
                    metadata={"image/svg+xml": {"isolated": True}},
                ),
                v4.new_output("error", ename="E", evalue="v", traceback=["a\nb", "c"]),
            ],
        ),
        v4.new_code_cell("", metadata={"execution": {"iopub.status.busy": "2026-01-01T00:00:00Z"}}),
    ]
    return made


@pytest.mark.parametrize("minor", range(0, 8))
def test_every_minor(read, minor):
    """Nothing is lost and nothing is said. What is not 4.5 gets ids; ids that are there stay."""
    given = json.loads(nbformat.writes(good()))
    given["nbformat_minor"] = minor
    if minor < 5:
        for cell in given["cells"]:
            del cell["id"]
    made, said = read(given)
    assert "repaired" not in said, said
    wanted = good()
    assert without_ids(made) == without_ids(wanted)
    if minor >= 5:
        assert [cell.id for cell in made.cells] == [cell["id"] for cell in given["cells"]]


def test_bytes_are_those_of_nbformat(house, folder):
    """A notebook that nbformat has written comes out byte for byte."""
    nbformat.write(good(), folder / "in.ipynb")
    result = house.cli("run", "in.ipynb", "--prepare-only", "-o", "out.ipynb", cwd=folder)
    assert (
        result.status == 0
        and (folder / "out.ipynb").read_bytes() == (folder / "in.ipynb").read_bytes()
    )


# ------------------------------------------------------------------------------------------ repairs


def test_repairs_are_listed(read):
    given = json.loads(nbformat.writes(good()))
    for cell in given["cells"]:
        cell["id"] = "same"
        cell["extra"] = 1
    made, said = read(given)
    lines = said.splitlines()
    assert (
        "in.ipynb was repaired (7)" in lines[0] and len(lines) == 7 and "and 2 more" in lines[-1]
    ), said
    assert len({cell.id for cell in made.cells}) == 4 and made.cells[0].id == "same"


def test_what_json_does_not_know(read):
    text = (
        json.dumps(json.loads(nbformat.writes(good())))
        .replace("1e5", "NaN")
        .replace('"free": [1', '"free": [-Infinity')
    )
    text = text.replace('"# T\\n"', '"# T \\ud800"')
    made, said = read(b"\xef\xbb\xbf" + text.encode())
    assert "byte order mark" in said and "NaN" in said and "surrogate" in said
    assert made.metadata.free[0] == "-inf" and made.cells[0].source == "# T \ufffd"


ODD = [
    None,
    True,
    5,
    1.5,
    -1,
    "",
    "text",
    "a b",
    [],
    {},
    [1],
    ["a"],
    [None],
    {"a": 1},
    {"a": {"b": []}},
    "x" * 70,
]


def mutate(node, draw, depth=0):
    """Changes one thing somewhere in it."""
    if isinstance(node, dict) and node and (depth == 0 or draw.random() < 0.8):
        key = draw.choice(sorted(node))
        if isinstance(node[key], (dict, list)) and node[key] and draw.random() < 0.75:
            mutate(node[key], draw, depth + 1)
        else:
            kind = draw.randrange(3)
            if kind == 0:
                del node[key]
            elif kind == 1:
                node[key] = copy.deepcopy(draw.choice(ODD))
            else:
                node[
                    draw.choice(
                        ("extra", "id", "outputs", "trusted", "text", "data", "attachments")
                    )
                ] = copy.deepcopy(draw.choice(ODD))
    elif isinstance(node, list) and node:
        at = draw.randrange(len(node))
        if isinstance(node[at], (dict, list)) and draw.random() < 0.85:
            mutate(node[at], draw, depth + 1)
        else:
            node[at] = copy.deepcopy(draw.choice(ODD))


def test_a_thousand_changes(house, folder):
    """Whatever is changed in it: what is read is valid and what is not read is refused with
    words; and a
    notebook that was not valid is never taken without a word.
    """
    draw = random.Random(5)
    taken = 0
    for number in range(1000):
        given = json.loads(nbformat.writes(good()))
        for _ in range(draw.randrange(1, 4)):
            mutate(given, draw)
        write(folder, given)
        result = house.cli("run", "in.ipynb", "--prepare-only", "-o", "-", cwd=folder)
        if result.status:
            assert result.status == FAULT and "not a notebook" in result.err, (given, result)
            continue
        taken += 1
        made = json.loads(result.out)
        assert nbformat.validator.isvalid(made), (given, result)
        if "repaired" not in result.err and given.get("nbformat_minor") == 5:
            assert nbformat.validator.isvalid(given), (number, given)
    assert taken > 300


# ------------------------------------------------------------------------------------- broken files


def test_place_of_the_fault(refuse):
    text = nbformat.writes(good()).splitlines(keepends=True)
    text[9] = text[9].replace(":", ";", 1)
    said = refuse("".join(text).encode())
    assert "line 10, column" in said and "in.ipynb" in said


def test_copy_that_jupyter_left(house, folder):
    """Its server writes in place, with a copy beside it until it is done."""
    whole = nbformat.writes(good()) + "\n"
    write(folder, whole[:500].encode())
    (folder / ".~in.ipynb").write_text(whole)
    result = house.cli("run", "in.ipynb", "--prepare-only", "-o", "out.ipynb", cwd=folder)
    assert result.status == 0 and "line " in result.err and ".~in.ipynb" in result.err, result
    assert (folder / "out.ipynb").read_text() == whole
    (folder / ".~in.ipynb").write_text("{")
    result = house.cli("run", "in.ipynb", "--prepare-only", "-o", "out.ipynb", cwd=folder)
    assert result.status == FAULT and ".~" not in result.err, result


def test_cut_anywhere(refuse):
    whole = nbformat.writes(good()).encode()
    for size in range(0, len(whole) - 2, 97):
        assert "not a notebook" in refuse(whole[:size])


# --------------------------------------------------------------------------------------------- size


def measure(folder, *words):
    """Runs fumehood; the most memory it used, in bytes."""
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, FUMEHOOD, *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout) * 1024


@pytest.mark.parametrize("kind", ["images", "lines"])
def test_memory(folder, kind):
    """A notebook of 60 MB (200 MB in the long form) takes a small multiple of itself."""
    size = (200 if LONG else 60) << 20
    v4 = nbformat.v4
    made = v4.new_notebook(metadata=good().metadata)
    each = 2 << 20
    for _ in range(size // each):
        if kind == "images":
            output = v4.new_output("display_data", {"image/png": "A" * each})
        else:
            output = v4.new_output(
                "stream", text="a line of a log file with some words in it\n" * (each // 43)
            )
        made.cells.append(v4.new_code_cell("1", outputs=[output]))
    nbformat.write(made, folder / "in.ipynb")
    bytes_in = (folder / "in.ipynb").stat().st_size
    used = measure(folder, "run", "in.ipynb", "--prepare-only", "-o", "out.ipynb")
    assert (folder / "out.ipynb").read_bytes() == (folder / "in.ipynb").read_bytes()
    assert used < 6 * bytes_in, used / bytes_in
