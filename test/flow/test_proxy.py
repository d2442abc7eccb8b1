"""The proxy of a session's network on its own (src/sandbox/proxy_kit.c), with the programs that are
meant to work through it, and with what has got round proxies of this kind before.

The server that is allowed stands on the loopback and is named in the rules for that. Nothing here
needs a network.
"""
import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from fumehood_kit import BUILD, wait_readable
from proxy_attacks import HOSTS, REQUESTS_REFUSED, RULES
from site_kit import Server, make_site

WAIT_S = 60
TUNNELS_MAX = 256  # PROXY_CONNECTIONS_MAX
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


# ------------------------------------------------------------------------------------- the proxy

class Proxy:
    """proxy_kit with some rules, and what it has said."""

    def __init__(self, rules, *more):
        self.process = subprocess.Popen(
            [BUILD / "src" / "sandbox" / "proxy_kit", rules, *more],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.rest = b""
        self.lines = []
        self.port = self.wait(lambda line: "port" in line)["port"]
        self.url = "http://127.0.0.1:%d" % self.port

    def wait(self, wanted):
        """The first line, of those not waited for yet, that is wanted."""
        until = time.monotonic() + WAIT_S
        while True:
            for index, line in enumerate(self.lines):
                if wanted(line):
                    return self.lines.pop(index)
            wait_readable(self.process.stdout, until, "a line of the proxy: %s" % self.lines)
            data = os.read(self.process.stdout.fileno(), 65536)
            assert data, "the proxy has ended"
            *whole, self.rest = (self.rest + data).split(b"\n")
            self.lines += [json.loads(line) for line in whole]

    def decision(self):
        return self.wait(lambda line: "kind" in line)

    def counters(self, rules=""):
        """The counters, after new rules were set if any are given."""
        self.process.stdin.write((rules + "\n").encode())
        return self.wait(lambda line: "counters" in line)["counters"]

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.settimeout(WAIT_S)
        return connection

    def ask(self, request):
        """Everything that comes back for these bytes, up to the end."""
        with self.connect() as connection:
            connection.sendall(request)
            return read_all(connection)

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(WAIT_S) == 0
        self.process.stdout.close()


def read_all(connection):
    data = b""
    while True:
        more = connection.recv(65536)
        if not more:
            return data
        data += more


@pytest.fixture
def proxies():
    """Makes proxies that are ended with the test."""
    made = []

    def make(rules, *more):
        made.append(Proxy(rules, *more))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()


# ------------------------------------------------------------------------------------- the server

@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder to serve, with a certificate for it beside."""
    return make_site(tmp_path_factory.mktemp("site"))


@pytest.fixture(params=["http", "https"])
def server(request, site):
    server = Server(site, site.parent / "both.pem" if request.param == "https" else None)
    yield server
    server.close()


@pytest.fixture
def plain_server(site):
    server = Server(site)
    yield server
    server.close()


# ------------------------------------------------------------------------------------- programs

URLLIB = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"
REQUESTS = "import sys, requests as r; a = r.get(sys.argv[1]); a.raise_for_status(); print(a.text)"
HTTPX = """
import os, ssl, sys, httpx
with httpx.Client(verify=ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])) as client:
    for _ in range(3):  # on one pool: a connection that has served must not be reused
        answer = client.get(sys.argv[1])
        answer.raise_for_status()
print(answer.text)
"""


def commands(url, certificate, folder):
    """Each program's command, and what its success looks like in stdout or in a file."""
    hello = url + "/hello.txt"
    python = [sys.executable, "-c"]
    return {
        "curl": ["curl", "-sSf", hello],
        "urllib": [*python, URLLIB, hello],
        "requests": [*python, REQUESTS, hello],
        "httpx": [*python, HTTPX, hello],
        "pip": [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir",
                "--cert", certificate, "--retries", "0", "install", "--index-url",
                url + "/simple", "--target", folder / "target", "fhtiny"],
        "git": ["git", "clone", "-q", url + "/repository.git", folder / "clone"],
    }


