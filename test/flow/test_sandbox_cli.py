"""`fumehood sandbox`: any program in a box. Each limit and each option by its effect, beside a
positive control: the same program outside of the box, or with the option the other way round.

As root and as an ordinary user.
"""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

from fumehood_kit import BUILD, FAULT, ROOT, USAGE, WAIT_S, wait_readable
from process_kit import parent_of, pids, read_proc, wait_gone
from site_kit import Server, make_site
from user_kit import user_house  # noqa: F401 (a fixture)

TIMEOUT, NOT_RUN, NOT_THERE = 124, 126, 127


@pytest.fixture(params=["root", "user"])
def home(request, house):
    """The house of root, then that of an ordinary user; no folder that a box was given is left."""
    own = house
    if request.param == "user" and os.geteuid() == 0:
        own = request.getfixturevalue("user_house")
    place = own.folder()
    own.env["TMPDIR"] = str(place)
    yield own
    del own.env["TMPDIR"]
    assert not os.listdir(place)


def put(folder, name, text):
    (folder / name).write_text(text)
    os.chown(folder / name, *(lambda st: (st.st_uid, st.st_gid))(folder.stat()))
    return folder / name


def run(home, *args, stdin=b"", env=None, cwd=None):
    """`fumehood sandbox run ARGS`; what stands behind -- is the program."""
    return home.cli("sandbox", "run", *args, stdin=stdin, env=env, cwd=cwd)


def shell(home, *options, script, **rest):
    return run(home, *options, "--", "sh", "-c", script, **rest)


def outside(script, **rest):
    """The control: the same, without a box."""
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=WAIT_S,
                          **rest)


# ------------------------------------------------------------------------------------ a program

def test_output_and_status(home):
    result = shell(home, script="echo out; echo err >&2; exit 7")
    assert (result.status, result.out, result.err) == (7, "out\n", "err\n")
    assert shell(home, script="kill -TERM $$").status == 128 + signal.SIGTERM
    assert shell(home, script="kill -KILL $$").status == 128 + signal.SIGKILL
    assert run(home, "--", "true").status == 0


def test_input(home, folder):
    """A pipe, a file, nothing, a folder: what the shell has opened."""
    assert run(home, "--", "cat", stdin=b"a\0b" * 100000).raw_out == b"a\0b" * 100000
    path = put(home.folder(), "in", "from a file")
    for name, expected in ((path, b"from a file"), (os.devnull, b""), (path.parent, b"")):
        fd = os.open(name, os.O_RDONLY)
        process = home.popen("sandbox", "run", "--", "cat", stdin=fd, stdout=subprocess.PIPE)
        os.close(fd)
        assert process.communicate(timeout=WAIT_S)[0] == expected
        assert process.returncode == 0


