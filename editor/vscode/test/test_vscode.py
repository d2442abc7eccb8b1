"""The extension for VS Code: compiled, packaged, and tried by Node's test runner against the real
servers, with a stand-in for the editor (stand_in.ts); with FUMEHOOD_LONG in the real editor, too
(host.py)."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = ROOT / "editor" / "vscode"
sys.path[:0] = [str(ROOT / "test" / "kit"), str(HERE / "test")]
import fumehood_kit  # noqa: E402

fumehood_kit.hear_signals()
FILES = sorted(path.name for path in (HERE / "test").glob("*.test.mjs"))
VSIX = HERE / "dist" / "slm-code-interpreter-vscode.vsix"
STEP_S_MAX = 300


class Ended:
    """A program that has ended; one that takes too long is killed with all that it has started."""

    def __init__(self, words, env, seconds):
        process = subprocess.Popen(words, cwd=HERE, env=env, stdin=subprocess.DEVNULL, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   errors="replace", start_new_session=True)
        try:
            self.stdout = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self.stdout = process.communicate()[0] + "\nit took longer than %d s" % seconds
        self.returncode = process.returncode


def call(*words, env=None, seconds=STEP_S_MAX):
    return Ended(words, env, seconds)


@pytest.fixture(scope="session", autouse=True)
def built():
    """The .vsix, by the tools that package-lock.json names: it compiles and bundles, too."""
    for name in ("node", "npm"):
        if not shutil.which(name):
            pytest.skip("missing optional component %s" % name)
    version = tuple(map(int, re.findall(r"\d+", call("node", "--version").stdout)[:2]))
    if version < (20, 0):
        pytest.skip("missing optional component Node 20")
    if not (HERE / "node_modules" / ".bin" / "vsce").exists():
        if call("npm", "ping").returncode != 0:
            pytest.skip("the package index cannot be reached")
        ended = call("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", seconds=1200)
        assert ended.returncode == 0, ended.stdout
    shutil.rmtree(HERE / "dist", ignore_errors=True)
    ended = call("npm", "run", "package")
    assert ended.returncode == 0, ended.stdout


@pytest.fixture(scope="session")
def the_house():
    house = fumehood_kit.House()
    assert house.cli("run", "-c", "1").status == 0  # starts the pool
    yield house
    bad = house.close()
    assert not bad, "\n".join(bad)


def test_the_package(built):
    """One file of code, no packages, and nothing of the tests."""
    with zipfile.ZipFile(VSIX) as package:
        names = sorted(package.namelist())
        manifest = json.loads(package.read("extension/package.json"))
        code = package.read("extension/dist/extension.js").decode()
    assert names == ["[Content_Types].xml", "extension.vsixmanifest", "extension/LICENSE.txt",
                     "extension/dist/extension.js", "extension/package.json", "extension/readme.md"]
    assert manifest["name"] == "slm-code-interpreter-vscode"
    assert set(re.findall(r'\brequire\("([^"]+)"\)', code)) <= {
        "vscode", "node:child_process", "node:crypto", "node:fs/promises", "node:http",
        "node:https", "node:net", "node:path", "node:stream"}


@pytest.mark.parametrize("name", FILES)
def test_with_a_stand_in(the_house, name):
    the_house.mark_sessions()
    ended = call("node", "--test", "--test-reporter=tap", "test/" + name, env={
        **the_house.env, "FUMEHOOD": fumehood_kit.FUMEHOOD,
        "FUMEHOOD_TEST_FOLDER": str(the_house.folder())})
    if the_house.sockets():
        the_house.stop_sessions()
    assert ended.returncode == 0, ended.stdout
    assert int(re.search(r"^# pass (\d+)$", ended.stdout, re.M)[1]) > 0, ended.stdout
    assert re.search(r"^# skipped 0$", ended.stdout, re.M), ended.stdout
    bad = the_house.leftovers()
    assert not bad, "\n".join(bad)


if fumehood_kit.LONG:
    def test_in_the_real_editor(the_house, tmp_path):
        """The packaged extension in VS Code's own extension host, against the real servers."""
        import host
        import serve_kit

        reason = host.install(call)
        if reason:
            pytest.skip(reason)
        script = tmp_path / "answers.ndjson"
        script.write_text(json.dumps({"text": "```python\nprint('of the service', 40 + 2)\n```"})
                          + "\n")
        the_house.mark_sessions()
        service = subprocess.Popen(
            [fumehood_kit.FUMEHOOD, "slm", "--port", "0", "--script", str(script)],
            env=the_house.env, cwd=the_house.folder(), stdout=subprocess.PIPE, text=True)
        try:
            url = re.search(r"http:\S+", service.stdout.readline())[0]
            with serve_kit.Daemon(the_house), host.Editor(
                    the_house.folder() / "editor", VSIX, the_house.env,
                    {"slm-code-interpreter.endpoint": url,
                     "slm-code-interpreter.startServer": "never"}) as editor:
                told = editor.run()
                made = (editor.workspace / "made.txt").read_text()
                the_house.stop_sessions()
        finally:
            service.terminate()
            service.wait(fumehood_kit.WAIT_S)
            service.stdout.close()
        assert not [one for one in told.values() if "error" in one], told
        manifest = json.loads((HERE / "package.json").read_text())
        names = sorted(one["command"] for one in manifest["contributes"]["commands"])
        assert told["commands"]["commands"] == names and told["commands"]["trusted"]
        assert made == "of the code"
        assert told["selection"]["panels"] == ["Images of the selection"]
        assert "Output:\n" in told["original"]["output"]
        assert "\nof the service 42\n" in told["original"]["output"]
        assert "数を出力して" in told["original"]["output"]
