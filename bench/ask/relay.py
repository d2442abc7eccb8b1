"""A server between the two sides and the model: it counts, and it can keep answers.

Both sides speak to one OpenAI-compatible endpoint; this stands in front of it. With a folder, every
whole answer is kept under the hash of what was asked (messages, temperature, seed, limits), and a
request that has been asked before is answered from there: so the loop can be changed and run again
without the model, and gets the same words for the same prompts. What the server's side of a client
that went away had not finished is not kept. With `replay` nothing is forwarded at all.
"""

import hashlib
import http.client
import http.server
import json
import os
import re
import threading
import urllib.parse

# The original's programs lie in temporary files, whose names its error logs tell the model.
TEMPORARY = re.compile(r"/tmp/tmp\w{8}\.py")
ASKED = ("messages", "temperature", "top_p", "seed", "max_tokens", "stop", "stream")
ANSWER_SECONDS_MAX = 1800  # a loaded machine may take long, and only then is it broken
BODY_BYTES_MAX = 16 << 20


def key_of(request):
    asked = {name: request[name] for name in ASKED if name in request}
    text = TEMPORARY.sub("/tmp/program.py", json.dumps(asked, sort_keys=True))
    return hashlib.sha256(text.encode()).hexdigest()


class Relay:
    """with Relay(upstream, folder, replay) as relay: relay.url is an OpenAI-compatible base."""

    def __init__(self, upstream, folder=None, replay=False):
        self.upstream = urllib.parse.urlsplit(upstream) if upstream else None
        self.folder, self.replay = folder, replay
        self.asked = self.kept = 0
        self.lost = []  # why answers were cut, on either side
        if folder:
            os.makedirs(folder, exist_ok=True)
        relay = self

        class Handler(_Handler):
            owner = relay

        self.server = _Server(("127.0.0.1", 0), Handler)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def path_of(self, key):
        return os.path.join(self.folder, key + ".answer")

    def known(self, key):
        if not self.folder or not os.path.exists(self.path_of(key)):
            return None
        with open(self.path_of(key), "rb") as file:
            head, _, body = file.read().partition(b"\n")
        return json.loads(head), body

    def keep(self, key, request, status, kind, body):
        head = {"status": status, "type": kind, "request": request}
        part = f"{self.path_of(key)}.{threading.get_ident()}"
        with open(part, "wb") as file:
            file.write(json.dumps(head).encode() + b"\n" + body)
        os.replace(part, self.path_of(key))


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that hangs up has had enough: that is how an ask is ended early."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, message):
        body = {"error": {"code": status, "type": "bench_relay", "message": message}}
        self.answer(status, "application/json", json.dumps(body).encode())

    def do_GET(self):
        # What models there are: asked by those who replay, too; else always asked anew.
        key = hashlib.sha256(self.path.encode()).hexdigest()
        known = self.owner.known(key) if self.owner.replay else None
        if known:
            self.answer(known[0]["status"], known[0]["type"], known[1])
        else:
            self.forward("GET", b"", key)

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 <= length <= BODY_BYTES_MAX:
            self.refuse(413, "the request is too long")
            return
        body = self.rfile.read(length)
        key = None
        if self.path.endswith("/chat/completions"):
            self.owner.asked += 1
            key = key_of(json.loads(body))
            known = self.owner.known(key)
            if known:
                self.owner.kept += 1
                self.answer(known[0]["status"], known[0]["type"], known[1])
                return
        self.forward("POST", body, key)

    def forward(self, method, body, key):
        if self.owner.replay or not self.owner.upstream:
            self.refuse(404, "no answer to this request has been kept")
            return
        upstream = self.owner.upstream
        path = upstream.path.rstrip("/") + self.path[len("/v1"):]
        if not self.path.startswith("/v1"):
            path = self.path  # what a server has beside the API, such as /props
        link = http.client.HTTPConnection(
            upstream.hostname, upstream.port, timeout=ANSWER_SECONDS_MAX
        )
        try:
            headers = {"Content-Type": "application/json"} if body else {}
            if "Authorization" in self.headers:
                headers["Authorization"] = self.headers["Authorization"]
            link.request(method, path, body or None, headers)
            self.pass_on(link.getresponse(), body, key)
        except (OSError, http.client.HTTPException) as error:
            self.close_connection = True
            self.owner.lost.append(str(error))
        finally:
            link.close()

    def pass_on(self, answer, body, key):
        """Sends on what comes, as it comes; keeps it if it was whole."""
        kind = answer.getheader("Content-Type") or "application/octet-stream"
        self.send_response(answer.status)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        streamed = kind.startswith("text/event-stream")
        whole = b""
        try:
            while True:
                part = answer.read1(65536)
                if not part:
                    break
                whole += part
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        finally:
            # A client may go as soon as it has seen the last event: then it is whole, too.
            if key and self.owner.folder and answer.status == 200 and (
                b"data: [DONE]" in whole if streamed else not answer.length
            ):
                self.owner.keep(key, json.loads(body or "{}"), answer.status, kind, whole)
