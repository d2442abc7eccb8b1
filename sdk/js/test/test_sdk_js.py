"""The SDK for JavaScript: each file of tests by Node's own runner, against a real daemon in a house
of its own; afterwards nothing may be left of it."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SDK = ROOT / "sdk" / "js"
sys.path.insert(0, str(ROOT / "test" / "kit"))
import fumehood_kit  # noqa: E402

fumehood_kit.hear_signals()
FILES = sorted(path.name for path in (SDK / "test").glob("*.test.mjs"))
STEP_S_MAX = 120


def call(*words, env=None):
    """A program to its end, with all that it prints; what takes too long ends with its children."""
    process = subprocess.Popen(words, cwd=SDK, env=env, stdin=subprocess.DEVNULL, text=True,
                               errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    try:
        out = process.communicate(timeout=STEP_S_MAX)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out = process.communicate()[0] + "\n%s took more than %d s" % (words, STEP_S_MAX)
    return subprocess.CompletedProcess(words, process.returncode, out)


def reporter():
    """TAP; a Node that has no choice of reporters (before 18.15) writes that anyway."""
    version = tuple(map(int, re.findall(r"\d+", call("node", "--version").stdout)[:2]))
    return ["--test-reporter=tap"] if version >= (18, 15) else []


@pytest.fixture(scope="session", autouse=True)
def built():
    """dist/, by the compiler that package-lock.json names."""
    for name in ("node", "npm"):
        if not shutil.which(name):
            pytest.skip("missing optional component %s" % name)
    if not (SDK / "node_modules" / ".bin" / "tsc").exists():
        if call("npm", "ping").returncode != 0:
            pytest.skip("the package index cannot be reached")
        ended = call("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
        assert ended.returncode == 0, ended.stdout
    shutil.rmtree(SDK / "dist", ignore_errors=True)
    ended = call("npx", "--no-install", "tsc", "-p", ".")
    assert ended.returncode == 0, ended.stdout


@pytest.fixture
def the_house():
    """One for each file: they look at all sessions there are, and an ask keeps its own."""
    house = fumehood_kit.House()
    assert house.cli("run", "-c", "1").status == 0  # starts the pool
    yield house
    bad = house.close()
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("name", FILES)
def test_with_node(the_house, name):
    if name == "page.test.mjs" and not shutil.which(os.environ.get("CHROMIUM", "chromium")):
        pytest.skip("missing optional component chromium")
    ended = call("node", "--test", *reporter(), "test/" + name,
                 env={**the_house.env, "FUMEHOOD": fumehood_kit.FUMEHOOD})
    if the_house.sockets():
        the_house.stop_sessions()
    assert ended.returncode == 0, ended.stdout
    assert int(re.search(r"^# pass (\d+)$", ended.stdout, re.M)[1]) > 0, ended.stdout
    assert re.search(r"^# skipped 0$", ended.stdout, re.M), ended.stdout
    bad = the_house.leftovers()
    assert not bad, "\n".join(bad)