def run_program(name, url, variables, site, folder):
    """Runs it with these variables for proxies and no others; returns its CompletedProcess."""
    certificate = str(site.parent / "cert.pem")
    command = commands(url, certificate, folder)[name]
    env = {key: value for key, value in os.environ.items()
           if key.lower() not in PROXY_VARIABLES and not key.startswith("PIP_")}
    env.update(variables, HOME=str(folder), GIT_CONFIG_NOSYSTEM="1", GIT_TERMINAL_PROMPT="0",
               CURL_CA_BUNDLE=certificate, SSL_CERT_FILE=certificate, GIT_SSL_CAINFO=certificate,
               REQUESTS_CA_BUNDLE=certificate, PYTHONWARNINGS="ignore")
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True,
                          timeout=WAIT_S)


def proxy_variables(url):
    values = {"http_proxy": url, "https_proxy": url, "all_proxy": url}
    return {**values, **{key.upper(): value for key, value in values.items()}}


def succeeded(name, done, folder):
    if name == "pip":
        return (folder / "target" / "fhtiny.py").exists()
    if name == "git":
        return (folder / "clone" / "file").exists()
    return "hello from the site" in done.stdout


PROGRAMS = ("curl", "urllib", "requests", "httpx", "pip", "git")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_reaches_an_allowed_host(name, proxies, server, site, tmp_path):
    proxy = proxies("localhost:%d" % server.port)
    done = run_program(name, server.url, proxy_variables(proxy.url), site, tmp_path)
    assert succeeded(name, done, tmp_path), done.stderr
    kind = "connect" if server.url.startswith("https") else "http"
    decision = proxy.decision()
    assert (decision["kind"], decision["host"], decision["port"], decision["refusal"]) == (
        kind, "localhost", server.port, "none")
    assert proxy.wait(lambda line: "ended" in line)["in"] > 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_does_not_reach_another_host(name, proxies, server, site, tmp_path):
    proxy = proxies("pypi.org,127.0.0.1:%d" % server.port)
    done = run_program(name, server.url, proxy_variables(proxy.url), site, tmp_path)
    assert done.returncode != 0 and not succeeded(name, done, tmp_path)
    assert proxy.decision()["refusal"] == "not_allowed"
    assert server.paths == []
    if name == "curl":
        assert "403" in done.stderr


@pytest.mark.parametrize("name", ["curl", "requests", "httpx", "git"])
def test_all_proxy_alone_is_enough(name, proxies, server, site, tmp_path):
    proxy = proxies("localhost:%d" % server.port)
    variables = {"ALL_PROXY": proxy.url, "all_proxy": proxy.url}
    done = run_program(name, server.url, variables, site, tmp_path)
    assert succeeded(name, done, tmp_path), done.stderr
    assert proxy.decision()["refusal"] == "none"


@pytest.mark.parametrize("name", ["curl", "git"])
def test_socks(name, proxies, server, site, tmp_path):
    proxy = proxies("localhost:%d" % server.port)
    variables = {"ALL_PROXY": "socks5h://user:word@127.0.0.1:%d" % proxy.port}
    done = run_program(name, server.url, variables, site, tmp_path)
    assert succeeded(name, done, tmp_path), done.stderr
    decision = proxy.decision()
    assert (decision["kind"], decision["host"]) == ("socks", "localhost")


@pytest.mark.parametrize("body", ["-Hx: y", "-HTransfer-Encoding: chunked"])
def test_a_body_of_megabytes_comes_back(body, proxies, server, site, tmp_path):
    data = os.urandom(5 << 20)
    (tmp_path / "data").write_bytes(data)
    proxy = proxies("localhost:%d" % server.port)
    done = subprocess.run(["curl", "-sSf", "-x", proxy.url, "--cacert", site.parent / "cert.pem",
                           body, "-X", "POST", "--data-binary", "@data", server.url + "/echo"],
                          cwd=tmp_path, capture_output=True, timeout=WAIT_S)
    assert done.stdout == data, done.stderr
    assert proxy.wait(lambda line: "ended" in line)["out"] >= len(data)


# ------------------------------------------------------------------------------ attacks (probe 57)

@pytest.mark.parametrize("host", sorted(HOSTS))
def test_connect_is_refused(host, proxies, plain_server):
    proxy = proxies(RULES % plain_server.port)
    answer = proxy.ask(b"CONNECT " + host + b" HTTP/1.1\r\n\r\n")
    assert answer[:10] in (b"HTTP/1.1 4", b"HTTP/1.1 5"), answer
    assert proxy.decision()["refusal"] == HOSTS[host]
    assert proxy.counters()["allowed"] == 0


