"""The network of sessions: none unless hosts are allowed, and then those alone.

The site that is allowed stands on the loopback of the machine and is named in the rules for that;
from inside a box there is no other way to it. As root and as an ordinary user.
"""
import json
import os
import shutil
import socket
import subprocess

import pytest

from fumehood_kit import PYTHON, WAIT_S, init_of, kill, read_proc, wait_gone
from proxy_attacks import HOSTS, REQUESTS_REFUSED, RULES
from site_kit import Server, make_site, make_source, make_wheel
from user_kit import home, user_house  # noqa: F401 (fixtures)

# The reason of a skip that check.py lets pass.
NO_INDEX = "the package index cannot be reached from here"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder to serve, with a certificate for it beside."""
    return make_site(tmp_path_factory.mktemp("site"))


@pytest.fixture
def server(site):
    server = Server(site)
    yield server
    server.close()


@pytest.fixture
def safe_server(site):
    server = Server(site, site.parent / "both.pem")
    yield server
    server.close()


def pipe(home, *rules, workspace=None, python=None):
    options = []
    for name, value in ("--allow-net", ",".join(rules)), ("--workspace", workspace), (
            "--python", python):
        options += [name, str(value)] if value else []
    return home.pipe(*options)


def private(house, *rules):
    """A session with a workspace of its own."""
    return house.keeper(house.session(policy={"net": list(rules)}))


def network(client, **fields):
    """What has been told of the network so far."""
    return [event for event in client.events if event["type"] == "network"
            and all(event.get(key) == value for key, value in fields.items())]


# ------------------------------------------------------------------------------------- no rules

NOTHING = """
import os, socket, urllib.request
print(sorted(name for name in os.environ if name.lower().endswith("_proxy")))
for address in ("1.1.1.1", 80), ("127.0.0.1", %d), ("169.254.169.254", 80):
    try:
        socket.create_connection(address, 2)
        print("reached")
    except OSError as error:
        print(type(error).__name__)
try:
    socket.getaddrinfo("pypi.org", 443)
except OSError as error:
    print(type(error).__name__)
print([name for _, name in socket.if_nameindex()])
"""


def test_without_rules_there_is_nothing(home, server):
    with socket.create_connection(("127.0.0.1", server.port)):
        pass  # it would be there
    with pipe(home) as session:
        cell = session.run(NOTHING % server.port)
        assert cell.out.splitlines() == ["[]", "OSError", "ConnectionRefusedError", "OSError",
                                         "gaierror", "['lo']"], cell
    assert network(session) == [] and server.paths == []


def test_what_ignores_the_variables_reaches_nothing(home, server):
    with pipe(home, "localhost:%d" % server.port) as session:
        cell = session.run(NOTHING % server.port)
        assert "reached" not in cell.out and "gaierror" in cell.out, cell
        assert session.run("import urllib.request as u; u.urlopen('%s/hello.txt').status"
                           % server.url).result == "200"
    assert network(session, allowed=True)


def test_hosts_need_a_network_of_their_own(house):
    done = house.cli("run", "--tier", "none", "--allow-net", "pypi.org", "-c", "print(1)")
    assert done.status == 125 and "--allow-net" in done.err and done.out == "", done


@pytest.mark.parametrize("rule", ["http://pypi.org", "*", "10.0.0.0/8", "pypi.org:0", "a..b"])
def test_rule_that_is_none(house, rule):
    done = house.cli("run", "--allow-net", rule, "-c", "print(1)")
    assert done.status in (2, 125) and rule in done.err and done.out == "", done


# ------------------------------------------------------------------------------------- programs

URLLIB = "import urllib.request as u; print(u.urlopen(%r).read().decode())"
PROGRAMS = {
    "urllib": URLLIB,
    "requests": "import requests as r; print(r.get(%r).text)",
    "httpx": "import httpx, os, ssl\n"
             "context = ssl.create_default_context(cafile=os.environ['SSL_CERT_FILE'])\n"
             "print(httpx.get(%r, verify=context).text)",
    "curl": "import subprocess as s; s.run(['curl', '-sSf', %r], check=True)",
}
GIT = "import subprocess as s; s.run(['git', 'clone', '-q', %r, 'clone'], check=True); " \
      "print(open('clone/file').read())"
CERTIFICATES = "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT"


def programs(session):
    """Those that the session's Python has: [(name, code)]."""
    there = session.run("import importlib.util as u; "
                        "[name for name in ('requests', 'httpx') if u.find_spec(name)]").result
    return [(name, code) for name, code in PROGRAMS.items()
            if name in ("urllib", "curl") or repr(name) in there]


