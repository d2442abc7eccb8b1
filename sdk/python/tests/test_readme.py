"""The examples of the README, in their order, as one program; and every CPython that is here."""
import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys

import fumehood_kit
import pytest

import fumehood

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"
VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.13t", "3.14t")
PROGRAM = """
import asyncio, fumehood, fumehood.tools, fumehood.compat, threading
with fumehood.Session() as session:
    assert session.run("x = 6").ok and session.run("print('o'); x * 7").result == "42"
    assert session.run("1 / 0").error.name == "ZeroDivisionError"
    assert [e.type for e in session.stream("print(1)")][-1] == "finished"
    assert session.run("input()", input=["a"]).result == "'a'"
    session.files.put("f", b"1")
    assert fumehood.tools.Toolbox(session).call("read_file", {"path": "f"}) == "1"
    threads = [threading.Thread(target=session.run, args=("1",)) for _ in range(5)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(session.notebook()["cells"]) == 10
async def main():
    async with fumehood.AsyncSession(spare=False) as session:
        assert (await session.run("6 * 7")).result == "42"
asyncio.run(main())
print("good")
"""


def test_the_examples_run(house):
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.M | re.S)
    assert len(blocks) > 8
    out = io.StringIO()
    space = {"__name__": "readme"}
    with contextlib.redirect_stdout(out):
        for number, block in enumerate(blocks):
            exec(compile(block, "README.md, example %d" % (number + 1), "exec"), space)
    told = out.getvalue()
    for line in ("sum: 15\n", "array([[0, 1, 2],\n", "0\n1\n2\n", "heard hello\n", "async\n"):
        assert line in told


def known_pythons():
    """{version: path}: tools/pythons.sh prints them; check.py hands its own list on."""
    given = os.environ.get("FUMEHOOD_TEST_VERSIONS")
    text = given if given is not None else subprocess.run(
        [str(fumehood_kit.ROOT / "tools" / "pythons.sh")], capture_output=True, text=True).stdout
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)


@pytest.fixture(scope="module")
def pythons():
    return known_pythons()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_python(house, pythons, version):
    """The client's Python; the session has its own."""
    if version not in pythons:
        pytest.skip("missing optional component CPython " + version)
    done = subprocess.run(
        [pythons[version], "-W", "error", "-X", "dev", "-c", PROGRAM], capture_output=True,
        text=True, cwd="/", env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1",
                                 "PYTHONPATH": str(README.parent)})
    assert (done.stdout, done.stderr) == ("good\n", "")


def test_it_installs(house, tmp_path):
    """As a wheel, with its types, into an environment that has nothing."""
    import shutil

    source = tmp_path / "source"
    shutil.copytree(README.parent, source, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    target = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps",
         "--target", str(target), str(source)], capture_output=True, text=True)
    if "No matching distribution found for setuptools" in done.stderr:
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    assert (target / "fumehood" / "py.typed").exists() and (target / "fumehood/compat").is_dir()
    done = subprocess.run(
        [sys.executable, "-I", "-c", "import sys; sys.path.insert(0, %r); import fumehood\n"
         "print(fumehood.__file__)\nwith fumehood.Session() as s: print(s.run('1').text)"
         % str(target)], capture_output=True, text=True)
    assert done.stdout == "%s\n1\n" % (target / "fumehood" / "__init__.py"), done.stderr


def test_the_types_are_strict():
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull,
                           "fumehood"], cwd=README.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert fumehood.__file__.startswith(str(README.parent))
