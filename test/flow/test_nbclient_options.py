"""The options of nbclient and of `jupyter execute`, side by side with the real nbclient.

Each test gives the same notebook to both and compares outputs, execution counts, and whether the
run failed. Where Fumehood is meant to differ, the test says so in words.
"""

import json
import os
import subprocess
import sys

import nbformat
import pytest

from fumehood_kit import CELL_FAILED, FAULT, USAGE

pytest.importorskip("nbclient", reason="missing optional component nbclient")

# One process that runs nbclient again and again.
SERVER = """
import json, sys
import nbclient, nbformat
answers, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    path, folder, options = json.loads(line)
    notebook = nbformat.read(path, as_version=4)
    error = None
    try:
        nbclient.NotebookClient(
            notebook, resources={"metadata": {"path": folder}}, **options
        ).execute()
    except Exception as failure:
        error = type(failure).__name__
    nbformat.write(notebook, path)
    print(json.dumps(error), file=answers, flush=True)
"""


@pytest.fixture(scope="session")
def nbclient(tmp_path_factory):
    """Runs NotebookClient(...).execute() in another process; the name of the exception that
    ended it.
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

    def call(path, folder, options):
        process.stdin.write(json.dumps([str(path), str(folder), options]) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield call
    process.communicate()
    assert process.returncode == 0


def code(source, *tags, outputs=(), count=None):
    cell = nbformat.v4.new_code_cell(source, outputs=list(outputs), execution_count=count)
    if tags:
        cell.metadata.tags = list(tags)
    return cell


def notebook(*cells):
    return nbformat.v4.new_notebook(
        cells=list(cells),
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
        },
    )


def outputs(made):
    """Outputs without what is each one's own: tracebacks, and where a stream is cut."""
    found = []
    for cell in made.cells:
        if cell.cell_type != "code":
            continue
        here = []
        for output in cell.outputs:
            output = {
                key: value for key, value in output.items() if key not in ("traceback", "metadata")
            }
            if (
                here
                and output["output_type"] == "stream"
                and here[-1].get("name") == output["name"]
            ):
                here[-1]["text"] += output["text"]
            else:
                here.append(output)
        found.append((cell.execution_count, here))
    return found


class Both:
    """What the two made of a notebook: `error` is the name of nbclient's exception, `result` our
    program's.
    """

    def __init__(self, error, theirs, result, ours):
        self.error, self.theirs, self.result, self.ours = error, theirs, result, ours

    def agree(self):
        assert (self.error is not None) == (self.result.status != 0), (self.error, self.result)
        assert outputs(self.ours) == outputs(self.theirs), self.result
        return self


@pytest.fixture
def both(house, folder, nbclient):
    def both(given, *words, **options):
        for name in ("theirs.ipynb", "ours.ipynb"):
            nbformat.write(given, folder / name)
        error = nbclient(folder / "theirs.ipynb", folder, options)
        result = house.cli("run", "-q", "ours.ipynb", "--inplace", *words, cwd=folder)
        made = nbformat.read(folder / "ours.ipynb", as_version=nbformat.NO_CONVERT)
        nbformat.validate(made)
        return Both(error, nbformat.read(folder / "theirs.ipynb", as_version=4), result, made)

    return both


def old():
    return nbformat.v4.new_output("stream", text="old\n")


# ------------------------------------------------------------------------------------------- errors


def test_stop_at_the_first_error(both):
    """Both stop. What an earlier run left below is kept by nbclient and removed here: it did not
    happen.
    """
    seen = both(notebook(code("print(1)"), code("1/0"), code("print(2)", outputs=[old()], count=7)))
    assert seen.error == "CellExecutionError" and seen.result.status == CELL_FAILED
    assert outputs(seen.ours)[:2] == outputs(seen.theirs)[:2]
    assert outputs(seen.ours)[2] == (None, []) and outputs(seen.theirs)[2][0] == 7
    assert (
        "cell 2 of 3" in seen.result.err
        and "ZeroDivisionError: division by zero" in seen.result.err
    )


def test_allow_errors(both):
    both(
        notebook(code("1/0"), code("print(2)"), code("[][1]"), code("5")),
        "--allow-errors",
        allow_errors=True,
    ).agree()


@pytest.mark.parametrize(
    "names", [["KeyError"], ["ZeroDivisionError"], ["KeyError", "ZeroDivisionError"]]
)
def test_allow_error_names(both, names):
    both(
        notebook(code("1/0"), code("{}[1]"), code("5")),
        "--allow-error-names",
        ", ".join(names),
        allow_error_names=names,
    ).agree()


def test_raises_exception(both):
    both(
        notebook(
            code("1/0", "raises-exception"), code("5", "raises-exception"), code("1/0"), code("6")
        )
    ).agree()


def test_force_raise_errors(both):
    both(
        notebook(code("1/0", "raises-exception"), code("5")),
        "--allow-errors",
        "--force-raise-errors",
        allow_errors=True,
        force_raise_errors=True,
    ).agree()


