"""A server for models that does to its clients what servers do: each fault of model_faults.py.

The first part of a request's path is the fault's name (`/cut/v1/chat/completions`), so one server
has all of them. It is written over bare sockets, because no HTTP library would do these things. It
remembers what was asked, and tells when a client has closed its connection.
"""
import collections
import json
import os
import queue
import socket
import socketserver
import threading

WAIT_S = 120
USAGE = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14,
         "prompt_tokens_details": {"cached_tokens": 7}}

Asked = collections.namedtuple("Asked", "method path headers body")


class Peer:
    """A connection with one request read from it, and ways to answer wrongly."""

    def __init__(self, server, sock):
        self.server, self.sock = server, sock
        self.file = sock.makefile("rb")
        self.chunked = False

    def read(self):
        """Reads a request; False at the end."""
        line = self.file.readline().decode("latin-1").split()
        if len(line) != 3:
            return False
        self.method, self.path = line[0], line[1]
        self.headers = {}
        while True:
            field = self.file.readline().decode("latin-1").strip()
            if not field:
                break
            name, _, value = field.partition(":")
            self.headers[name.lower()] = value.strip()
        body = self.file.read(int(self.headers.get("content-length", 0)))
        self.body = json.loads(body) if body else None
        parts = self.path.lstrip("/").split("/", 1)
        self.name, self.rest = parts[0], parts[-1].split("?")[0]
        asked = Asked(self.method, self.path, self.headers, self.body)
        with self.server.lock:
            self.server.asked[self.name].append(asked)
        return True

    def send(self, data):
        self.sock.sendall(data)

    def head(self, status=200, kind="text/event-stream", chunked=True, version="1.1", **fields):
        self.chunked = chunked
        lines = ["HTTP/%s %d Whatever" % (version, status)]
        if kind:
            lines.append("Content-Type: " + kind)
        if chunked:
            lines.append("Transfer-Encoding: chunked")
        lines += ["%s: %s" % (name.replace("_", "-"), value) for name, value in fields.items()]
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode())

    def whole(self, status, body, kind="application/json", **fields):
        """An answer with its length."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.head(status, kind, chunked=False, Content_Length=len(body), **fields)
        self.send(body)

    def bytes(self, data):
        """A part of the body."""
        if self.chunked:
            data = b"%x\r\n%s\r\n" % (len(data), data)
        self.send(data)

    def event(self, value, end=b"\n\n"):
        text = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
        self.bytes(b"data: " + text + end)

    def delta(self, finish=None, **delta):
        self.event({"id": "x", "object": "chat.completion.chunk", "model": "m", "new": [{}],
                    "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    def usage(self, **more):
        self.event({"choices": [], "usage": {**USAGE, **more}})

    def end(self, done=True):
        if done:
            self.event(b"[DONE]")
        if self.chunked:
            self.send(b"0\r\n\r\n")

    def say(self, *texts, finish="stop"):
        """A normal answer, but for its end."""
        self.head()
        self.delta(role="assistant", content=None)
        for text in texts:
            self.delta(content=text)
        if finish:
            self.delta(finish=finish)

    def wait_for_end(self):
        """Waits until the client has closed, and remembers it."""
        self.sock.settimeout(WAIT_S)
        try:
            while self.sock.recv(4096):
                pass
        except ConnectionError:
            pass
        self.server.closed[self.name].put(True)

    def reset(self):
        """Ends the connection with a RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        os.close(self.sock.detach())


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = Peer(self.server, self.request)
        try:
            while peer.read():
                if peer.method == "GET":
                    describe(peer)
                elif self.server.faults[peer.name](peer) != "again":
                    return
        except ConnectionError:
            self.server.closed[peer.name].put(True)
        finally:
            peer.file.close()


class ModelServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = False  # close() waits for them: their sockets are closed then

    def __init__(self, faults):
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults = faults
        self.lock = threading.Lock()
        self.asked = collections.defaultdict(list)
        self.closed = collections.defaultdict(queue.Queue)
        self.port = self.server_address[1]
        self.thread = threading.Thread(target=self.serve_forever, args=(0.02,))
        self.thread.start()

    def url(self, name):
        return "http://127.0.0.1:%d/%s/v1" % (self.port, name)

    def wait_closed(self, name):
        """Waits until a client has closed a connection of that fault; once for each."""
        return self.closed[name].get(timeout=WAIT_S)

    def close(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


def describe(peer):
    """What the server says of itself, by the name of the place."""
    models = {"data": [{"id": "m", "max_model_len": 2048}]}
    if peer.name == "two_models":
        models["data"].append({"id": "other"})
    elif peer.name == "ollama":
        models = {"data": [{"id": "a:1b", "owned_by": "library"},
                           {"id": "b:1b", "owned_by": "library"}]}
        if peer.rest == "api/ps":
            models = {"models": [{"name": "c", "context_length": 9},
                                 {"name": "b:1b", "context_length": 4096}]}
    elif peer.name == "lmstudio":
        models = {"data": [{"id": "m", "owned_by": "organization_owner"}]}
        if peer.rest == "api/v0/models":
            models = {"data": [{"id": "m", "loaded_context_length": 8192}]}
    elif peer.name == "silent":
        peer.wait_for_end()
        return
    elif peer.name == "locked":
        peer.whole(401, {"error": {"message": "no key"}})
        return
    elif peer.name == "nothing":
        peer.whole(200, b"[]")
        return
    peer.whole(200, models)