def test_the_house_has_all_programs(house):
    with pipe(house) as session:
        assert len(programs(session)) == len(PROGRAMS)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_programs_reach_what_is_allowed(home, scheme, site, request):
    server = request.getfixturevalue("server" if scheme == "http" else "safe_server")
    folder = home.folder()
    shutil.copy(site.parent / "cert.pem", folder)
    with pipe(home, "localhost:%d" % server.port, workspace=folder) as session:
        session.run("import os\nfor name in %r: os.environ[name] = '/workspace/cert.pem'"
                    % (CERTIFICATES,))
        for name, code in programs(session):
            cell = session.run(code % (server.url + "/hello.txt"))
            assert "hello from the site" in cell.out, (name, cell)
            assert [event["host"] for event in cell.of("network") if event.get("allowed")] == [
                "localhost"], (name, cell)
        cell = session.run(GIT % (server.url + "/repository.git"))
        assert "content" in cell.out, cell
        kind = "http" if scheme == "http" else "connect"
        assert {event["kind"] for event in network(session, allowed=True)} == {kind}
        assert all(event["bytes_in"] > 0 and event["duration_us"] > 0
                   for event in network(session, ended=True))
        if home.env["FUMEHOOD_PYTHON"] != PYTHON:
            return  # without pip
        cell = session.run("%%pip install -q --index-url %s/simple fhtiny\nimport fhtiny\n"
                           "fhtiny.ANSWER" % server.url)
        assert cell.result == "42", cell.of("error")[0]["traceback"]


def test_programs_do_not_reach_what_is_not(home, server):
    url = "http://localhost.:%d/hello.txt" % server.port
    with pipe(home, "pypi.org", "localhost:1-%d" % (server.port - 1)) as session:
        for name, code in programs(session):
            cell = session.run(code % (server.url + "/hello.txt"), max_chars=3000)
            assert "hello from" not in cell.out, (name, cell)
            refused, = [event for event in cell.of("network") if "count" not in event]
            assert (refused["host"], refused["port"], refused["reason"]) == (
                "localhost", server.port, "port_not_allowed")
            assert ("[network: localhost:%d is allowed, but not at this port; allowed: pypi.org, "
                    "localhost:1-%d]" % (server.port, server.port - 1)) in cell.finished["text"]
            assert "hello from" not in session.run(code % url).out
    assert server.paths == []


def test_in_a_session_that_starts_cold(house, server):
    folder = house.folder()
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", folder / "env"], check=True)
    with pipe(house, "localhost:%d" % server.port, workspace=folder,
              python=folder / "env" / "bin" / "python") as session:
        assert "hello from" in session.run(URLLIB % (server.url + "/hello.txt")).out


# -------------------------------------------------------------------------------------- attacks

ATTACK = """
import json, os, socket
port = int(os.environ["http_proxy"].rpartition(":")[2])
for request in json.load(open("/workspace/requests.json")):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(60)
        try:
            connection.sendall(request.encode("latin-1"))
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused before the end
        answer = b""
        try:
            while chunk := connection.recv(65536):
                answer += chunk
        except OSError:
            pass
        print(answer[:12])
"""


def test_what_got_round_proxies_before(home, server):
    """Probe 57, from inside a cell."""
    wanted = [(b"CONNECT " + host + b" HTTP/1.1\r\n\r\n", HOSTS[host]) for host in sorted(HOSTS)]
    wanted += [(REQUESTS_REFUSED[name][0].replace(b"%(port)d", b"%d" % server.port),
                REQUESTS_REFUSED[name][1]) for name in sorted(REQUESTS_REFUSED)]
    folder = home.folder()
    (folder / "requests.json").write_text(json.dumps([request.decode("latin-1")
                                                      for request, _ in wanted]))
    with pipe(home, RULES % server.port, workspace=folder) as session:
        cell = session.run(ATTACK)
    assert "HTTP/1.1 2" not in cell.out and len(cell.out.splitlines()) == len(wanted)
    told = network(session)
    assert not [event for event in told if event.get("allowed")], told
    reasons = [event["reason"] for event in told for _ in range(event.get("count", 1))]
    assert sorted(reasons) == sorted(reason for _, reason in wanted)
    assert server.paths == []


