"""The original's service (`fumehood slm`): its replies to the byte, its extension's requests, and
what was broken or dangerous there.
"""
import http.server
import json
import re
import shutil
import socket
import subprocess
import threading

import pytest

from fumehood_kit import WAIT_S, kill
from serve_kit import Daemon
from slm_kit import Original, Service

GOOD = "I print it.\n```python\nprint(6 * 7)\n```\n"
BAD = "```python\nraise ValueError('no')\n```"
FAILURE = {"success": False, "stdout": "", "stderr": "Max correction loops reached.", "code": "",
           "attempts": 3, "response": ""}
# As the extension builds a request: the length is that of the string, in UTF-16 units.
EXTENSION = """
const http = require('http');
const data = JSON.stringify({instruction: process.argv[2], max_retries: 3});
const request = http.request({hostname: '127.0.0.1', port: Number(process.argv[1]),
    path: '/execute', method: 'POST', headers: {'Content-Type': 'application/json',
    'Content-Length': process.argv[3] === 'bytes' ? Buffer.byteLength(data) : data.length}},
    (answer) => {
        let text = '';
        answer.on('data', (part) => { text += part; });
        answer.on('end', () => { console.log(JSON.stringify([answer.statusCode, text])); });
    });
request.on('error', (error) => { console.log(JSON.stringify([0, error.message])); });
request.write(data);
request.end();
"""


@pytest.fixture
def service(house):
    with Service(house, answers=[GOOD] * 9) as service:
        yield service


# ------------------------------------------------------------------------------------- the replies

ROWS = (
    ("GET", "/status", None), ("GET", "/status?a=1", None), ("GET", "/status#x", None),
    ("GET", "/", None), ("GET", "/status/", None), ("GET", "/execute", None), ("GET", "/x/y", None),
    ("POST", "/status", b""), ("POST", "/", b""), ("POST", "/execute/", b""),
    ("PUT", "/execute", None), ("OPTIONS", "/execute", None), ("DELETE", "/status", None),
    ("PATCH", "/status", None), ("HEAD", "/status", None), ("BREW", "/status", None),
    ("TRACE", "/status", None),
    ("POST", "/execute", b""), ("POST", "/execute", b"  \n"), ("POST", "/execute", b"{"),
    ("POST", "/execute", b"[]"), ("POST", "/execute", b"5"), ("POST", "/execute", b"null"),
    ("POST", "/execute", b"\xff"), ("POST", "/execute", b'{"instruction": "x"'),
    ("POST", "/execute", b"{}"), ("POST", "/execute", b'{"instruction": ""}'),
    ("POST", "/execute", b'{"instruction": null, "more": 1}'),
    ("POST", "/execute", b'{"instruction": 0}'), ("POST", "/execute", b'{"instruction": []}'),
    ("POST", "/execute", b'{"instruction": "x", "max_retries": "many"}'),
    ("POST", "/execute", b'{"instruction": "x", "max_retries": null}'),
    ("POST", "/execute", b'{"instruction": "x", "max_retries": {}}'),
    ("POST", "/execute", b'{"max_retries": "many"}'),
)


def plain(answer, port):
    """An answer without what differs for a reason: the port, the words behind "payload:" (those of
    Python's parser), and the frame of Python's page of errors, which changes with its version."""
    status, kind, body = answer
    body = body.replace(b"%d" % port, b"8085")
    if b"Expecting value: line 1 column 1 (char 0)" not in body:
        body = re.sub(rb'(payload: ).*"\}$', rb'\1..."}', body)
    if status == 501:
        found = re.search(rb"<h1>.*</p>", body, re.S)
        return status, kind, re.sub(rb"\s+", b" ", found.group(0)) if found else body
    return status, kind, body


def test_replies_are_the_originals(house, service):
    with Original(house) as original:
        for method, path, body in ROWS:
            fields = {} if body is None else {"Content-Type": "application/json"}
            theirs = original.request(method, path, body, fields)
            # Their status tells the constant, whatever the port is.
            theirs = plain(theirs, 8085)
            ours = plain(service.request(method, path, body, fields), service.port)
            if body in (b"  \n", b"5", b"null", b"\xff"):
                assert ours[:2] == theirs[:2] and ours[2][:30] == theirs[2][:30], body
            else:
                assert ours == theirs, (method, path, body)
        # No model: as much as it says, it says in the same place.
        with Service(house, "--model", "/nonexistent/model") as other:
            ours, theirs = (one.execute({"instruction": "x"}) for one in (other, original))
            assert ours[:2] == theirs[:2] == (500, "application/json")
            begin = b'{"error": "Failed to load ONNX model: '
            assert ours[2].startswith(begin) and theirs[2].startswith(begin)