# ---------------------------------------------------------------------------------- what is not run


def test_skipped_cells_keep_what_they_have(both):
    both(
        notebook(
            code("print(1)"),
            code("print('no')", "skip-execution", outputs=[old()], count=9),
            code("  \n"),
            nbformat.v4.new_raw_cell("raw"),
            code("2"),
        )
    ).agree()


def test_skip_tag(both):
    both(
        notebook(
            code("x = 1", "slow"), code("print('x' in globals())", "skip-execution"), code("2")
        ),
        "--skip-tag",
        "slow",
        skip_cells_with_tag="slow",
    ).agree()


def test_old_outputs_go(both):
    both(
        notebook(
            code("print(1)", outputs=[old(), old()], count=5),
            code("x = 1", outputs=[old()], count=6),
        )
    ).agree()


# ------------------------------------------------------------------------------------------ kernels


def test_language_of_another_kernel(house, folder):
    """nbclient starts the kernel that the notebook names, or raises NoSuchKernel. Here it is
    refused before anything runs; but parameters can be put into it."""
    given = notebook(code("x <- 1"))
    given.metadata.kernelspec = {"name": "ir", "display_name": "R", "language": "R"}
    nbformat.write(given, folder / "in.ipynb")
    result = house.cli("run", "in.ipynb", "-o", "out.ipynb", cwd=folder)
    assert result.status == FAULT and "in R, and only Python" in result.err, result
    assert os.listdir(folder) == ["in.ipynb"]
    result = house.cli("run", "in.ipynb", "-o", "out.ipynb", "--prepare-only", cwd=folder)
    assert result.status == 0, result


def test_language_info_and_folder(both):
    """language_info is the interpreter's, the kernel's names stay, and cells run in the folder of
    the file."""
    given = notebook(code("import os\nopen('here', 'w').close()"), code("os.path.exists('here')"))
    given.metadata.kernelspec = {"name": "python3", "display_name": "Mine", "language": "python"}
    given.metadata.language_info = {"name": "python", "version": "2.7.18", "stale": 1}
    seen = both(given).agree()
    assert seen.ours.cells[1].outputs[0].data["text/plain"] == "True"
    assert seen.ours.metadata.language_info == seen.theirs.metadata.language_info
    assert seen.ours.metadata.kernelspec == seen.theirs.metadata.kernelspec


def test_execution_counts_are_those_of_the_cells_that_ran(both):
    both(
        notebook(
            code("1", count=40), nbformat.v4.new_markdown_cell("m"), code(""), code("2"),
            code("# c")
        )
    ).agree()


# --------------------------------------------------------------------------------------------- time

SLOW = "import time\nprint('begun', flush=True)\ntime.sleep(60)"


def test_timeout(both):
    seen = both(notebook(code(SLOW), code("2")), "--timeout", "2", timeout=2)
    assert seen.error == "CellTimeoutError" and seen.result.status == CELL_FAILED
    assert "ran out of time" in seen.result.err
    assert outputs(seen.ours)[0][1][0]["text"] == "begun\n" and outputs(seen.ours)[1] == (None, [])


def test_timeout_and_allow_errors(both):
    """nbclient stops all the same; here the interrupt has helped, the variables are there, and
    it goes on.
    """
    seen = both(
        notebook(code("x = 5\n" + SLOW), code("x")),
        "--timeout",
        "2",
        "--allow-errors",
        timeout=2,
        allow_errors=True,
    )
    assert seen.error == "CellTimeoutError" and seen.result.status == 0
    assert outputs(seen.ours)[1][1][0]["data"]["text/plain"] == "5"


@pytest.mark.parametrize(
    "words,options",
    [
        ([], {}),
        (["--allow-errors"], {"allow_errors": True}),
        (
            ["--allow-error-names", "KeyboardInterrupt"],
            {"allow_error_names": ["KeyboardInterrupt"]},
        ),
        (["--allow-error-names", "ValueError"], {"allow_error_names": ["ValueError"]}),
    ],
)
def test_interrupt_on_timeout(both, words, options):
    both(
        notebook(code(SLOW), code("print(2)")),
        "--timeout",
        "2",
        "--interrupt-on-timeout",
        *words,
        timeout=2,
        interrupt_on_timeout=True,
        **options
    ).agree()


def test_interrupt_on_timeout_is_caught(both):
    """The cell catches the interrupt and ends well. The run goes on; that the time was up is in
    the record.
    """
    caught = (
        "try:\n    "
        + SLOW.replace("\n", "\n    ")
        + "\nexcept KeyboardInterrupt:\n    print('caught')"
    )
    seen = both(
        notebook(code(caught), code("print(2)")),
        "--timeout",
        "2",
        "--interrupt-on-timeout",
        timeout=2,
        interrupt_on_timeout=True,
    )
    assert seen.error is None and seen.result.status == 0, seen.result
    assert outputs(seen.ours)[1] == outputs(seen.theirs)[1]
    assert outputs(seen.ours)[0][1][:1] == outputs(seen.theirs)[0][1]
    assert outputs(seen.ours)[0][1][1]["ename"] == "Timeout"