def test_a_flood_of_refusals_is_folded(house):
    """300 hosts, each asked for ten times, then one 3,000 times."""
    code = """
import os, socket
port = int(os.environ["http_proxy"].rpartition(":")[2])
for host in ["h%d.example.org" % n for n in range(300)] * 10 + ["example.net"] * 3000:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"CONNECT " + host.encode() + b":443 HTTP/1.1\\r\\n\\r\\n")
        while connection.recv(4096):
            pass
print("done")
"""
    with pipe(house, "pypi.org") as session:
        cell = session.run(code, max_chars=100000)
        assert cell.out == "done\n", cell
    told = network(session, reason="not_allowed")
    assert sum(event.get("count", 1) for event in told) == 6000
    assert len([event for event in told if "count" not in event]) == 256
    assert len(told) < 600
    assert cell.finished["text"].count("[network:") <= 256


def test_half_open_tunnels_are_bounded(home, server):
    """More than there may be at once: the others are turned away, and the session goes on."""
    code = """
import os, socket
port = int(os.environ["http_proxy"].rpartition(":")[2])
held, answers = [], []
for n in range(300):
    held.append(socket.create_connection(("127.0.0.1", port)))
for connection in held[256:]:
    connection.sendall(b"CONNECT localhost:1 HTTP/1.1\\r\\n\\r\\n")
    answers.append(connection.recv(12))
print(set(answers))
for connection in held:
    connection.close()
"""
    with pipe(home, "localhost:%d" % server.port) as session:
        assert session.run(code).out == "{b'HTTP/1.1 503'}\n"
        assert "hello from" in session.run(URLLIB % (server.url + "/hello.txt")).out


# --------------------------------------------------------------------------------------- changes

def test_rules_change_while_the_session_lives(home, server):
    url = server.url + "/hello.txt"
    with pipe(home) as session:
        assert session.run(URLLIB % url).status == "error"
        session.ask("policy", set={"net": ["localhost:%d" % server.port]})
        assert "hello from" in session.run(URLLIB % url).out
        session.ask("policy", set={"net": ["pypi.org", "localhost:1"]})
        cell = session.run(URLLIB % url)
        assert cell.status == "error" and cell.of("network")[0]["reason"] == "port_not_allowed"
        session.ask("policy", set={"net": []})
        assert session.run(URLLIB % url).status == "error"
        cell = session.run(URLLIB % "http://example.org/")
        assert cell.of("network")[0]["message"].endswith("allowed: no host")
        with pytest.raises(Exception, match="http://x"):
            session.ask("policy", set={"net": ["http://x"]})


OPEN_TUNNEL = """
import os, socket
port = int(os.environ["http_proxy"].rpartition(":")[2])
tunnel = socket.create_connection(("127.0.0.1", port))
tunnel.sendall(b"CONNECT localhost:%d HTTP/1.1\\r\\n\\r\\n")
tunnel.recv(12)
"""


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(WAIT_S)
        yield listening


def test_a_rule_that_goes_closes_its_tunnels(house, listener):
    port = listener.getsockname()[1]
    with pipe(house, "localhost:%d" % port) as session:
        assert session.run(OPEN_TUNNEL % port).result == "b'HTTP/1.1 200'"
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(WAIT_S)
            session.ask("policy", set={"net": ["pypi.org"]})
            assert connection.recv(1) == b""
        assert network(session, ended=True, reason="rules_changed")


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_proxy_dies_with_the_session(home, listener, end):
    port = listener.getsockname()[1]
    session = pipe(home, "localhost:%d" % port)
    try:
        assert session.run(OPEN_TUNNEL % port).result == "b'HTTP/1.1 200'"
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(WAIT_S)
            if end == "kill":
                kill(session.hello["pid"])
                wait_gone(session.hello["pid"])
            else:
                session.ask("stop")
                assert network(session, ended=True)
            assert connection.recv(1) == b""
    finally:
        session.abandon()


def test_a_name_server_that_is_silent_does_not_hold_the_end(house, folder):
    """The lookup cannot be interrupted, and would last for minutes."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    (folder / "resolv.conf").write_text("nameserver 127.0.0.77\noptions timeout:30 attempts:5\n")
    under = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"',
             folder / "resolv.conf"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.77", 53))
        silent.settimeout(WAIT_S)
        path = house.session(policy={"net": ["slow.example.org"]})
        with house.keeper(path, under=under) as session:
            session.run("""