# Those whose trick is in the name; SOCKS has the port apart.
@pytest.mark.parametrize("host", sorted(host for host in HOSTS if HOSTS[host] != "port"))
def test_socks_is_refused(host, proxies, plain_server):
    name, _, port = host.rpartition(b":")
    name = name.strip(b"[]")
    number = int(port) if port.isdigit() else 443
    proxy = proxies(RULES % plain_server.port)
    request = (b"\x05\x01\0" + b"\x05\x01\0\x03" + bytes([len(name)]) + name +
               struct.pack(">H", number))
    answer = proxy.ask(request)
    assert answer[:2] == b"\x05\0" and answer[2:3] == b"\x05" and answer[3] != 0
    assert proxy.decision()["refusal"] not in ("none", "unresolved", "unreachable")
    assert proxy.counters()["allowed"] == 0


@pytest.mark.parametrize("what", sorted(REQUESTS_REFUSED))
def test_request_is_refused(what, proxies, plain_server):
    request, refusal = REQUESTS_REFUSED[what]
    proxy = proxies(RULES % plain_server.port)
    request = request.replace(b"%(port)d", b"%d" % plain_server.port)
    answer = proxy.ask(request)
    assert answer[:10] in (b"HTTP/1.1 4", b"HTTP/1.1 5"), answer
    assert proxy.decision()["refusal"] == refusal
    assert proxy.counters()["allowed"] == 0
    assert plain_server.paths == []


def test_a_second_request_on_a_connection_reaches_nobody(proxies, plain_server):
    proxy = proxies(RULES % plain_server.port)
    first = b"GET http://localhost:%d/hello.txt HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" % (
        plain_server.port, plain_server.port)
    answer = proxy.ask(first + first.replace(b"hello.txt", b"second"))
    assert answer.count(b"HTTP/1.1 200 OK") == 1
    assert plain_server.paths == ["/hello.txt"]


def test_ten_thousand_half_open_connections(proxies, plain_server):
    """One tunnel goes on while the rest of the places is held and the door is stormed."""
    proxy = proxies(RULES % plain_server.port)
    tunnel = proxy.connect()
    tunnel.sendall(b"CONNECT localhost:%d HTTP/1.1\r\n\r\n" % plain_server.port)
    assert tunnel.recv(100).startswith(b"HTTP/1.1 200")
    held = []
    for _ in range(TUNNELS_MAX - 1):
        held.append(proxy.connect())
        held[-1].sendall(b"CONNECT allowed.com")
    while proxy.counters()["open"] < TUNNELS_MAX:
        pass
    for _ in range(10000):
        connection = proxy.connect()
        assert connection.recv(1000).startswith(b"HTTP/1.1 503")
        connection.close()
    counters = proxy.counters()
    assert (counters["full"], counters["open"]) == (10000, TUNNELS_MAX)
    tunnel.sendall(b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert b"hello from the site" in read_all(tunnel)
    for connection in [tunnel, *held]:
        connection.close()
    while proxy.counters()["open"] > 0:
        pass
    assert b"403" in proxy.ask(b"CONNECT evil.com:443 HTTP/1.1\r\n\r\n")


def test_a_slow_request_is_cut_off(proxies):
    proxy = proxies("allowed.com", "--time", "50")
    with proxy.connect() as connection:
        connection.sendall(b"CONNECT allo")
        assert b"408" in read_all(connection)
    assert proxy.decision()["refusal"] == "request_timeout"


def test_rules_change_while_it_runs(proxies, plain_server):
    """A tunnel whose rule goes away is closed; another one stays."""
    proxy = proxies("localhost:%d,127.0.0.1:%d" % (plain_server.port, plain_server.port))
    ends = []
    for host in (b"localhost", b"127.0.0.1"):
        ends.append(proxy.connect())
        ends[-1].sendall(b"CONNECT %s:%d HTTP/1.1\r\n\r\n" % (host, plain_server.port))
        assert ends[-1].recv(100).startswith(b"HTTP/1.1 200")
    counters = proxy.counters("127.0.0.1:%d" % plain_server.port)
    assert counters["allowed"] == 2
    assert read_all(ends[0]) == b""
    assert proxy.wait(lambda line: "ended" in line)["refusal"] == "rules_changed"
    assert not select.select([ends[1]], [], [], 0)[0]
    ends[1].sendall(b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert b"hello from the site" in read_all(ends[1])
    for end in ends:
        end.close()
    proxy.counters("none")
    assert b"403" in proxy.ask(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % plain_server.port)