def test_no_descriptor_of_the_host(home):
    """A folder on stdin would be a way out, and a file one to write what was opened to be read."""
    place = home.folder()
    secret = put(place, "secret", "s3cret")
    for opened in (place, secret):
        fd = os.open(opened, os.O_RDONLY)
        process = home.popen(
            "sandbox", "run", "--", "sh", "-c",
            "cat /proc/self/fd/0/secret; echo changed > /proc/self/fd/0; ls -l /proc/self/fd",
            stdin=fd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        os.close(fd)
        out = process.communicate(timeout=WAIT_S)[0].decode()
        assert str(place) not in out and "pipe:" in out
        assert "s3cret" not in out
    assert secret.read_text() == "s3cret"
    fd = os.open(place, os.O_RDONLY)
    control = outside("cat /proc/self/fd/0/secret", stdin=fd)
    os.close(fd)
    assert control.stdout == "s3cret"


def test_output_to_a_terminal(home):
    """What would harm it is shown escaped; on a pipe it passes."""
    script = r"printf '\033[31mred\033[0m \033]0;title\007 \033[2J'"
    with home.script("sandbox", "run", "--", "sh", "-c", script) as terminal:
        assert terminal.end() == 0
        assert "\033[31mred" in terminal.seen and "\\x1b]0;title" in terminal.seen
        assert "\033]0" not in terminal.seen and "\033[2J" not in terminal.seen
    assert "\033]0;title" in shell(home, script=script).out


def test_a_terminal_of_its_own(home):
    """A shell with job control: Ctrl-C ends what it runs, and the shell goes on."""
    assert run(home, "--", "tty").status == 1
    with home.script("sandbox", "run", "--tty", "--", "bash", "--norc", "-i") as terminal:
        prompt = r"bash-[0-9.]+\$ "
        terminal.expect(prompt)
        terminal.type("test -t 0 && echo ter''minal; echo $TERM\r")
        terminal.expect("terminal\nxterm\n")
        terminal.expect(prompt)
        terminal.type("sh -c \"echo re''ady; exec sleep 3333\"\r")
        terminal.expect("ready\n")
        terminal.type("\x03")
        terminal.expect(prompt)
        terminal.type("echo still th''ere; exit 9\r")
        terminal.expect("still there\n")
        assert terminal.end() == 9
        assert terminal.echoes()  # ours is as it was


def test_where_it_is_looked_for(home):
    place = home.folder()
    put(place, "tool", "#!/bin/sh\necho tool $1\n").chmod(0o755)
    put(place, "plain", "no program")
    assert run(home, "-w", str(place), "--", "./tool", "x").out == "tool x\n"
    assert run(home, "-w", str(place), "--", "/workspace/tool").out == "tool\n"
    assert run(home, "-w", str(place), "--env", "PATH=/workspace:/bin", "--", "tool"
               ).out == "tool\n"
    assert run(home, "-w", str(place), "--", "tool").status == NOT_THERE
    assert run(home, "-w", str(place), "--", "./plain").status == NOT_RUN
    assert run(home, "--", str(place / "tool")).status == NOT_THERE
    assert outside(str(place / "tool")).stdout == "tool\n"


def test_nothing_outlives_it(home):
    """What it leaves running dies with it, and does not hold its output open."""
    mark = "31%d" % os.getpid()
    result = shell(home, script="sleep %s & setsid sleep %s & echo done" % (mark, mark))
    assert (result.status, result.out) == (0, "done\n")
    assert not [pid for pid in pids() if mark.encode() in read_proc(pid, "cmdline")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_are_passed_on(home, number):
    name = signal.Signals(number).name[3:]
    process = home.popen("sandbox", "run", "--", "sh", "-c",
                         "trap 'echo caught %s; exit 5' %s; echo ready; "
                         "while :; do sleep 0.01; done" % (name, name), stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    assert process.communicate(timeout=WAIT_S)[0] == ("caught %s\n" % name).encode()
    assert process.returncode == 5


def test_it_dies_with_us(home):
    """The box of a fumehood that was killed is gone, and all in it."""
    process = home.popen("sandbox", "run", "--", "sh", "-c", "echo ready; exec sleep 3333",
                         stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    inits = [pid for pid in pids() if parent_of(pid) == process.pid]
    fds = [os.pidfd_open(pid) for pid in inits]
    assert fds
    process.kill()
    process.wait(WAIT_S)
    for fd in fds:
        wait_readable(fd, time.monotonic() + WAIT_S, "the end of the box")
        os.close(fd)
    process.stdout.close()
    left, = pathlib.Path(home.env["TMPDIR"]).iterdir()
    left.rmdir()  # nobody was there to do so


def test_timeout(home):
    result = run(home, "--timeout", "0.2", "--", "sleep", "3333")
    assert result.status == TIMEOUT and "killed after 0.2 s" in result.err
    assert run(home, "--timeout", "60", "--", "true").status == 0


def test_usage(home):
    for args in (["run"], ["run", "true"], ["run", "--"], ["walk", "--", "true"],
                 ["explain", "--tty"], ["run", "--json", "--", "true"], ["schema", "--", "x"], []):
        assert home.cli("sandbox", *args).status == USAGE, args


# ------------------------------------------------------------------------------------ the policy

def test_it_is_another_world(home):
    """No uid of the host, none of its processes, names or networks."""
    out = shell(home, script="id -u; hostname; echo $$; ls /home /root 2>&1").out.split("\n")
    assert out[0] == "1000" and out[1] == "fumehood" and int(out[2]) < 10
    assert socket.gethostname() != "fumehood"
    server = socket.create_server(("127.0.0.1", 0))
    program = "import socket; socket.create_connection(('127.0.0.1', %d), 2)" % (
        server.getsockname()[1])
    assert "Refused" in run(home, "--", "/usr/bin/python3", "-c", program).err
    assert subprocess.run(["/usr/bin/python3", "-c", program], timeout=WAIT_S).returncode == 0
    server.close()


def test_workspace(home):
    place = home.folder()
    put(place, "there", "yes")
    script = "cat there; echo new > made; pwd"
    assert shell(home, script="ls -A; pwd").out == "/workspace\n"
    result = shell(home, "-w", "%s:ro" % place, script=script)
    assert result.out == "yes/workspace\n" and "Read-only" in result.err
    assert not (place / "made").exists()
    assert shell(home, "-w", str(place), script=script).out == "yes/workspace\n"
    made = (place / "made").stat()
    assert (made.st_uid, made.st_gid) == (place.stat().st_uid, place.stat().st_gid)
    assert run(home, "-w", "/nosuch", "--", "true").status == FAULT
    assert run(home, "-w", "%s:overlay" % place, "--", "true").status == FAULT


def test_read(home):
    place = home.folder()
    put(place, "there", "yes")
    script = "cat %s/there; echo no > %s/made" % (place, place)
    assert shell(home, script=script).out == ""
    result = shell(home, "--read", str(place), script=script)
    assert result.out == "yes" and "Read-only" in result.err and not (place / "made").exists()
    assert outside(script).stdout == "yes" and (place / "made").exists()
    one = shell(home, "--read", "%s/there" % place, script="cat %s/there; ls %s" % (place, place))
    assert one.out == "yesthere\n"
    assert run(home, "--read", str(place / "nosuch"), "--", "true").status == FAULT
    relative = run(home, "--read", "there", "--", "cat", str(place / "there"), cwd=place)
    assert relative.out == "yes"


def test_write(home):
    place, other = home.folder(), home.folder()
    (place / "deep").mkdir()
    os.chown(place / "deep", place.stat().st_uid, place.stat().st_gid)
    os.symlink(place, other / "link")
    script = "echo hi > %s/made" % place
    assert shell(home, script=script).status != 0 and not (place / "made").exists()
    assert shell(home, "--write", str(place), script=script).status == 0
    made = (place / "made").stat()
    assert (place / "made").read_text() == "hi\n"
    assert (made.st_uid, made.st_gid) == (place.stat().st_uid, place.stat().st_gid)
    assert shell(home, "--write", str(other / "link"), script=script + "; echo 2 >> %s/made" % place
                 ).status == 0
    # The innermost holds, whatever the order.
    both = "echo a > {0}/new; echo b > {0}/deep/new".format(place)
    shell(home, "--write", str(place), "--read", str(place / "deep"), script=both)
    assert (place / "new").exists() and not (place / "deep" / "new").exists()
    (place / "new").unlink()
    shell(home, "--read", str(place), "--write", str(place / "deep"), script=both)
    assert (place / "deep" / "new").exists() and not (place / "new").exists()


def test_write_to_one_file(home):
    place = home.folder()
    one, two = put(place, "one", "1"), put(place, "two", "2")
    shell(home, "--write", str(one), script="echo x > %s; echo x > %s; rm %s" % (one, two, one))
    assert one.read_text() == "x\n" and two.read_text() == "2"


@pytest.mark.parametrize("path", ["/", "/usr", "/etc", "/usr/local", "/home", "/tmp", "/proc/self",
                                  "~"])
def test_what_may_not_be_written(home, path):
    result = run(home, "--write", os.path.expanduser(path), "--", "true",
                 env={"HOME": os.path.expanduser("~")})
    assert result.status == FAULT and "fumehood: policy:" in result.err


def test_fumehoods_own_files_are_not_written(home):
    """They are what others run, and what is recorded of them."""
    for path in (home.dir / "state", home.dir / "state" / "fumehood", BUILD):
        path.mkdir(exist_ok=True)
        result = run(home, "--write", str(path), "--", "true")
        assert result.status == FAULT and "its own files" in result.err, path


def test_env(home):
    """None of ours but what is named, and no value of a wrong name."""
    ours = {"FH_SECRET": "s", "FH_GIVEN": "g"}
    out = run(home, "--env", "FH_GIVEN", "--env", "FH_SET=a=b c", "--env", "FH_NONE",
              "--env", "LANG=C", "--", "env", env=ours).out.splitlines()
    assert {"FH_GIVEN=g", "FH_SET=a=b c", "LANG=C", "HOME=/workspace"} <= set(out)
    assert not [line for line in out if line.startswith(("FH_SECRET", "FH_NONE", "XDG_"))]
    assert len([line for line in out if line.startswith("LANG=")]) == 1
    assert "FH_SECRET=s" in outside("env", env={**os.environ, **ours}).stdout
    assert run(home, "--env", "1A=x", "--", "env").status == USAGE


ALLOCATE = "x = bytearray(200 << 20); print(len(x))"


def test_memory(home):
    small = run(home, "--memory", "64M", "--", "/usr/bin/python3", "-c",
                ALLOCATE + "; import time; time.sleep(60)")
    assert small.status == 128 + signal.SIGKILL and "67108864 bytes" in small.err
    assert run(home, "--memory", "512M", "--", "/usr/bin/python3", "-c", ALLOCATE
               ).out == "209715200\n"


PROCESSES = """
import os, sys
made = 0
try:
    while made < 40:
        if os.fork() == 0:
            os.read(0, 1)
            os._exit(0)
        made += 1
except OSError:
    pass
print(made)
"""


def test_processes(home):
    read, write = os.pipe()
    for limit, low, high in (("10", 5, 10), ("200", 40, 40)):
        process = home.popen("sandbox", "run", "--processes", limit, "--", "/usr/bin/python3", "-c",
                             PROCESSES, stdin=read, stdout=subprocess.PIPE)
        made = int(process.communicate(timeout=WAIT_S)[0])
        assert low <= made <= high
    os.close(read)
    os.close(write)


def test_policy_file(home):
    """Its members have effect; options go over it; what is wrong is named."""
    place = home.folder()
    put(place, "there", "yes")
    script = "ulimit -n; cat %s/there; echo $A$B; df -Pk /tmp | tail -1" % place
    policy = {"files": 200, "read": [str(place)], "env": {"A": "1", "B": "2"},
              "tmp_bytes": 4 << 20, "file_bytes": 4096}
    path = put(home.folder(), "p.json", json.dumps(policy))
    lines = shell(home, "--policy", str(path), "--env", "B=3", script=script).out.splitlines()
    assert lines[:2] == ["200", "yes13"] and lines[2].split()[1] == "4096"
    big = "head -c 5000 /dev/zero > x; wc -c < x"
    assert shell(home, "--policy", str(path), script=big).out.strip() == "4096"
    assert shell(home, script=big).out.strip() == "5000"
    put(path.parent, "p.json", '{"file": 200}')
    bad = run(home, "--policy", str(path), "--", "true")
    assert bad.status == FAULT and 'did you mean "files"' in bad.err and "p.json" in bad.err
    put(path.parent, "p.json", "{\n,}")
    assert "p.json:2: this is no JSON" in run(home, "--policy", str(path), "--", "true").err
    assert run(home, "--policy", "/nosuch", "--", "true").status == FAULT


def test_processor_time(home):
    path = put(home.folder(), "p.json", '{"cpu_s": 0.3}')
    result = shell(home, "--policy", str(path), script="while :; do :; done")
    assert result.status == 128 + signal.SIGKILL and "0.3 s of processor time" in result.err
    assert run(home, "--policy", str(path), "--", "true").status == 0


GET = ("import urllib.request as u, sys\n"
       "for url in sys.argv[1:]:\n"
       "    try: print(u.urlopen(url, timeout=30).status)\n"
       "    except OSError as error: print(type(error).__name__, getattr(error, 'code', ''))\n")


def test_hosts(home, tmp_path):
    """Those that are allowed, and no others; what ignores the variables reaches nothing."""
    site = Server(make_site(tmp_path))
    program = "--", "/usr/bin/python3", "-c"
    try:
        rule = "localhost:%d" % site.port
        result = run(home, "--allow-net", rule, *program, GET, site.url + "/hello.txt",
                     "http://example.org/")
        assert result.out.splitlines() == ["200", "HTTPError 403"], result
        assert "network: example.org:80 is not among the allowed hosts" in result.err
        assert run(home, *program, GET, site.url + "/hello.txt").out.startswith("URLError")
        result = run(home, "--allow-net", rule, *program,
                     "import socket; socket.create_connection(('127.0.0.1', %d))" % site.port)
        assert result.status == 1 and "ConnectionRefusedError" in result.err
    finally:
        site.close()
    assert not [pid for pid in pids() if b"fumehood-proxy" in read_proc(pid, "cmdline")
                and str(site.port).encode() in read_proc(pid, "cmdline")]
    assert run(home, "--allow-net", "not a host", "--", "true").status == USAGE


def proxies(rule):
    return [pid for pid in pids()
            if read_proc(pid, "cmdline").split(b"\0")[:-1] == [b"fumehood-proxy", rule.encode()]]


def test_hosts_end_with_us(home):
    """Killed, it leaves neither the program nor the proxy."""
    rule = "ends-with-us.example:443"
    ours = home.popen("sandbox", "run", "--allow-net", rule, "--", "sh", "-c",
                      "echo ready; exec sleep 3333", stdout=subprocess.PIPE)
    assert ours.stdout.readline() == b"ready\n"
    until = time.monotonic() + WAIT_S
    while not proxies(rule):  # it begins beside the program, which waits for it when it connects
        assert time.monotonic() < until
    proxy, = proxies(rule)
    ours.kill()
    ours.communicate()
    assert wait_gone(proxy)
    left, = pathlib.Path(home.env["TMPDIR"]).iterdir()
    left.rmdir()  # nobody was there to do so


def test_disk(home, folder):
    """What a private workspace may take; that of the user is theirs."""
    fill = "for i in $(seq 300); do head -c 1000000 /dev/zero > f$i; done; sleep %s"
    result = shell(home, "--disk", "10M", script=fill % 1000)
    assert result.status == 128 + signal.SIGKILL, result
    assert "its workspace holds more than 10485760 bytes" in result.err
    assert shell(home, "--disk", "1G", script=fill % 0).status == 0
    assert shell(home, "--disk", "10M", "-w", str(home.folder()), script=fill % 1).status == 0


def test_floor(home):
    assert run(home, "--tier-floor", "full", "--", "true").status == 0
    assert run(home, "--tier-floor", "none", "--", "true").status == USAGE


# ------------------------------------------------------------------------------------ explain

def test_explain(home):
    place = home.folder()
    answer = json.loads(home.cli("sandbox", "explain", "--json", "--write", str(place), "--memory",
                                 "64M", "--env", "A=secret", "--", "/bin/ls").out)
    assert answer["tier"] == "full"
    assert answer["policy"]["write"] == [str(place)]
    assert answer["policy"]["memory_bytes"] == 64 << 20
    assert answer["policy"]["env"] == {"A": None}
    whats = [step["what"] for step in answer["steps"]]
    assert all(step[key] for step in answer["steps"] for key in ("by", "what", "why", "needs"))
    assert any(re.fullmatch("bind %s read-write" % re.escape(str(place)), what) for what in whats)
    assert any("67108864 bytes of memory" in what for what in whats)
    assert whats[-1] == "execute /bin/ls"
    by = [step["by"] for step in answer["steps"]]
    assert by == sorted(by)  # the box, then the program
    text = home.cli("sandbox", "explain", "--write", str(place)).out
    for step in answer["steps"][:5]:
        assert step["what"] in text and step["why"] in text
    assert "secret" not in home.cli("sandbox", "explain", "--env", "A=secret").out


def test_explain_says_what_is_refused(home):
    assert home.cli("sandbox", "explain", "--write", "/usr").status == FAULT
    assert "too much" in home.cli("sandbox", "explain", "--read", "/home").err


GOOD = [
    {}, {"$schema": "x"}, {"read": []}, {"read": ["/x y"]}, {"net": []}, {"env": {}},
    {"env": {"A_1": None, "b": ""}}, {"swap": True}, {"cpus": 0.5}, {"cpus": None}, {"cpu_s": 1},
    {"memory_bytes": None}, {"memory_bytes": 2 ** 53 - 1}, {"files": 128}, {"processes": 1},
    {"tier_floor": "full"}, {"protect": []}, {"protect": ["...", "a/*"]}, {"disk_bytes": 1 << 20},
]
BAD = [
    [], None, {"x": 1}, {"read": "/x"}, {"read": ["x"]}, {"read": [1]}, {"read": ["/"] * 257},
    {"net": "x"}, {"net": [1]}, {"env": []}, {"env": {"1": "x"}}, {"env": {"A": 1}},
    {"env": {"A": "x" * 65537}}, {"swap": 1}, {"swap": None}, {"cpus": 0}, {"cpus": "1"},
    {"memory_bytes": 1}, {"memory_bytes": 1.5e9 + 0.5}, {"files": None}, {"files": 127},
    {"processes": 0}, {"tier_floor": "none"}, {"protect": [1]}, {"$schema": 1},
]


def test_the_schema_says_what_fumehood_does(house, folder):
    jsonschema = pytest.importorskip("jsonschema", reason="missing optional component jsonschema")
    schema = json.loads(house.cli("sandbox", "schema").out)
    assert schema == json.loads((ROOT / "doc" / "policy.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for expected, values in ((True, GOOD), (False, BAD)):
        for value in values:
            assert validator.is_valid(value) == expected, value
            value = {key: ["/usr"] if key == "read" and expected and part else part
                     for key, part in value.items()} if isinstance(value, dict) else value
            path = put(folder, "p.json", json.dumps(value))
            status = house.cli("sandbox", "explain", "--policy", str(path)).status
            assert (status == 0) == expected, value
