"""Running notebooks: going on after a failure, the progress line, what is in the file and when."""

import json
import signal
import time

import nbformat
import pytest

from fumehood_kit import CELL_FAILED, FAULT, WAIT_S


def code(source, *tags):
    cell = nbformat.v4.new_code_cell(source)
    if tags:
        cell.metadata.tags = list(tags)
    return cell


def write(path, *cells):
    nbformat.write(nbformat.v4.new_notebook(cells=list(cells)), path)


def read(path):
    made = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(made)
    return made


def texts(made):
    """The printed text of each code cell."""
    return [
        "".join(output.get("text", "") for output in cell.outputs)
        for cell in made.cells
        if cell.cell_type == "code"
    ]


@pytest.fixture
def session(house):
    """The name of a session that is removed at the end."""
    yield "nb"
    house.cli("stop", "nb")
    house.cli("gc", "nb")


# ----------------------------------------------------------------------------------------- going on


def test_from_cell_takes_over_what_ran(house, folder, session):
    """The file has no outputs of the cells before; the session's journal has."""
    cells = [
        nbformat.v4.new_markdown_cell("# T"),
        code("x = 5\nprint('first')"),
        code("print(x)\n1/0"),
        code("print(x + 1)"),
    ]
    write(folder / "n.ipynb", *cells)
    options = ("-s", session, "-o", "out.ipynb")
    result = house.cli("run", "n.ipynb", *options, cwd=folder)
    assert result.status == CELL_FAILED and "--from-cell " + cells[2].id in result.err, result
    assert texts(read(folder / "out.ipynb")) == ["first\n", "5\n", ""]
    cells[2].source = "print(x * 2)"
    write(folder / "n.ipynb", *cells)
    result = house.cli("run", "n.ipynb", *options, "--from-cell", cells[2].id, cwd=folder)
    assert (result.status, result.out) == (0, "10\n6\n"), result
    made = read(folder / "out.ipynb")
    assert texts(made) == ["first\n", "10\n", "6\n"]
    assert [cell.id for cell in made.cells] == [cell.id for cell in cells]
    assert [cell.get("execution_count") for cell in made.cells] == [None, 1, 3, 4]
    assert made.cells[1].metadata.execution


def test_from_cell_again_and_again(house, folder, session):
    """The last run of a cell counts, whatever id the session had to give it."""
    cells = [code("import random\nn = globals().get('n', 0) + 1\nprint(n)"), code("print('b', n)")]
    write(folder / "n.ipynb", *cells)
    for number in range(1, 4):
        assert house.cli("run", "n.ipynb", "-s", session, cwd=folder).status == 0
    result = house.cli(
        "run", "n.ipynb", "-s", session, "-o", "out.ipynb", "--from-cell", "2", cwd=folder
    )
    assert result.status == 0 and not result.err, result
    assert texts(read(folder / "out.ipynb")) == ["3\n", "b 3\n"]


def test_from_cell_in_place(house, folder, session):
    """What the session does not know keeps the outputs of the file."""
    cells = [code("print('a')"), code("1/0")]
    write(folder / "n.ipynb", *cells)
    assert house.cli("run", "n.ipynb", "-s", session, "--inplace", cwd=folder).status == CELL_FAILED
    given = read(folder / "n.ipynb")
    given.cells[0].source = "print('other')"
    given.cells[1].source = "print('b')"
    nbformat.write(given, folder / "n.ipynb")
    result = house.cli("run", "n.ipynb", "-s", session, "--inplace", "--from-cell", "2", cwd=folder)
    assert result.status == 0 and "1 cells before cell 2 have not run" in result.err, result
    assert texts(read(folder / "n.ipynb")) == ["a\n", "b\n"]


def test_from_cell_without_its_session(house, folder, session):
    write(folder / "n.ipynb", code("x = 1"), code("x"))
    result = house.cli("run", "n.ipynb", "-s", session, "--from-cell", "2", cwd=folder)
    assert result.status == FAULT and "no session nb" in result.err, result
    assert house.cli("run", "n.ipynb", "-s", session, cwd=folder).status == 0
    result = house.cli("run", "n.ipynb", "-s", session, "--from-cell", "3", cwd=folder)
    assert result.status == FAULT and "2 cells" in result.err, result
    assert house.cli("restart", session).status == 0
    result = house.cli("run", "n.ipynb", "-s", session, "--from-cell", "2", cwd=folder)
    assert result.status == CELL_FAILED and "variables are lost" in result.err, result
    assert house.cli("stop", session).status == 0
    result = house.cli("run", "n.ipynb", "-s", session, "--from-cell", "2", cwd=folder)
    assert result.status == FAULT, result


