"""A real VS Code for the extension: the server of code-server (npm), its page in Chromium, and the
suite in the extension host (host/suite.js). 290 MB, and minutes on a busy machine.

Of code-server only Visual Studio Code's own server is used; its native modules (terminals, logs)
are not built, and nothing that is tested needs them.
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import urllib.parse
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
PLACE = HERE / "host"
SERVER = PLACE / "node_modules" / "code-server" / "lib" / "vscode"
WAIT_S = 900


def install(call):
    """What is missing, or None."""
    if not shutil.which(os.environ.get("CHROMIUM", "chromium")):
        return "missing optional component chromium"
    if not (SERVER / "node_modules.asar").exists():
        if call("npm", "ping").returncode != 0:
            return "the package index cannot be reached"
        words = ("npm", "ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund")
        for folder in (PLACE, SERVER):
            ended = call(*words, "--prefix", str(folder), seconds=1200)
            if ended.returncode != 0:
                return "missing optional component code-server"
        (SERVER / "node_modules.asar").symlink_to("node_modules")
    return None


def end(process):
    """Ends a program and what it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


class Editor:
    """The editor on a folder. `told` are the lines of the suite."""

    def __init__(self, work, vsix, environment, settings):
        self.work, self.processes = work, []
        self.workspace = work / "folder"
        user = work / "data" / "data" / "User"
        for folder in (self.workspace, user, work / "extensions"):
            folder.mkdir(parents=True)
        (user / "settings.json").write_text(json.dumps(
            {"security.workspace.trust.enabled": False, "extensions.autoUpdate": False}))
        machine = work / "data" / "data" / "Machine"
        machine.mkdir(parents=True)
        (machine / "settings.json").write_text(json.dumps(settings))
        with zipfile.ZipFile(vsix) as package:
            package.extractall(work / "package")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.settimeout(WAIT_S)
        self.listener.bind(str(work / "told"))
        self.listener.listen(1)
        self.environment = {**environment, "FUMEHOOD_VSCODE_TOLD": str(work / "told")}

    def start(self, words, **more):
        with open(self.work / (pathlib.Path(words[0]).name + ".log"), "wb") as log:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=log,
                                       start_new_session=True, **{"stdout": log, **more})
        self.processes.append(process)
        return process

    def run(self):
        """The steps of the suite, by their names."""
        server = self.start(
            ["node", str(SERVER / "out" / "server-main.js"), "--host", "127.0.0.1", "--port", "0",
             "--without-connection-token", "--accept-server-license-terms", "--telemetry-level",
             "off", "--server-data-dir", str(self.work / "data"), "--extensions-dir",
             str(self.work / "extensions")], stdout=subprocess.PIPE, env=self.environment)
        authority = None
        for line in server.stdout:
            if b"Extension host agent listening on " in line:
                authority = "127.0.0.1:%d" % int(line.split()[-1])
                break
        assert authority, (self.work / "node.log").read_text()
        remote = "vscode-remote://" + authority
        payload = json.dumps([
            ["extensionDevelopmentPath", remote + str(self.work / "package" / "extension")],
            ["extensionTestsPath", remote + str(PLACE / "suite.js")], ["skipWelcome", "true"]])
        self.start([os.environ.get("CHROMIUM", "chromium"), "--headless", "--no-sandbox",
                    "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                    "--remote-debugging-port=0",
                    "--user-data-dir=%s" % (self.work / "profile"),
                    "http://%s/?%s" % (authority, urllib.parse.urlencode(
                        {"folder": str(self.workspace), "payload": payload}))],
                   env={**self.environment, "HOME": str(self.work)})
        peer = self.listener.accept()[0]
        peer.settimeout(WAIT_S)
        with peer, peer.makefile("rb") as lines:
            return {told["step"]: told for told in map(json.loads, lines)}

    def close(self):
        self.listener.close()
        for process in self.processes:
            end(process)
            if process.stdout:
                process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
