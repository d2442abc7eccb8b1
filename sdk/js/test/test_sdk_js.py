"""The SDK for JavaScript: each file of tests by Node's own runner, against a real daemon in a house
of its own; afterwards nothing may be left of it."""
import os
import pathlib
import shutil
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SDK = ROOT / "sdk" / "js"
sys.path.insert(0, str(ROOT / "test" / "kit"))
import fumehood_kit  # noqa: E402
import node_kit  # noqa: E402

fumehood_kit.hear_signals()
FILES = sorted(path.name for path in (SDK / "test").glob("*.test.mjs"))
PACKAGE = node_kit.Package(SDK)


@pytest.fixture(scope="session", autouse=True)
def built():
    """dist/, by the compiler that package-lock.json names."""
    PACKAGE.install("tsc")
    shutil.rmtree(SDK / "dist", ignore_errors=True)
    ended = PACKAGE.call("npx", "--no-install", "tsc", "-p", ".")
    assert ended.returncode == 0, ended.stdout


@pytest.fixture
def the_house():
    """One for each file: they look at all sessions there are, and an ask keeps its own."""
    yield from node_kit.with_pool()


@pytest.mark.parametrize("name", FILES)
def test_with_node(the_house, name):
    if name == "page.test.mjs" and not shutil.which(os.environ.get("CHROMIUM", "chromium")):
        pytest.skip("missing optional component chromium")
    PACKAGE.run_tests(the_house, name)