import os, socket
port = int(os.environ["http_proxy"].rpartition(":")[2])
waiting = socket.create_connection(("127.0.0.1", port))
waiting.sendall(b"CONNECT slow.example.org:443 HTTP/1.1\\r\\n\\r\\n")
""")
            assert b"slow" in silent.recv(4096)
        assert session.process.returncode == 0


@pytest.mark.parametrize("death", ["restart", "exit", "box"])
def test_another_interpreter_is_told_too(home, server, death):
    code = URLLIB % (server.url + "/hello.txt")
    with pipe(home, "localhost:%d" % server.port) as session:
        assert "hello from" in session.run(code).out
        if death == "restart":
            session.ask("restart")
        elif death == "exit":
            session.run("import os; os._exit(3)")
        else:
            kill_box(session.hello["pid"])
            session.event("restarted")
        assert "hello from" in session.run(code).out


def kill_box(keeper):
    """PID 1 of the session's box."""
    pid = init_of(keeper)
    kill(pid)
    wait_gone(pid)


# ------------------------------------------------------------------------------------------ pip

INSTALL = {
    "magic": "%%pip install -q --index-url %s fhtiny",
    "command": "!pip install -q --index-url %s fhtiny",
    "subprocess": "import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', 'install',"
                  " '-q', '--index-url', %r, 'fhtiny'], check=True)",
}


@pytest.mark.parametrize("how", sorted(INSTALL))
def test_pip_installs_into_the_session(house, server, how):
    """Found at once, by the session and by what it starts, and seen among its files."""
    before = set(os.listdir(environment_packages()))
    with private(house, "localhost:%d" % server.port) as session:
        cell = session.run(INSTALL[how] % (server.url + "/simple") +
                           "\nimport fhtiny\nfhtiny.ANSWER")
        assert cell.result == "42", cell
        assert any(file["path"].endswith("site-packages/fhtiny.py")
                   for file in cell.finished["files"])
        assert session.run("fhtiny.__file__").result.startswith("'/workspace/.fumehood/")
        for python in "python", "python3", "{sys.executable}":
            cell = session.run("import sys\n!%s -c 'import fhtiny; print(fhtiny.ANSWER)'" % python)
            assert cell.out == "42\n", cell
        session.ask("restart")
        assert session.run("import fhtiny; fhtiny.ANSWER").result == "42"
        cell = session.run("!pip uninstall -q -y fhtiny\n!python -c 'import fhtiny'")
        assert "ModuleNotFoundError" in cell.out + cell.err, cell
    assert set(os.listdir(environment_packages())) == before


