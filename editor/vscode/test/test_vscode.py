"""The extension for VS Code: compiled, packaged, and tried by Node's test runner against the real
servers, with a stand-in for the editor (stand_in.ts); with FUMEHOOD_LONG in the real editor, too
(host.py)."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = ROOT / "editor" / "vscode"
sys.path[:0] = [str(ROOT / "test" / "kit"), str(HERE / "test")]
import fumehood_kit  # noqa: E402
import node_kit  # noqa: E402

fumehood_kit.hear_signals()
FILES = sorted(path.name for path in (HERE / "test").glob("*.test.mjs"))
VSIX = HERE / "dist" / "slm-code-interpreter-vscode.vsix"
PACKAGE = node_kit.Package(HERE)


@pytest.fixture(scope="session", autouse=True)
def built():
    """The .vsix, by the tools that package-lock.json names: it compiles and bundles, too."""
    PACKAGE.install("vsce", node=(20, 0))
    shutil.rmtree(HERE / "dist", ignore_errors=True)
    ended = PACKAGE.call("npm", "run", "package")
    assert ended.returncode == 0, ended.stdout


@pytest.fixture(scope="session")
def the_house():
    yield from node_kit.with_pool()


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
    PACKAGE.run_tests(the_house, name, FUMEHOOD_TEST_FOLDER=str(the_house.folder()))


if fumehood_kit.LONG:
    def test_in_the_real_editor(the_house, tmp_path):
        """The packaged extension in VS Code's own extension host, against the real servers."""
        import host
        import serve_kit

        reason = host.install(PACKAGE.call)
        if reason:
            pytest.skip(reason)
        script = tmp_path / "answers.ndjson"
        script.write_text(json.dumps({"text": "```python\nprint('of the service', 40 + 2)\n```"})
                          + "\n")
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
