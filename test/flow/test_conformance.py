"""nbclient's own notebooks (../shared/conformance/nbclient), run by `fumehood run`.

The outputs and execution counts must be those that are stored in the notebooks, after the
normalisations of the README there: no output metadata, no hex addresses, images by their bytes, SVG
by its XML, and tracebacks by name, value and failing line. Notebooks in which nothing is stored are
checked for what nbclient's tests say of them.
"""
import base64
import datetime
import re
import shutil
import xml.etree.ElementTree

import nbformat
import pytest

import fumehood_kit

FOLDER = fumehood_kit.SHARED / "conformance" / "nbclient"
ANSI = re.compile(r"\x1b\[[0-9;]*m")
# Notebook: options of the run, and its exit status.
COMPARED = {
    "Clear Output": ([], 0),
    "Empty Cell": ([], 0),
    "Error": ([], fumehood_kit.CELL_FAILED),
    "Factorials": ([], 0),
    "HelloWorld": ([], 0),
    "Inline Image": ([], 0),
    "Interrupt": (["--allow-errors", "--timeout", "2"], 0),
    "SVG": ([], 0),
    "Skip Exceptions": (["--allow-errors"], 0),
    "Skip Exceptions with Cell Tags": ([], 0),
    "Skip Execution with Cell Tag": ([], 0),
    "Unicode": ([], 0),
    "UnicodePy3": ([], 0),
}
# Not for this engine, as the README there says: they reach into ipykernel, need comms, or need
# --env and --write.
NOT_FOR_THIS_ENGINE = {"Check History in Memory", "JupyterWidgets", "Other Comms", "Output",
                       "Parallel Execute A", "Parallel Execute B", "update-display-id"}
NOTHING_STORED = {"Autokill", "Disable Stdin", "Sleep1s"}


@pytest.fixture
def execute(house, folder):
    """Runs a notebook in a copy of the folder: the program's result, and the new notebook."""
    if not FOLDER.is_dir():
        pytest.skip(fumehood_kit.NO_SHARED % "nbclient's notebooks")

    def execute(name, *options, stdin=b""):
        for path in FOLDER.iterdir():
            shutil.copy(path, folder)
            (folder / path.name).chmod(0o644)
        result = house.cli("run", name + ".ipynb", "-o", "done.ipynb", *options, cwd=folder,
                           stdin=stdin)
        made = nbformat.read(folder / "done.ipynb", as_version=nbformat.NO_CONVERT)
        nbformat.validate(made)
        return result, made
    return execute


def test_every_notebook_is_accounted_for():
    if not FOLDER.is_dir():
        pytest.skip(fumehood_kit.NO_SHARED % "nbclient's notebooks")
    names = {path.stem for path in FOLDER.glob("*.ipynb")}
    assert names == set(COMPARED) | NOT_FOR_THIS_ENGINE | NOTHING_STORED


def failing_lines(traceback):
    """The lines that IPython's text (`----> 2 code`) or CPython's (below `File`) points to."""
    text = ANSI.sub("", "\n".join(traceback))
    found = re.findall(r"^-+> *\d+ +(.*\S)", text, re.M) \
        or re.findall(r'^ *File "<cell[^\n]*\n +(.*\S)', text, re.M)
    return [line.replace(" ", "") for line in found]


def normal(mime, value):
    if mime == "image/svg+xml":
        return xml.etree.ElementTree.canonicalize(value, strip_text=True)
    if mime.startswith("image/"):
        return base64.b64decode(value)
    return re.sub(r"0x[0-9a-f]{7,}", "ADDRESS", value) if isinstance(value, str) else value


def normal_output(output):
    output = {key: value for key, value in output.items() if key not in ("metadata", "traceback")}
    if "data" in output:
        output["data"] = {mime: normal(mime, value) for mime, value in output["data"].items()}
        if "image/png" in output["data"] or "image/svg+xml" in output["data"]:
            output["data"].pop("text/plain", None)  # older nbclient stored none
    return output


@pytest.mark.parametrize("name", COMPARED)
def test_outputs_are_those_stored(execute, name):
    options, status = COMPARED[name]
    result, made = execute(name, *options)
    stored = nbformat.read(FOLDER / (name + ".ipynb"), as_version=4)
    assert result.status == status, result
    assert [cell.cell_type for cell in made.cells] == [cell.cell_type for cell in stored.cells]
    for mine, theirs in zip(made.cells, stored.cells):
        assert mine.source == theirs.source
        if mine.cell_type != "code":
            continue
        assert list(map(normal_output, mine.outputs)) == list(map(normal_output, theirs.outputs))
        assert mine.execution_count == theirs.execution_count, mine.source
        for ours, other in zip(mine.outputs, theirs.outputs):
            if ours.output_type == "error":
                assert failing_lines(ours.traceback) == failing_lines(other.traceback)


def test_disable_stdin(execute):
    """A notebook has nobody to ask: input() says so at once, also when there is a stdin."""
    result, made = execute("Disable Stdin", stdin=b"Zaphod\n")
    assert result.status == fumehood_kit.CELL_FAILED
    assert [output.ename for output in made.cells[0].outputs] == ["EOFError"]


def test_autokill(execute):
    """A cell that kills its interpreter is told apart from an error, and the notebook is whole."""
    result, made = execute("Autokill")
    assert result.status == fumehood_kit.CELL_FAILED and "signal 15" in result.err, result
    assert len(made.cells) == 1


def test_sleep(execute):
    """The times in a cell's metadata are those of the cell."""
    result, made = execute("Sleep1s")
    assert result.status == 0, result
    t0, t1 = (datetime.datetime.fromisoformat(made.cells[i].outputs[-1].text.rstrip("Z") + "+00:00")
              for i in (2, 3))
    times = made.cells[1].metadata.execution
    began, ended = (datetime.datetime.fromisoformat(times[key].replace("Z", "+00:00"))
                    for key in ("iopub.status.busy", "shell.execute_reply"))
    assert began <= t0 and t1 <= ended and t1 - t0 >= datetime.timedelta(seconds=1)
    assert ended - began < datetime.timedelta(seconds=10)
