"""A hub of models on this machine: HTTP with ranges and entity tags, and what can go wrong there.

`small_model()` makes a file that is a model by its head (and whose weights are bytes that tell
their place), `Hub` serves files. Its faults are switched on by a test: `hold` (sends so many bytes,
then waits), `cut` (closes after so many, once), `nameless` (says no length), `status`, `location`.
"""
import hashlib
import http.server
import struct
import threading

MEBIBYTE = 1 << 20


def _text(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _pair(key, value):
    if isinstance(value, str):
        return _text(key) + struct.pack("<I", 8) + _text(value)
    return _text(key) + struct.pack("<II", 4, value)


def small_model(mebibytes=4, template="{{ messages }}", seed=0, architecture="qwen2"):
    """The bytes of a GGUF file with one tensor of so many MiB."""
    pairs = [("general.architecture", architecture), ("general.name", "small"),
             (architecture + ".context_length", 4096), ("general.file_type", 0),
             ("tokenizer.ggml.model", "gpt2")]
    if template:
        pairs.append(("tokenizer.chat_template", template))
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(pairs))
    head += b"".join(_pair(key, value) for key, value in pairs)
    head += _text("weights") + struct.pack("<IQIQ", 1, mebibytes * MEBIBYTE // 4, 0, 0)
    head += b"\0" * (-len(head) % 32)
    return head + b"".join(struct.pack("<II", seed, i) for i in range(mebibytes * MEBIBYTE // 8))


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        hub = self.server.hub
        wanted = self.headers.get("Range"), self.headers.get("If-Range")
        hub.requests.append((self.path, *wanted))
        self.close_connection = True
        data = hub.files.get(self.path)
        if hub.status or data is None:
            self.send_error(hub.status or 404)
            return
        if hub.location and self.path != hub.location:
            self.send_response(302)
            self.send_header("Location", hub.location)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        tag = '"%s"' % sha256(data)[:16]
        start = 0
        if wanted[0] and wanted[1] in (None, tag):
            start = int(wanted[0][len("bytes="):].partition("-")[0])
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", "bytes %d-%d/%d" % (start, len(data) - 1, len(data)))
        if not hub.nameless:
            self.send_header("Content-Length", str(len(data) - start))
        self.send_header("ETag", tag)
        self.end_headers()
        self._send(hub, data[start:])

    def _send(self, hub, data):
        try:
            if hub.hold:
                self.wfile.write(data[:hub.hold])
                hub.held.set()
                hub.go_on.wait()
                self.wfile.write(data[hub.hold:])
            elif hub.cut:
                cut, hub.cut = hub.cut, 0
                self.wfile.write(data[:cut])
            else:
                self.wfile.write(data)
        except OSError:
            pass  # the other side has gone


class Hub:
    def __init__(self):
        self.files, self.requests = {}, []
        self.hold = self.cut = self.status = 0
        self.nameless, self.location = False, None
        self.held, self.go_on = threading.Event(), threading.Event()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.hub = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def url(self, path):
        return "http://127.0.0.1:%d%s" % (self._server.server_address[1], path)

    def put(self, path, data):
        self.files[path] = data
        return self.url(path)

    def release(self):
        self.hold = 0
        self.go_on.set()

    def close(self):
        self.release()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