def test_file_has_the_cells_of_the_notebook_only(house, folder, session):
    assert house.cli("run", "-s", session, "-c", "other = 1").status == 0
    write(folder / "n.ipynb", code("print(other)"))
    assert house.cli("run", "n.ipynb", "-s", session, "-o", "out.ipynb", cwd=folder).status == 0
    assert texts(read(folder / "out.ipynb")) == ["1\n"]
    assert house.cli("run", "-s", session, "-c", "2", "-o", "all.ipynb", cwd=folder).status == 0
    assert len(read(folder / "all.ipynb").cells) == 3


# -------------------------------------------------------------------------------------- how it ends


@pytest.mark.parametrize(
    "call,status",
    [
        ("exit()", 0),
        ("exit(0)", 0),
        ("exit(None)", 0),
        ("exit(3)", CELL_FAILED),
        ("exit('bad')", CELL_FAILED),
    ],
)
def test_sys_exit(house, folder, call, status):
    """The orderly end of a program, in a script and in a notebook."""
    (folder / "a.py").write_text("import sys\nprint('a')\nsys.%s\nprint('b')\n" % call)
    result = house.cli("run", "a.py", cwd=folder)
    assert (result.status, result.out) == (status, "a\n") and bool(result.err) == bool(
        status
    ), result
    write(folder / "n.ipynb", code("import sys\nsys.%s" % call), code("print('b')"))
    result = house.cli("run", "n.ipynb", "-o", "out.ipynb", cwd=folder)
    assert (result.status, result.out) == (status, ""), result
    assert read(folder / "out.ipynb").cells[0].outputs[0].ename == "SystemExit"


def test_ended_by_a_signal(house, folder):
    """What there is is in the file, which is valid."""
    write(
        folder / "n.ipynb",
        code("print('a')"),
        code("import time\nprint('b', flush=True)\ntime.sleep(600)"),
        code("1"),
    )
    process = house.popen("run", "n.ipynb", "-o", "out.ipynb", cwd=folder, stdout=-1)
    assert process.stdout.readline() == b"a\n" and process.stdout.readline() == b"b\n"
    process.send_signal(signal.SIGTERM)
    process.stdout.close()
    assert process.wait(WAIT_S) == -signal.SIGTERM
    assert texts(read(folder / "out.ipynb")) == ["a\n", "b\n", ""]


def test_file_grows_during_the_run(house, folder):
    """A notebook that takes long can be watched; killed, it leaves what it had."""
    write(
        folder / "n.ipynb",
        *[code("import time\nprint(%d, flush=True)\ntime.sleep(0.8)" % i) for i in range(40)]
    )
    process = house.popen("run", "-q", "n.ipynb", "-o", "out.ipynb", cwd=folder)
    until = time.monotonic() + WAIT_S
    while not (folder / "out.ipynb").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    process.kill()
    process.wait(WAIT_S)
    made = read(folder / "out.ipynb")
    assert texts(made)[:2] == ["0\n", "1\n"] and texts(made)[-1] == "" and len(made.cells) == 40
    assert not house.leftovers(), "its keeper ends with it"
    assert house.cli("gc", made.metadata.fumehood.session).status == 0


# -------------------------------------------------------------------------------- the progress line


def test_progress_on_a_terminal(house, folder):
    write(folder / "n.ipynb", *[code("import time\ntime.sleep(0.3)") for _ in range(3)])
    with house.script("run", "-q", "n.ipynb", cwd=folder) as terminal:
        assert terminal.end() == 0
    assert (
        "cell 1 of 3" in terminal.seen
        and "cell 3 of 3" in terminal.seen
        and "[====" in terminal.seen
    )
    assert terminal.seen.endswith("\r\x1b[K"), "it is gone at the end"
    with house.script("run", "-q", "n.ipynb", "--no-progress-bar", cwd=folder) as terminal:
        assert terminal.end() == 0
    assert terminal.seen == ""
    result = house.cli("run", "-q", "n.ipynb", cwd=folder)
    assert (result.out, result.err) == ("", "")


def test_json_events_of_a_notebook(house, folder):
    write(folder / "n.ipynb", nbformat.v4.new_markdown_cell("m"), code("1"))
    result = house.cli("run", "--json", "n.ipynb", "-p", "a", "1", cwd=folder)
    kinds = [json.loads(line)["type"] for line in result.out.splitlines()]
    assert [kind for kind in kinds if kind != "committed"] == [
        "session",
        "cell",
        "started",
        "finished",
        "note",
        "cell",
        "started",
        "result",
        "finished",
    ]