def test_killed_at_timeout(house, folder):
    """What no interrupt stops is killed; without its variables the rest makes no sense, whatever
    is allowed.
    """
    deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    nbformat.write(notebook(code(deaf), code("print(2)")), folder / "in.ipynb")
    result = house.cli(
        "run", "in.ipynb", "--timeout", "1", "--allow-errors", "-o", "out.ipynb", cwd=folder
    )
    made = nbformat.read(folder / "out.ipynb", as_version=4)
    assert result.status == CELL_FAILED and "2" not in result.out, result
    assert made.cells[0].outputs[-1].output_type == "error" and not made.cells[1].outputs


def test_startup_timeout(house, folder, tmp_path):
    """An environment that takes longer."""
    subprocess.run(
        ["/usr/bin/python3", "-m", "venv", "--without-pip", tmp_path / "slow"], check=True
    )
    packages = next((tmp_path / "slow" / "lib").glob("python3*/site-packages"))
    (packages / "slow.pth").write_text("import time; time.sleep(4)\n")
    nbformat.write(notebook(code("1")), folder / "in.ipynb")
    result = house.cli(
        "run", "in.ipynb", "--python", str(tmp_path / "slow"), "--startup-timeout", "1", cwd=folder
    )
    assert result.status == FAULT and "--startup-timeout" in result.err, result
    result = house.cli("run", "in.ipynb", "--startup-timeout", "60", cwd=folder)
    assert result.status == 0, result


@pytest.mark.parametrize("word", [None, "--record-timing", "--no-record-timing"])
def test_record_timing(both, word):
    seen = both(
        notebook(code("1"), nbformat.v4.new_markdown_cell("m"), code("x", "skip-execution")),
        *([word] if word else []),
        record_timing=word != "--no-record-timing"
    ).agree()
    timed = [sorted(cell.metadata.get("execution", {})) for cell in seen.ours.cells]
    assert timed == [sorted(cell.metadata.get("execution", {})) for cell in seen.theirs.cells]
    assert bool(timed[0]) == (word != "--no-record-timing")


# -------------------------------------------------------------------------------------------- files


def test_inplace_and_output(house, folder):
    nbformat.write(notebook(code("print(1)")), folder / "in.ipynb")
    before = (folder / "in.ipynb").read_bytes()
    assert house.cli("run", "-q", "in.ipynb", cwd=folder).status == 0
    assert os.listdir(folder) == ["in.ipynb"] and (folder / "in.ipynb").read_bytes() == before
    (folder / "in.ipynb").chmod(0o640)
    assert house.cli("run", "-q", "in.ipynb", "--inplace", cwd=folder).status == 0
    assert (
        os.listdir(folder) == ["in.ipynb"] and (folder / "in.ipynb").stat().st_mode & 0o777 == 0o640
    )
    made = nbformat.read(folder / "in.ipynb", as_version=4)
    assert made.cells[0].outputs[0].text == "1\n"
    again = (folder / "in.ipynb").read_bytes()
    assert (
        house.cli("run", "-q", "in.ipynb", "--inplace", "--no-record-timing", cwd=folder).status
        == 0
    )
    assert nbformat.read(folder / "in.ipynb", as_version=4).cells[0].id == made.cells[0].id
    assert again != before


@pytest.mark.parametrize(
    "words",
    [
        ["--inplace", "-o", "x.ipynb"],
        ["--prepare-only"],
        ["--from-cell", "2"],
        ["--record-timing", "--no-record-timing"],
        ["--cwd", ".", "-w", "."],
        ["-p", "a"],
    ],
)
def test_wrong_usage(house, folder, words):
    nbformat.write(notebook(code("1")), folder / "in.ipynb")
    result = house.cli("run", "in.ipynb", *words, cwd=folder)
    assert result.status == USAGE, result


@pytest.mark.parametrize(
    "words", [["--inplace"], ["-p", "a", "1"], ["--from-cell", "1"], ["--report-mode"]]
)
def test_options_for_notebooks_only(house, words):
    result = house.cli("run", "-c", "1", *words)
    assert result.status == USAGE and "notebook" in result.err, result


def test_underscores(house, folder):
    """nbclient writes --startup_timeout, papermill --parameters_raw."""
    nbformat.write(
        notebook(code("a = 1", "parameters"), code("print(repr(a))")), folder / "in.ipynb"
    )
    result = house.cli(
        "run", "in.ipynb", "--startup_timeout", "60", "--parameters_raw", "a", "5", cwd=folder
    )
    assert (result.status, result.out) == (0, "'5'\n"), result
