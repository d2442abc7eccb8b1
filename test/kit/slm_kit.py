"""The original's service: SLM Code Interpreter 0.1.0 as its authors publish it, beside ours.

Original   its server, from the package index; without a model, which it needs only for what runs
Service    `fumehood slm`
"""
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zipfile

import pytest

from fumehood_kit import WAIT_S, wait_readable

WHEEL = "slm-code-interpreter==0.1.0"
BEGIN = ("import sys; sys.path.insert(0, sys.argv[1]); from slm_code_interpreter.server import "
         "run_server; run_server(int(sys.argv[2]))")


class Client:
    """What both are asked with. Bytes go as they are: what helps less hides less."""

    port = None

    def raw(self, data, wait_s=WAIT_S, half=False):
        """Sends bytes; what comes until the end, which must come."""
        with socket.create_connection(("127.0.0.1", self.port), wait_s) as sock:
            sock.sendall(data)
            if half:
                sock.shutdown(socket.SHUT_WR)
            answer = b""
            while True:
                try:
                    part = sock.recv(1 << 16)
                except ConnectionResetError:
                    return answer
                if not part:
                    return answer
                answer += part

    def request(self, method, path, body=None, fields=None, wait_s=WAIT_S):
        """(status, type, body)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=wait_s)
        try:
            connection.request(method, path, body, fields or {})
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type"), answer.read()
        finally:
            connection.close()

    def execute(self, body, fields=None, wait_s=2 * WAIT_S):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        return self.request("POST", "/execute", body,
                            {"Content-Type": "application/json", **(fields or {})}, wait_s)

    def head(self, body=b"", *lines, path="/execute"):
        """A request as bytes, with its right length."""
        fields = ["Host: 127.0.0.1:%d" % self.port, "Content-Type: application/json",
                  "Content-Length: %d" % len(body), *lines]
        return ("POST %s HTTP/1.1\r\n" % path + "\r\n".join(fields) + "\r\n\r\n").encode() + body


class Original(Client):
    def __init__(self, house):
        self.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(self.folder.name)
        got = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d",
                              str(path), WHEEL], capture_output=True, text=True,
                             timeout=10 * WAIT_S, check=False)
        if got.returncode:
            self.folder.cleanup()
            pytest.skip("the package index cannot be reached")
        wheel, = path.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(path / "lib")
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]
        self.process = subprocess.Popen([sys.executable, "-c", BEGIN, str(path / "lib"),
                                         str(self.port)], cwd=path, env=house.env,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        until = time.monotonic() + WAIT_S
        while True:
            try:
                self.request("GET", "/status")
                return
            except ConnectionRefusedError:
                assert self.process.poll() is None, self.process.stderr.read()
                assert time.monotonic() < until, "the original never listened"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        self.folder.cleanup()


class Service(Client):
    def __init__(self, house, *options, answers=None, cwd=None, **environment):
        words = ["--port", "0", *options]
        self.script = None
        if answers is not None:
            handle, self.script = tempfile.mkstemp(suffix=".ndjson")
            with open(handle, "w") as out:
                for answer in answers:
                    out.write(json.dumps(answer if isinstance(answer, dict)
                                         else {"text": answer}) + "\n")
            words += ["--script", self.script]
        self.process = house.popen("slm", *words, cwd=cwd, env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        wait_readable(self.process.stdout.fileno(), time.monotonic() + WAIT_S, "the first line")
        self.said = os.read(self.process.stdout.fileno(), 4096).decode()
        assert self.said, self.process.communicate()
        self.port = int(self.said.rpartition(":")[2])

    def children(self):
        """The asks that run."""
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)],
                               capture_output=True, text=True, check=False)
        return found.stdout.split()

    def until(self, what, check):
        until = time.monotonic() + WAIT_S
        while not check():
            assert time.monotonic() < until, "waited in vain for " + what

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=WAIT_S)
        err = err.decode("utf-8", "replace")
        assert "Sanitizer" not in err and "runtime error" not in err, err
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        try:
            if self.process.poll() is None:
                status = self.stop()
                assert kind or status == 0, status
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.communicate()
            if self.script:
                os.unlink(self.script)
