"""papermill's behaviours, side by side with the real papermill.

Each test gives the same notebook and the same parameters to both and compares what they write.
Where Fumehood is meant to differ, the test says so in words.
"""

import base64
import importlib.resources
import json
import os
import pathlib
import re
import subprocess
import sys

import nbformat
import pytest

from fumehood_kit import CELL_FAILED, FAULT, PYTHON, USAGE

pytest.importorskip("papermill", reason="missing optional component papermill")
from papermill.cli import _resolve_type  # noqa: E402
from papermill.parameterize import add_builtin_parameters, parameterize_path  # noqa: E402
from papermill.translators import PythonTranslator  # noqa: E402

MARK = "papermill-error-cell-tag"
INJECTED = "injected-parameters"
NOTEBOOKS = importlib.resources.files("papermill") / "tests" / "notebooks"


def code(source, *tags, **metadata):
    cell = nbformat.v4.new_code_cell(source)
    cell.metadata.update(metadata)
    if tags:
        cell.metadata.tags = list(tags)
    return cell


def notebook(*cells):
    return nbformat.v4.new_notebook(
        cells=list(cells),
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": {"name": "python"},
        },
    )


# One process that runs papermill again and again: importing it takes longer than most of these
# notebooks.
SERVER = """
import io, json, logging, sys, traceback
import papermill
lines = sys.stdin
answers, sys.stdout = sys.stdout, sys.stderr
for line in lines:
    log = io.StringIO()
    logging.basicConfig(stream=log, level="INFO", format="%(message)s", force=True)
    try:
        papermill.execute_notebook(progress_bar=False, **json.loads(line))
        failed = False
    except Exception:
        failed = True
        traceback.print_exc(file=log)
    print(json.dumps([failed, log.getvalue()]), file=answers, flush=True)
"""