def test_results(house, service):
    assert re.fullmatch(r"\[SLMCodeInterpreter\] Local VS Code integration server active on "
                        r"http://127\.0\.0\.1:\d+\n", service.said)
    # As json.dumps writes the dict of the original's run().
    wanted = {"success": True, "stdout": "42", "stderr": "", "code": "print(6 * 7)", "attempts": 1,
              "response": GOOD}
    answer = service.execute({"instruction": "6 * 7", "max_retries": 1})
    assert answer == (200, "application/json", json.dumps(wanted).encode())
    for retries in (0, -3):
        answer = service.execute({"instruction": "x", "max_retries": retries})
        assert answer[2] == json.dumps({**FAILURE, "attempts": retries}).encode()
    # By default three programs: they agree.
    answer = json.loads(service.execute({"instruction": "6 * 7", "details": True})[2])
    assert list(answer)[:6] == list(wanted) and answer["stdout"] == "42"
    assert answer["confidence"] in ("ran", "agreed") and answer["session"]
    with Service(house, answers=[BAD] * 12) as failing:
        assert failing.execute({"instruction": "x"})[2] == json.dumps(FAILURE).encode()
        answer = json.loads(failing.execute({"instruction": "x", "details": True})[2])
        assert {name: answer[name] for name in FAILURE} == FAILURE
        assert "ValueError" in json.dumps(answer["programs"]) and answer["message"]


def test_other_scripts_than_latin(house):
    code = "print('你好 \U0001d11e é')"
    with Service(house, answers=["```python\n%s\n```" % code] * 3) as service:
        wanted = {"success": True, "stdout": "你好 \U0001d11e é", "stderr": "", "code": code,
                  "attempts": 1, "response": "```python\n%s\n```" % code}
        answer = service.execute({"instruction": "说 你好", "max_retries": 1})
        assert answer[2] == json.dumps(wanted).encode()
        body = json.dumps({"instruction": "说 你好", "max_retries": 1}, ensure_ascii=False).encode()
        text = service.raw(service.head(body))
        head, _, rest = text.partition(b"\r\n\r\n")
        length, = re.findall(rb"(?i)content-length: (\d+)", head)
        assert len(rest) == int(length) and b"connection: close" in head.lower()
        assert json.loads(rest)["stdout"] == wanted["stdout"]


# ------------------------------------------------------------------------------- its own extension

def test_the_extensions_request(service):
    node = shutil.which("node")
    if not node:
        pytest.skip("missing optional component node")

    def ask(text, how):
        result = subprocess.run([node, "-e", EXTENSION, str(service.port), text, how],
                                capture_output=True, text=True, timeout=4 * WAIT_S, check=True)
        return json.loads(result.stdout)
    status, text = ask("six times seven", "string")
    assert status == 200 and json.loads(text)["stdout"] == "42"
    # Its length is too small as soon as a character has more than one byte.
    status, text = ask("六 × 七 = ?", "string")
    assert status == 400 and json.loads(text)["error"].startswith("Invalid JSON payload: ")
    assert "bytes" in text
    status, text = ask("六 × 七 = ?", "bytes")
    assert status == 200 and json.loads(text)["stdout"] == "42"


