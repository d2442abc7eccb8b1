"""Notebooks like those that people publish, beside nbclient and ipykernel: all outputs compared.

test/data/notebooks has them, doc/differences.md what is not compared and what differs: each
difference must be a row of its table, and each row must be seen. Both sides use the same Python.
All notebooks run before the first comparison, nbclient's in two processes beside ours: most of
what a kernel does until its first cell is to import itself.
"""
import json
import pathlib
import re
import shutil
import subprocess

import nbformat
import pytest

import notebook_compare
from fumehood_kit import PYTHON, ROOT

pytest.importorskip("nbclient", reason="missing optional component nbclient")
pytest.importorskip("ipykernel", reason="missing optional component ipykernel")

FOLDER = ROOT / "test" / "data" / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
PEER = ROOT / "test" / "kit" / "notebook_peer.py"
PEERS = 2
ROW = re.compile(r"^\| ([\w-]+) \| (\d+) \| (.+?)( \(may\))? \| (.{8,}) \|$", re.MULTILINE)


def table():
    """Of doc/differences.md: {(notebook, cell, what): whether it must be seen}."""
    text = (ROOT / "doc" / "differences.md").read_text()
    rows = [line for line in text.split("\n") if line.startswith("| ")][1:]
    found = {(name, int(cell), what): not may for name, cell, what, may, _ in ROW.findall(text)}
    assert len(rows) == len(found), "a row is doubled, or not of the form that is wanted"
    return found


class Peer:
    """A process that executes notebooks with nbclient."""

    def __init__(self, folder):
        folder.mkdir()
        self.log = open(folder / "log", "w+")
        self.process = subprocess.Popen([PYTHON, str(PEER), str(folder)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)

    def give(self, paths):
        self.process.stdin.write("".join("%s\n" % path for path in paths))
        self.process.stdin.close()

    def end(self):
        answers = [json.loads(line) for line in self.process.stdout]
        self.process.stdout.close()
        self.process.wait()
        with self.log:
            self.log.seek(0)
            log = self.log.read()
        assert self.process.returncode == 0, log[-3000:]
        return answers


@pytest.fixture(scope="session")
def executed(run_house, tmp_path_factory):
    """{name: (theirs, ours, their folder)}, all executed."""
    place = pathlib.Path(tmp_path_factory.mktemp("theirs"))
    for name in NAMES:
        (place / name).mkdir()
        shutil.copy(FOLDER / (name + ".ipynb"), place / name / "in.ipynb")
    peers = [Peer(place / ("peer %d" % number)) for number in range(PEERS)]
    for number, peer in enumerate(peers):
        peer.give(place / name / "in.ipynb" for name in NAMES[number::PEERS])
    ours = {name: execute(run_house, name) for name in NAMES}
    answers = [peer.end() for peer in peers]
    assert [answer for some in answers for answer in some] == [None] * len(NAMES), answers
    return {name: (nbformat.read(place / name / "in.ipynb", as_version=4), ours[name],
                   str(place / name)) for name in NAMES}


def execute(house, name):
    folder = house.folder()
    shutil.copy(FOLDER / (name + ".ipynb"), folder / "in.ipynb")
    result = house.cli("run", "-q", "in.ipynb", "-o", str(folder / "out.ipynb"), "--allow-errors",
                       "--no-record-timing", cwd=folder)
    assert result.status == 0, result
    made = nbformat.read(folder / "out.ipynb", as_version=nbformat.NO_CONVERT)
    nbformat.validate(made)
    return made


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_those_of_ipykernel(executed, name):
    theirs, ours, folder = executed[name]
    for cell in theirs.cells:  # what fails is meant to, or the comparison says little
        if cell.cell_type == "code" and "raises-exception" not in cell.metadata.get("tags", []):
            assert not any(output.output_type == "error" for output in cell.outputs), cell
    seen = notebook_compare.differences(theirs, ours, folder, "/workspace")
    rows = {(cell, what): must for (book, cell, what), must in table().items() if book == name}
    unknown = {key: values for key, values in seen.items() if key not in rows}
    assert not unknown, "\n".join(
        "cell %d, %s:\n    theirs %.1500r\n    ours   %.1500r" % (*key, *values)
        for key, values in unknown.items())
    stale = [key for key, must in rows.items() if must and key not in seen]
    assert not stale, "rows of doc/differences.md that are not true: %s" % stale


def test_rows_are_of_notebooks_that_exist():
    assert {name for name, _, _ in table()} <= set(NAMES)