@pytest.fixture(scope="session")
def papermill(tmp_path_factory):
    """Calls papermill.execute_notebook() in another process: whether it failed, and what it
    logged. Its kernel
    python3 is the Python of the tests.
    """
    folder = tmp_path_factory.mktemp("jupyter")
    spec = folder / "kernels" / "python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text(
        json.dumps(
            {
                "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                "display_name": "Python 3",
                "language": "python",
            }
        )
    )
    environment = {**os.environ, "JUPYTER_PATH": str(folder), "HOME": str(folder)}
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        env=environment,
        cwd=folder,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )

    def call(**arguments):
        process.stdin.write(json.dumps(arguments) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield call
    process.communicate()
    assert process.returncode == 0


class Outcome:
    """What one of the two has done: its exit status, and the notebook if there is one."""

    def __init__(self, status, path, err):
        self.status, self.err = status, err
        self.notebook = None
        if path.exists():
            self.notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
            nbformat.validate(self.notebook)

    def cells(self, *keys):
        return [tuple(cell.get(key) for key in keys) for cell in self.notebook.cells]

    def tags(self):
        return [cell.metadata.get("tags", []) for cell in self.notebook.cells]

    def outputs(self):
        """Outputs as both must have them: a traceback's form is each one's own."""
        found = []
        for cell in self.notebook.cells:
            made = []
            for output in cell.get("outputs", []):
                output = dict(output)
                output.pop("traceback", None)
                output.pop("metadata", None)
                if "UserWarning: To exit: use" in output.get("text", ""):
                    continue  # IPython's own
                if "evalue" in output:  # the file of a SyntaxError has each one's name
                    output["evalue"] = re.sub(
                        r"\((<cell \d+>|\d+\.py), line", "(line", output["evalue"]
                    )
                made.append(output)
            found.append(made)
        return found

    def statuses(self):
        return [
            (
                cell.metadata.get("papermill", {}).get("status"),
                cell.metadata.get("papermill", {}).get("exception"),
            )
            for cell in self.notebook.cells
        ]

    def source_of(self, tag):
        return [cell.source for cell in self.notebook.cells if tag in cell.metadata.get("tags", [])]


@pytest.fixture
def both(house, folder, papermill):
    """Runs both on the same notebook; `options` are those of the command line."""

    def both(given, *options, **arguments):
        if isinstance(given, str):
            given = nbformat.read(str(NOTEBOOKS / given), as_version=4)
        nbformat.write(given, folder / "in.ipynb")
        failed, log = papermill(
            input_path=str(folder / "in.ipynb"),
            output_path=str(folder / "theirs.ipynb"),
            **{"cwd": str(folder), **arguments}
        )
        result = house.cli(
            "run",
            "-q",
            "in.ipynb",
            "-o",
            "ours.ipynb",
            "--papermill-metadata",
            "--error-cells",
            *options,
            cwd=folder
        )
        return (
            Outcome(int(failed), folder / "theirs.ipynb", log),
            Outcome(result.status, folder / "ours.ipynb", result.err),
        )

    return both


@pytest.fixture
def prepare(house, folder):
    """The notebook that `run --prepare-only` writes."""

    def prepare(given, *options):
        nbformat.write(given, folder / "in.ipynb")
        result = house.cli("run", "in.ipynb", "--prepare-only", "-o", "-", *options, cwd=folder)
        assert result.status == 0, result
        made = nbformat.reads(result.out, as_version=nbformat.NO_CONVERT)
        nbformat.validate(made)
        return made

    return prepare


def injected(made):
    return [cell.source for cell in made.cells if INJECTED in cell.metadata.get("tags", [])]


# --------------------------------------------------------------------------------- types and source

# fmt: off
VALUES = [
    "True", "False", "None", "true", "", " ", "5", "-5", "+5", "007", "-0", "1_000", "1__0",
    "_1", "1_", " 12 ", "\xa012\n", "\u0663\u0664", "\uff11\uff12.5", "\xb2", "0x10", "1 2",
    "- 1", "9" * 40, "1.5", "1.50", ".5", "5.", "-0.0", "1e5", "1E5", "1e-7", "1e16", "1e22",
    "123456789.123456789", "1_0.2_5e1_0", "1e400", "-1e400", "nan", "-nan", "NaN", "Infinity",
    "-inf", "+Inf", ".", "e5", "1e", "1e+", "inf1", "0.1", "1/3", "a b", "a\"b", "a'b",
    "back\\slash", "tab\tline\nreturn\r", "\x01\x7f\x80\xff", "\u20ac\U0001f600", "{'a': 1}",
    "[1, 2]", "None ", "\u2028", "--x", "-",
]
# fmt: on


@pytest.mark.parametrize("option", ["-p", "-r"])
def test_values_of_the_command_line(prepare, option):
    """Types and source of each value, exactly."""
    words, wanted = [], {}
    for number, value in enumerate(VALUES):
        words += [option, "v%d" % number, value]
        wanted["v%d" % number] = _resolve_type(value) if option == "-p" else value
    made = prepare(notebook(code("x = 1", "parameters")), *words)
    assert injected(made)[0].splitlines() == PythonTranslator.codify(wanted).splitlines()


JSON = {
    "s": "a\"b\n\u00e9",
    "i": -7,
    "big": 12345678901234567890,
    "f": 0.1,
    "g": 1.50,
    "n": None,
    "t": True,
    "l": [1, [2, "x"], {}],
    "d": {"a": {"b": [None, False]}, "c d": 1e100},
    "e": "",
    "z": [],
}


def test_values_of_json(prepare, folder):
    (folder / "p.json").write_text(json.dumps(JSON))
    text = base64.b64encode(json.dumps({"late": 1, "s": "other"}).encode()).decode()
    made = prepare(notebook(code("s = 1", "parameters")), "-f", "p.json", "-b", text)
    wanted = {"late": 1, "s": "other", **JSON}
    assert injected(made)[0] == PythonTranslator.codify(wanted)


YAML = """\
# a comment
name: plain text
date: 2026-11-29
when: 2026-11-29 10:00:00
yes_or_no: yes
octal: 0o17
old: 017
float: 1e3
point: 1.5e3
nothing: ~
odd: [.nan, .inf, -.inf]
map: {1: one, true: two}
multi: |
  two
  lines
list:
  - &a x
  - *a
"""


def test_values_of_yaml(prepare, folder):
    """By PyYAML inside a session; papermill reads it with the same library."""
    import yaml
    from papermill.iorw import NoDatesSafeLoader

    if subprocess.run([PYTHON, "-c", "import yaml"], capture_output=True).returncode:
        pytest.skip("missing optional component PyYAML in the sessions' Python")
    (folder / "p.yaml").write_text(YAML)
    made = prepare(
        notebook(code("name = 1", "parameters")),
        "-f",
        "p.yaml",
        "-y",
        "name: last",
        "-b",
        base64.b64encode(b"first: 1").decode(),
    )
    wanted = {"first": 1, **yaml.load(YAML, Loader=NoDatesSafeLoader), "name": "last"}
    assert injected(made)[0] == PythonTranslator.codify(wanted)


def test_yaml_that_is_none(house, folder):
    nbformat.write(notebook(code("1")), folder / "in.ipynb")
    for text, words in (
        ("a: [1", "YAML"),
        ("- 1\n- 2", "names with values"),
        ("just words", "names with values"),
    ):
        result = house.cli("run", "in.ipynb", "-o", "x.ipynb", "-y", text, cwd=folder)
        assert result.status == FAULT and words in result.err, result
    result = house.cli(
        "run", "in.ipynb", "-o", "x.ipynb", "-y", "a: 1", "--python", "/usr/bin/python3", cwd=folder
    )
    have = (
        subprocess.run(["/usr/bin/python3", "-c", "import yaml"], capture_output=True).returncode
        == 0
    )
    assert have or (result.status == FAULT and "PyYAML" in result.err), result
    result = house.cli("run", "in.ipynb", "-b", "a", cwd=folder)
    assert result.status == FAULT and "base64" in result.err, result


def test_order_of_sources(prepare, folder):
    """base64, files, YAML texts, -p, -r: whatever the order on the command line."""
    (folder / "p.json").write_text('{"a": "file", "b": "file", "c": "file", "d": "file"}')
    made = prepare(
        notebook(code("a = 1", "parameters")),
        "-r",
        "d",
        "raw",
        "-p",
        "c",
        "typed",
        "-p",
        "d",
        "typed",
        "-y",
        '{"b": "yaml", "c": "yaml"}',
        "-f",
        "p.json",
        "-b",
        base64.b64encode(b'{"a": "base64", "z": 0}').decode(),
    )
    assert injected(made)[0] == (
        '# Parameters\na = "file"\nz = 0\nb = "yaml"\nc = "typed"\nd = "raw"\n'
    )


@pytest.mark.parametrize("name", ["a-b", "1a", "a.b", "a = 1; import os #", "", "class"])
def test_a_name_that_is_none(house, folder, name):
    """papermill writes it into the cell, as code; here it is refused."""
    nbformat.write(notebook(code("1")), folder / "in.ipynb")
    result = house.cli("run", "in.ipynb", "-o", "x.ipynb", "-p", name, "1", cwd=folder)
    assert result.status == USAGE and not (folder / "x.ipynb").exists(), result


# -------------------------------------------------------------------------------- the injected cell


@pytest.mark.parametrize(
    "cells",
    [
        [code("alpha = 1", "parameters"), code("print(alpha)")],
        [
            code("first = 1"),
            code("alpha = 1", "parameters"),
            code("alpha = 2", "parameters"),
            code("print(alpha)"),
        ],
        [code("alpha = 1", "parameters"), code("alpha = 3", INJECTED), code("print(alpha)")],
        [
            code("print('top')"),
            code("alpha = 3", INJECTED, "more"),
            code("alpha = 1", "parameters"),
        ],
        [code("alpha = 0"), code("print(alpha)")],
        [
            nbformat.v4.new_markdown_cell("text", metadata={"tags": ["parameters"]}),
            code("print(alpha)"),
        ],
    ],
    ids=["behind", "the first", "replaced", "replaced above", "at the top", "behind markdown"],
)
def test_place(both, cells):
    theirs, ours = both(
        notebook(*cells),
        "-p",
        "alpha",
        "7",
        "-p",
        "beta",
        "b",
        parameters={"alpha": 7, "beta": "b"},
    )
    assert theirs.status == ours.status == 0, (theirs.err, ours.err)
    assert ours.tags() == theirs.tags()
    assert ours.cells("cell_type", "source", "execution_count") == theirs.cells(
        "cell_type", "source", "execution_count"
    )
    assert ours.outputs() == theirs.outputs()
    assert (
        ours.notebook.metadata.papermill.parameters == theirs.notebook.metadata.papermill.parameters
    )


def test_warnings(both):
    theirs, ours = both(
        notebook(code("alpha = 1", "parameters")),
        "-p",
        "alpha",
        "7",
        "-p",
        "other",
        "1",
        parameters={"alpha": 7, "other": 1},
    )
    assert "Passed unknown parameter: other" in theirs.err and "parameter other" in ours.err
    assert "parameter alpha" not in ours.err
    theirs, ours = both(notebook(code("alpha = 1")), "-p", "alpha", "7", parameters={"alpha": 7})
    assert "does not contain a cell with tag 'parameters'" in theirs.err
    assert 'no cell tagged "parameters"' in ours.err


def test_paths_as_parameters(prepare):
    made = prepare(notebook(code("1")), "--inject-paths", "-p", "a", "1")
    assert injected(made) == [
        '# Parameters\nPAPERMILL_INPUT_PATH = "in.ipynb"\nPAPERMILL_OUTPUT_PATH = "-"\na = 1\n'
    ]


# ------------------------------------------------------------------------ papermill's own notebooks


@pytest.mark.parametrize(
    "name,parameters",
    [
        ("simple_execute.ipynb", {"msg": "Hello"}),
        ("complex_parameters.ipynb", {"msg": "Hello"}),
        ("no_parameters.ipynb", {}),
        ("nb_version_4.4.ipynb", {"var": "It works"}),
        ("result_no_exec.ipynb", {}),
        ("report_mode_test.ipynb", {"a": "0", "b": "1"}),
        ("broken1.ipynb", {}),
        ("broken2.ipynb", {}),
        ("sysexit.ipynb", {}),
        ("sysexit0.ipynb", {}),
        ("sysexit1.ipynb", {}),
        ("systemexit.ipynb", {}),
    ],
)
def test_own_notebooks(both, name, parameters):
    """Exit status, cells, outputs, marks and metadata of papermill's test notebooks."""
    words = [word for key, value in parameters.items() for word in ("-r", key, value)]
    theirs, ours = both(name, *words, parameters=parameters)
    assert (ours.status != 0) == (theirs.status != 0), (theirs.err, ours.err)
    assert ours.tags() == theirs.tags()
    assert ours.cells("cell_type", "execution_count") == theirs.cells(
        "cell_type", "execution_count"
    )
    assert ours.outputs() == theirs.outputs()
    plain = [
        cell
        for cell in zip(ours.cells("source"), theirs.cells("source"), ours.tags())
        if MARK not in cell[2]
    ]
    assert [cell[0] for cell in plain] == [cell[1] for cell in plain]
    for mine, other in zip(ours.notebook.cells, theirs.notebook.cells):
        assert mine.metadata.get("jupyter") == other.metadata.get("jupyter")
        if "papermill" in other.metadata:
            assert set(mine.metadata.papermill) == set(other.metadata.papermill)
    assert set(ours.notebook.metadata.papermill) == set(theirs.notebook.metadata.papermill)
    assert (
        ours.notebook.metadata.papermill.exception == theirs.notebook.metadata.papermill.exception
    )


# ------------------------------------------------------------------------------------------- errors


def failing():
    return notebook(
        nbformat.v4.new_markdown_cell("# Title"),
        code("print('before')"),
        code("1 / 0"),
        code("print('after')"),
        code("x", "skip-execution"),
    )


def test_marks_and_statuses(both):
    theirs, ours = both(failing())
    assert theirs.status and ours.status == CELL_FAILED
    assert ours.tags() == theirs.tags() == [[MARK], [], [], [MARK], [], [], ["skip-execution"]]
    assert ours.outputs() == theirs.outputs()
    # Of a cell that never ran papermill says that it is pending; so do we.
    assert ours.statuses() == theirs.statuses()
    assert 'id="papermill-error-cell"' in ours.notebook.cells[3].source
    assert (
        'href="#papermill-error-cell"' in ours.notebook.cells[0].source
        and "In [2]" in ours.notebook.cells[0].source
    )
    assert ours.notebook.metadata.papermill.exception is True
    for key in ("start_time", "end_time", "duration"):
        assert type(ours.notebook.metadata.papermill[key]) is type(
            theirs.notebook.metadata.papermill[key]
        )
        assert type(ours.notebook.cells[2].metadata.papermill[key]) is type(
            theirs.notebook.cells[2].metadata.papermill[key]
        )


def test_marks_go_with_the_next_run(both, folder):
    theirs, ours = both(failing())
    ours.notebook.cells[4].source = "1"
    theirs, ours = both(ours.notebook)
    assert theirs.status == ours.status == 0
    assert ours.tags() == theirs.tags() and [MARK] not in ours.tags()


def test_error_is_named_and_file_is_written(house, folder):
    """Without --error-cells no cell is added; the notebook is written all the same."""
    nbformat.write(failing(), folder / "in.ipynb")
    result = house.cli("run", "-q", "in.ipynb", "--inplace", cwd=folder)
    made = nbformat.read(folder / "in.ipynb", as_version=4)
    assert result.status == CELL_FAILED and "cell 3 of 5" in result.err, result
    assert "ZeroDivisionError: division by zero" in result.err
    assert len(made.cells) == 5 and made.cells[1].outputs and made.cells[2].outputs[0].ename
    assert not made.cells[3].outputs and "papermill" not in made.metadata


# --------------------------------------------------------------------------- prepare, report, paths


def test_prepare_only(both):
    given = notebook(code("alpha = 1", "parameters"), code("print(alpha)"))
    given.cells[1].outputs = [nbformat.v4.new_output("stream", text="as it was\n")]
    given.cells[1].execution_count = 4
    theirs, ours = both(
        given, "--prepare-only", "-p", "alpha", "2", prepare_only=True, parameters={"alpha": 2}
    )
    assert theirs.status == ours.status == 0
    keys = ("cell_type", "source", "execution_count")
    assert ours.cells(*keys) == theirs.cells(*keys)
    assert ours.outputs() == theirs.outputs() and ours.outputs()[2]
    assert ours.notebook.metadata.kernelspec == theirs.notebook.metadata.kernelspec
    assert "fumehood" not in ours.notebook.metadata


def test_prepare_only_starts_nothing(house, folder):
    nbformat.write(notebook(code("open('made', 'w')")), folder / "in.ipynb")
    result = house.cli(
        "run", "in.ipynb", "--prepare-only", "-o", "out.ipynb", "--python", "/no/python", cwd=folder
    )
    assert result.status == 0 and not (folder / "made").exists(), result


PATHS = [
    "out_{a}.ipynb",
    "{a}_{n:03d}.ipynb",
    "{f:.2f}-{n:>4}|.ipynb",
    "{{{a}}}.ipynb",
    "{d[k]}_{l[1]}.ipynb",
    "{a!r}.ipynb",
    "{a:_^9}.ipynb",
    "{n:,}{t}{z}.ipynb",
    "{n:x}{f:e}.ipynb",
    "{l}.ipynb",
    "plain.ipynb",
]


@pytest.mark.parametrize("path", PATHS)
def test_path_templates(house, folder, path):
    given = {
        "a": "x y",
        "n": 1234,
        "f": 3.14159,
        "t": True,
        "z": None,
        "d": {"k": "v"},
        "l": [1, "two"],
    }
    nbformat.write(notebook(code("1")), folder / "in.ipynb")
    result = house.cli(
        "run", "in.ipynb", "--prepare-only", "-o", path, "-y", json.dumps(given), cwd=folder
    )
    assert result.status == 0, result
    wanted = parameterize_path(path, add_builtin_parameters(given))
    assert sorted(os.listdir(folder)) == sorted({"in.ipynb", wanted})


def test_path_of_the_day_and_of_the_input(house, folder):
    nbformat.write(notebook(code("1")), folder / "in_7.ipynb")
    result = house.cli(
        "run",
        "in_{n}.ipynb",
        "--prepare-only",
        "-p",
        "n",
        "7",
        "-o",
        "{pm[current_datetime_utc]:%Y}_{pm[run_uuid]}.ipynb",
        cwd=folder,
    )
    assert result.status == 0, result
    made = [name for name in os.listdir(folder) if name != "in_7.ipynb"][0]
    assert len(made) == len("2026_") + 36 + len(".ipynb") and made.startswith("20")
    result = house.cli("run", "in_{m}.ipynb", "-o", "x.ipynb", cwd=folder)
    assert result.status == USAGE and "parameter \"m\"" in result.err, result
    pathlib.Path(folder / "{odd}.ipynb").write_bytes((folder / "in_7.ipynb").read_bytes())
    result = house.cli("run", "{odd}.ipynb", "--prepare-only", "-o", "y.ipynb", cwd=folder)
    assert result.status == 0, result


def test_report_mode(both):
    given = notebook(
        code("alpha = 1", "parameters"), nbformat.v4.new_markdown_cell("m"), code("alpha")
    )
    theirs, ours = both(
        given, "--report-mode", "-p", "alpha", "2", report_mode=True, parameters={"alpha": 2}
    )
    hidden = [cell.metadata.get("jupyter") for cell in ours.notebook.cells]
    assert hidden == [cell.metadata.get("jupyter") for cell in theirs.notebook.cells]
    assert hidden[0] == {"source_hidden": True} and hidden[2] is None


def test_cwd(both, house, folder):
    other = house.folder()
    (other / "here.txt").write_text("found")
    theirs, ours = both(
        notebook(code("print(open('here.txt').read())")), "--cwd", str(other), cwd=str(other)
    )
    assert theirs.status == ours.status == 0, (theirs.err, ours.err)
    assert ours.outputs() == theirs.outputs()
    assert ours.outputs()[0][0]["text"] == "found\n"


def test_timeout(both):
    """papermill's --execution-timeout is --timeout here. Both end the run; papermill keeps no
    error output.
    """
    given = notebook(code("import time\nprint('a', flush=True)\ntime.sleep(60)"), code("1"))
    theirs, ours = both(given, "--timeout", "1", execution_timeout=1)
    assert theirs.status and ours.status == CELL_FAILED and "ran out of time" in ours.err
    assert ours.outputs()[2][0]["text"] == "a\n" and not ours.outputs()[3]