def environment_packages():
    done = subprocess.run([PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                          capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_pip_shadows_what_the_environment_has(house, site, server):
    """Another version of a package of the environment, without touching that; and what is there
    already is not fetched."""
    make_wheel(site, "idle_words", "1.0", requires="numpy")
    make_wheel(site, "packaging", "999.0")
    with pipe(house, "localhost:%d" % server.port) as session:
        cell = session.run("!pip install -q --no-deps --index-url %s/simple packaging==999.0\n"
                           "!pip install -q --index-url %s/simple idle_words\n"
                           "!python -c 'import packaging, numpy; print(packaging.ANSWER, "
                           "numpy.__file__)'" % (server.url, server.url))
        answer, place = cell.out.splitlines()[-1].split()
        assert answer == "42" and not place.startswith("/workspace"), cell
        assert "/simple/numpy" not in " ".join(server.paths)
    with pipe(house) as session:
        assert session.run("import packaging; packaging.__version__ == '999.0'").result == "False"


def test_pip_in_a_workspace_that_is_a_persons_own(house, folder, server):
    """Nothing of it is left there; the session's directory has it."""
    with pipe(house, "localhost:%d" % server.port, workspace=folder) as session:
        cell = session.run(INSTALL["magic"] % (server.url + "/simple") +
                           "\nimport fhtiny\nfhtiny.ANSWER")
        assert cell.result == "42", cell
        assert session.run("'/packages/' in fhtiny.__file__").result == "True"
    assert os.listdir(folder) == []


def test_pip_where_the_workspace_is_read_only(house, folder, server):
    with pipe(house, "localhost:%d" % server.port, workspace="%s:ro" % folder) as session:
        cell = session.run(INSTALL["magic"] % (server.url + "/simple") +
                           "\nimport fhtiny\nfhtiny.ANSWER")
        assert cell.result == "42", cell
    assert os.listdir(folder) == []


def test_a_session_that_installs_nothing_has_nothing(house, server):
    with private(house, "localhost:%d" % server.port) as session:
        assert session.run("import os; os.listdir('/workspace')").result == "[]"


def test_the_index_that_everyone_uses(house):
    """pypi.org itself, if it can be reached from here."""
    try:
        address = socket.getaddrinfo("pypi.org", 443, socket.AF_INET)[0][4]
        socket.create_connection(address, 10).close()
    except OSError:
        pytest.skip(NO_INDEX)
    rules = ["pypi.org+private", "files.pythonhosted.org+private"]  # a mirror may be nearby
    with private(house, *rules) as session:
        cell = session.run("%pip install -q six\nimport six\nsix.__file__.split('/')[1]",
                           max_chars=4000)
        assert cell.result == "'workspace'", cell
        hosts = {event["host"] for event in network(session, allowed=True)}
        assert hosts == {"pypi.org", "files.pythonhosted.org"}


# ----------------------------------------------------------------------------------------- --with

def test_an_environment_is_made_once(house, server):
    variables = {"PIP_INDEX_URL": server.url + "/simple"}
    rule = "localhost:%d" % server.port
    code = "import fhtiny, sys; print(fhtiny.ANSWER, sys.prefix); open(fhtiny.__file__, 'a')"
    done = house.cli("run", "--with", "fhtiny>=1, <2", "--with-net", rule, "-c", code,
                     env=variables)
    assert "making an environment" in done.err and done.status == 1, done
    assert done.out.startswith("42 ") and ("PermissionError" in done.err
                                           or "Read-only file system" in done.err), done
    assert server.paths
    prefix = done.out.split()[1]
    assert prefix.startswith(str(house.dir / "data" / "fumehood" / "environments")), done
    del server.paths[:]
    # Without an index, and without a network.
    done = house.cli("run", "--with", " fhtiny>=1, <2,fhtiny>=1, <2", "-c", code)
    assert "making" not in done.err and done.out == "42 %s\n" % prefix, done
    assert server.paths == []
    assert not [pid for pid in house.zygotes() if prefix.encode() in read_proc(pid, "cmdline")]


def test_an_environment_that_cannot_be_made(house, server):
    variables = {"PIP_INDEX_URL": server.url + "/simple"}
    rule = "localhost:%d" % server.port
    place = house.dir / "data" / "fumehood" / "environments"
    before = sorted(place.glob("*/made.json"))
    for words, wanted in ((["--with", "nothing-of-this-name", "--with-net", rule],
                           "No matching distribution"),
                          (["--with", "fhtiny==1.0", "--with-net", "pypi.org"], "could not be"),
                          (["--with", "--index-url=http://x"], "takes packages"),
                          (["--with", ","], "names no package")):
        done = house.cli("run", *words, "-c", "print(1)", env=variables)
        assert done.status in (2, 125) and wanted in done.err and done.out == "", done
    assert sorted(place.glob("*/made.json")) == before
    assert len(list(place.glob("*/env"))) == len(before)


def test_a_package_cannot_reach_out_while_it_is_installed(house, site, server):
    """Its build runs in the box: it finds no file of the user's, and no host but the index."""
    secret = house.dir / "work" / "secret"
    secret.write_text("secret")
    make_source(site, "fhnosy", """
import os, urllib.request
words = []
try:
    words.append(open(%r).read())
except OSError:
    words.append("no file")
try:
    words.append(urllib.request.urlopen("http://example.org/").status)
except OSError:
    words.append("no host")
""" % str(secret))
    done = house.cli("run", "--with", "fhnosy", "--with-net", "localhost:%d" % server.port,
                     "-c", "import fhnosy; print(fhnosy.WORDS)",
                     env={"PIP_INDEX_URL": server.url + "/simple"})
    assert done.out == "['no file', 'no host']\n", done


# -------------------------------------------------------------------------------------- for people

def test_refusals_are_told_on_the_way(house):
    code = "import urllib.request as u\ntry:\n    u.urlopen('http://example.org')\n" \
           "except OSError as e:\n    print(e)"
    done = house.cli("run", "--allow-net", "pypi.org", "-s", "nosy", "-c", code)
    assert done.out == "HTTP Error 403: Forbidden\n", done
    assert "network: example.org:80 is not among the allowed hosts; allowed: pypi.org" in done.err
    log = house.cli("log", "nosy").out
    assert 'network allowed=false host="example.org" port=80 reason="not_allowed"' in log, log
