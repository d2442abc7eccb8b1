"""A site on the loopback, for tests of what reaches it: files, a package index with one package, a
git repository, by http and by https with a certificate of its own.
"""
import http.server
import io
import ssl
import subprocess
import tarfile
import threading
import zipfile


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        self.server.paths.append(self.path)

    def do_POST(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while True:
                size = int(self.rfile.readline(), 16)
                body += self.rfile.read(size)
                self.rfile.readline()
                if size == 0:
                    break
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    """Files of a folder by http or https on the loopback."""
    daemon_threads = False

    def __init__(self, folder, certificate=None):
        super().__init__(("127.0.0.1", 0), lambda *args: Handler(*args, directory=str(folder)))
        self.paths = []
        self.port = self.server_address[1]
        scheme = "http"
        if certificate:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = "%s://localhost:%d" % (scheme, self.port)
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        self.thread.start()

    def close(self):
        self.shutdown()
        self.thread.join()
        self.server_close()

    def handle_error(self, request, client_address):
        """A client that goes away early is no error here."""


def write_wheel(path, name, version, module, requires=None):
    """A wheel of one module."""
    info = "%s-%s.dist-info/" % (name, version)
    words = "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version)
    if requires:
        words += "Requires-Dist: %s\n" % requires
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(name + ".py", module)
        wheel.writestr(info + "METADATA", words)
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\n"
                       "Root-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "RECORD", "")


def make_wheel(folder, name="fhtiny", version="1.0", requires=None):
    """A page of a package index, with one package of one module."""
    page = folder / "simple" / name.replace("_", "-")
    page.mkdir(parents=True)
    file = "%s-%s-py3-none-any.whl" % (name, version)
    write_wheel(page / file, name, version, "ANSWER = 42\n", requires)
    (page / "index.html").write_text('<a href="%s">%s</a>' % (file, file))


BACKEND = """
import zipfile
CODE = %r

def build_wheel(folder, config_settings=None, metadata_directory=None):
    names = {}
    exec(CODE, names)
    file = "%s-1.0-py3-none-any.whl"
    info = "%s-1.0.dist-info/"
    with zipfile.ZipFile(folder + "/" + file, "w") as wheel:
        wheel.writestr("%s.py", "WORDS = %%r" %% (names["words"],))
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: %s\\nVersion: 1.0\\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\n"
                       "Root-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "RECORD", "")
    return file
"""


def make_source(folder, name, code):
    """A page with a package that has to be built; building it runs `code`, and its one module has
    as WORDS what `words` is then."""
    page = folder / "simple" / name
    page.mkdir(parents=True)
    top = "%s-1.0" % name
    files = {
        "PKG-INFO": "Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n" % name,
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\n'
                          'backend-path = ["."]\n',
        "backend.py": BACKEND % (code, name, name, name, name),
    }
    with tarfile.open(page / (top + ".tar.gz"), "w:gz") as archive:
        for path, text in files.items():
            member = tarfile.TarInfo(top + "/" + path)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    (page / "index.html").write_text('<a href="%s.tar.gz">%s.tar.gz</a>' % (top, top))


def make_repository(folder):
    """A repository that can be cloned from plain files."""
    def git(*args):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *args],
                       check=True, capture_output=True)

    work = folder / "work"
    git("init", "-q", work)
    (work / "file").write_text("content\n")
    git("-C", work, "add", "file")
    git("-C", work, "commit", "-q", "-m", "one")
    git("clone", "-q", "--bare", work, folder / "repository.git")
    git("-C", folder / "repository.git", "update-server-info")


def make_site(top):
    """A folder to serve, with a certificate for it beside; returns the folder."""
    folder = top / "public"
    folder.mkdir()
    (folder / "hello.txt").write_text("hello from the site\n")
    make_wheel(folder)
    make_repository(folder)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", top / "key.pem", "-out", top / "cert.pem"],
                   check=True, capture_output=True)
    (top / "both.pem").write_bytes((top / "key.pem").read_bytes() +
                                   (top / "cert.pem").read_bytes())
    return folder