def test_wrong_lengths(service):
    body = json.dumps({"instruction": "x", "max_retries": 0}).encode()
    right = service.head(body)
    for wrong, want in ((b"0", b"400"), (b"7", b"400"), (b"-1", b"400"), (b"a", b"400"),
                        (b"", b"400"), (b"1e3", b"400"), (b"99999999", b"413"),
                        (b"9" * 30, b"400")):
        data = right.replace(b"Content-Length: %d" % len(body), b"Content-Length: " + wrong)
        answer = service.raw(data)
        assert answer.startswith(b"HTTP/1.1 " + want), (wrong, answer)
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"], wrong
    without = re.sub(rb"Content-Length: \d+\r\n", b"", right)
    assert b"Expecting value" in service.raw(without)
    # Too long: the end of the client's half tells that no more comes.
    longer = right.replace(b"Content-Length: %d" % len(body),
                           b"Content-Length: %d" % (len(body) + 9))
    assert service.raw(longer, half=True).startswith(b"HTTP/1.1 400")
    both = right.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n", 1)
    assert service.raw(both).startswith(b"HTTP/1.1 400")
    chunked = re.sub(rb"Content-Length: \d+", b"Transfer-Encoding: chunked", right)
    chunked = chunked.replace(body, b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
    assert b"Max correction loops reached." in service.raw(chunked)
    assert service.request("GET", "/status")[0] == 200


# ---------------------------------------------------------------------------------- pages of others

def test_pages_of_other_sites_are_refused(service):
    body = {"instruction": "x", "max_retries": 0}
    ours = "http://127.0.0.1:%d" % service.port
    for origin in ("https://evil.example", "null", "http://127.0.0.1", ours + ".evil.example",
                   "http://127.0.0.1:1", "file://", "vscode-webview://", "xvscode-webview://a"):
        for method, path, data in (("POST", "/execute", json.dumps(body).encode()),
                                   ("GET", "/status", None), ("OPTIONS", "/execute", None),
                                   ("BREW", "/x", None)):
            fields = {"Origin": origin, "Content-Type": "application/json"}
            status, _, text = service.request(method, path, data, fields)
            assert (status, method == "BREW") in ((403, False), (501, True)), (origin, method)
            assert b"success" not in text and b"ready" not in text
    for site in ("cross-site", "same-site"):
        assert service.execute(body, {"Sec-Fetch-Site": site})[0] == 403
    for host in ("evil.example", "127.0.0.1", "localhost.evil.example:%d" % service.port,
                 "[::1]:%d" % service.port):
        assert service.execute(body, {"Host": host})[0] == 403
    # What a form can send, or a page without asking first, is no JSON.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                 "text/plain; a=application/json", ""):
        status, _, text = service.execute(body, {"Content-Type": kind})
        assert status == 415 and b"application/json" in text, kind
    # Whoever is no page, and the editor's own pages, pass.
    for fields in ({}, {"Content-Type": "Application/JSON; charset=utf-8"},
                   {"Origin": "vscode-webview://0a1b"}, {"Origin": ours},
                   {"Sec-Fetch-Site": "none"}, {"Host": "localhost:%d" % service.port}):
        assert service.execute(body, fields)[0] == 200, fields
    answer = service.raw(b"OPTIONS /execute HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nOrigin: "
                         b"vscode-webview://0a1b\r\nAccess-Control-Request-Method: POST\r\n\r\n"
                         % service.port)
    assert answer.startswith(b"HTTP/1.1 204")
    assert b"Access-Control-Allow-Origin: vscode-webview://0a1b\r\n" in answer


PAGE = """<!doctype html><body><form id=f method=post enctype=text/plain target=frame
action="URL/execute"><input name='{"instruction": "x", "a": "' value='"}'></form>
<iframe name=frame></iframe><script>
const url = 'URL', body = JSON.stringify({instruction: 'x'});
const ways = [
    () => fetch(url + '/execute', {method: 'POST', mode: 'no-cors', body}),
    () => fetch(url + '/execute', {method: 'POST', mode: 'no-cors', body: new Blob([body])}),
    () => fetch(url + '/execute', {method: 'POST', body,
                                   headers: {'Content-Type': 'application/json'}}),
    async () => navigator.sendBeacon(url + '/execute', body),
    async () => { document.getElementById('f').submit(); },
    async () => (await fetch(url + '/status')).text(),
];
(async () => {
    const found = [];
    for (const way of ways)
        found.push(await way().then((value) => typeof value === 'string' ? value : 'sent',
                                    () => 'refused'));
    document.title = 'told';
    document.body.textContent = 'FOUND ' + found.join(' ');
})();
</script>"""


class Site(http.server.BaseHTTPRequestHandler):
    """A page of somebody else."""

    def do_GET(self):
        body = PAGE.replace("URL", self.server.target).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_a_page_in_a_browser(house, service, tmp_path):
    """What it can send without being asked is not done, and what it asks for it is not told."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        pytest.skip("missing optional component chromium")

    def sessions():
        """Those with an ask: the next one's spare is there before."""
        journals = house.sessions.glob("*/journal.ndjson")
        return {path.parent.name for path in journals if b'"type":"ask"' in path.read_bytes()}
    before = sessions()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        site.target = "http://127.0.0.1:%d" % service.port
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        try:
            result = subprocess.run(
                [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--user-data-dir=%s" % tmp_path, "--timeout=20000", "--dump-dom",
                 "--virtual-time-budget=20000", "http://localhost:%d/" % site.server_port],
                capture_output=True, text=True, timeout=6 * WAIT_S, check=False)
        finally:
            site.shutdown()
            thread.join()
    found = re.search("FOUND ([^<]*)", result.stdout)
    assert found, (result.stdout, result.stderr[-2000:])
    # Where a page may send without asking first, the answer is none for it.
    found = found.group(1).split()
    assert len(found) == 6 and set(found) <= {"sent", "refused"}, found
    assert found[2] == found[5] == "refused"
    assert sessions() == before and not service.children()
    assert service.execute({"instruction": "6 * 7", "max_retries": 1})[0] == 200
    assert sessions() > before  # what would have been seen


def test_bodies_have_a_limit(service):
    body = json.dumps({"instruction": "x" * (5 << 20)}).encode()
    assert service.raw(service.head(body)).startswith(b"HTTP/1.1 413")
    deep = b'{"instruction": ' + b"[" * 100000
    assert service.execute(deep)[0] == 400


# ------------------------------------------------------------------------------ at the same time

SLOW = {"text": GOOD, "delay_ms": 600000}


def test_status_while_models_think_and_clients_that_go(house):
    with Service(house, answers=[SLOW] * 3) as service:
        body = json.dumps({"instruction": "x"}).encode()
        socks = []
        for _ in range(4):
            sock = socket.create_connection(("127.0.0.1", service.port), WAIT_S)
            sock.sendall(service.head(body))
            socks.append(sock)
        service.until("two asks", lambda: len(service.children()) == 2)
        assert service.request("GET", "/status")[0] == 200
        # Who waits and goes is forgotten; who runs and goes makes room for the next.
        socks.pop().close()
        first = service.children()
        socks.pop(0).close()
        service.until("the next", lambda: len(service.children()) == 2 and
                      service.children() != first)
        for sock in socks:
            sock.close()
        service.until("their end", lambda: not service.children())
        assert service.request("GET", "/status")[0] == 200


def test_the_end(house):
    """SIGTERM answers those who wait; SIGKILL leaves no program behind."""
    service = Service(house, answers=[SLOW])
    answers = []
    thread = threading.Thread(target=lambda: answers.append(service.execute({"instruction": "x"})))
    thread.start()
    service.until("the ask", service.children)
    with service:
        assert service.stop() == 0
        thread.join(WAIT_S)
        assert answers and answers[0][0] in (200, 500)
    slow = "```python\nimport time\nwhile True:\n    print(1, flush=True)\n    time.sleep(.1)\n```"
    with Service(house, answers=[slow]) as service:
        sock = socket.create_connection(("127.0.0.1", service.port), WAIT_S)
        sock.sendall(service.head(json.dumps({"instruction": "x", "max_retries": 1}).encode()))
        service.until("the ask", service.children)
        kill(service.process.pid)
        service.process.communicate(timeout=WAIT_S)
        sock.close()


def test_where_programs_are(house):
    """Any user of the machine can ask: none sees where the service was started."""
    place = house.folder()
    (place / "secret.txt").write_text("sesame")
    look = "```python\nimport os\nprint(os.listdir())\nopen('made', 'w').close()\n```"
    with Service(house, answers=[look] * 9, cwd=place) as service:
        status, _, body = service.execute({"instruction": "x", "max_retries": 1})
        assert (status, json.loads(body)["stdout"]) == (200, "[]")
    assert [path.name for path in place.iterdir()] == ["secret.txt"]
    with Service(house, "--workspace", ".", answers=[look] * 9, cwd=place) as service:
        _, _, body = service.execute({"instruction": "x", "max_retries": 1})
        assert json.loads(body)["stdout"] == "['secret.txt']"
    assert (place / "made").exists()


def test_many_retries(house):
    """More than fumehood ask has are as many as it has."""
    with Service(house, answers=[BAD] * 40) as service:
        for count in (17, 10**15):
            status, _, body = service.execute({"instruction": "x", "max_retries": count})
            assert (status, json.loads(body)) == (200, {**FAILURE, "attempts": count})


# ------------------------------------------------------------------------------------- which model

def test_the_originals_configuration(house, tmp_path):
    def error(*options, cwd=None, **environment):
        with Service(house, *options, cwd=cwd, **environment) as service:
            assert service.request("GET", "/status")[0] == 200  # loaded when it is first asked
            status, _, body = service.execute({"instruction": "x"})
            assert status == 500, body
            text = json.loads(body)["error"]
            assert text.startswith("Failed to load ONNX model: "), text
            return text
    onnx = tmp_path / "models" / "qwen" / "cpu"
    onnx.mkdir(parents=True)
    (onnx / "genai_config.json").write_text("{}")
    assert "fumehood model pull" in error("--model", str(tmp_path / "models"))
    config = tmp_path / "config.yaml"
    config.write_text("models:\n  code_interpreter:\n    path: models  # beside this file\n")
    assert "ONNX form" in error(SLM_CODE_INTERPRETER_CONFIG=str(config))
    assert "ONNX form" in error(cwd=tmp_path)
    assert "ONNX form" in error(cwd=tmp_path / "models")
    config.write_text("models:\n  code_interpreter:\n    path: nowhere\n")
    assert "nowhere" in error(SLM_CODE_INTERPRETER_CONFIG=str(config))
    for name, words in (("nowhere/m", "not there"), ("nowhere.gguf", "not there"),
                        ("some-model", "no model"), ("http://127.0.0.1:9/v1", "127.0.0.1:9")):
        config.write_text("models:\n  code_interpreter:\n    path: %s\n" % name)
        with Service(house, cwd=tmp_path) as service:
            status, _, body = service.execute({"instruction": "x", "max_retries": 1})
        text = json.loads(body)["error"]
        assert status == 500 and words in text and name.partition("/")[0] in text, text
    config.write_text("models:\n  code_interpreter:\n")
    assert "has no models" in error(SLM_CODE_INTERPRETER_CONFIG=str(config))
    config.write_text("models: {code_interpreter: {path: x}}\n")
    assert "line 1" in error(cwd=tmp_path)
    assert "no such" in error(SLM_CODE_INTERPRETER_CONFIG="/no/such/file").lower()
    config.unlink()
    assert "ONNX form" in error(SLM_CODE_INTERPRETER_CACHE_DIR=str(tmp_path / "models"))
    for name, value in (("N_THREADS", "many"), ("N_THREADS", "0"), ("N_CTX", "7")):
        name = "SLM_CODE_INTERPRETER_" + name
        result = house.cli("slm", env={name: value})
        assert result.status == 2 and name in result.err
    (tmp_path / "models" / "bad.gguf").write_bytes(b"no model")
    config.write_text("models:\n  code_interpreter:\n    path: models\n")
    error(cwd=tmp_path)


def test_beside_the_daemon(house):
    with Daemon(house, "--original", "--port", "0") as daemon:
        port = int(re.search(r"http://127\.0\.0\.1:(\d+) \(the original's service\)",
                             daemon.said).group(1))
        with socket.create_connection(("127.0.0.1", port), WAIT_S) as sock:
            sock.sendall(b"GET /status HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port)
            assert b'{"status": "ready", "port": %d}' % port in sock.recv(4096)
        # It has no way to the daemon's own routes.
        with socket.create_connection(("127.0.0.1", port), WAIT_S) as sock:
            sock.sendall(b"GET /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port)
            assert sock.recv(4096).startswith(b"HTTP/1.1 404")
        taken = house.cli("slm", "--port", str(port))
        assert taken.status == 125 and "in use" in taken.err
    assert house.cli("serve", "--port", "99999", "--original").status == 2
    assert house.cli("serve", "--port", "80").status == 2
    assert house.cli("slm", "--port", "70000").status == 2
