"""Policies of sessions: what was asked for is in session.json, what is in force is told, and each
member has its effect; beside a session without it. As root's sessions have it, cold and warm.
"""
import json
import os
import subprocess

import pytest

from fumehood_kit import FAULT, USAGE, Refused

MEMBERS = ["tier_floor", "read", "write", "net", "env", "protect", "memory_bytes", "swap",
           "processes", "files", "file_bytes", "disk_bytes", "disk_inodes", "tmp_bytes",
           "tmp_inodes", "cpus", "cpu_s"]


def run(house, code, *options, **rest):
    return house.cli("run", *options, "-c", code, **rest)


def on_disk(session):
    return json.loads((session / "session.json").read_text())


# ------------------------------------------------------------------------------------ what is told

def test_asked_for_and_in_force(house, folder):
    """session.json has what was asked for; the op and the first event have everything, and no
    value of a variable."""
    options = ["--read", str(folder), "--env", "FH_A", "--env", "FH_B=b", "--memory", "600M"]
    assert run(house, "1", "-s", "told", *options, env={"FH_A": "a secret"}).status == 0
    session = house.find("told")
    assert on_disk(session)["policy"] == {
        "read": [str(folder)], "env": {"FH_A": "a secret", "FH_B": "b"},
        "memory_bytes": 600 << 20}
    with house.pipe("-s", "told") as pipe:
        told = pipe.ask("policy")["policy"]
        assert list(told) == MEMBERS
        assert told["read"] == [str(folder)] and told["memory_bytes"] == 600 << 20
        assert told["env"] == {"FH_A": None, "FH_B": None}
        assert told["protect"] == ["..."] and told["net"] == [] and told["write"] == []
    first = json.loads((session / "journal.ndjson").read_text().splitlines()[0])
    assert first["policy"] == told
    assert "a secret" not in (session / "journal.ndjson").read_text()


def test_nothing_asked_for(house):
    with house.pipe("-s", "plain") as pipe:
        told = pipe.ask("policy")["policy"]
        limits = pipe.ask("limits")["limits"]
    assert "policy" not in on_disk(house.find("plain"))
    assert {name: about["value"] for name, about in limits.items() if name in told} == {
        name: value for name, value in told.items() if name in limits}


def test_one_that_exists_keeps_its_own(house, folder):
    """The same again is fine, another is refused."""
    assert run(house, "1", "-s", "kept", "--read", str(folder)).status == 0
    assert run(house, "1", "-s", "kept", "--read", str(folder)).status == 0
    assert run(house, "1", "-s", "kept").status == 0
    other = run(house, "1", "-s", "kept", "--read", str(folder), "--processes", "99")
    assert other.status == FAULT and "another policy" in other.err


# ------------------------------------------------------------------------------------ precedence

LIMIT = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"


def test_option_over_file_over_configuration(house, folder):
    path = folder / "p.json"
    path.write_text('{"files": 300, "processes": 100, "env": {"A": "file", "B": "file"}}')
    config = {"FUMEHOOD_LIMITS_FILES": "200", "FUMEHOOD_LIMITS_TMP_BYTES": str(8 << 20)}
    code = LIMIT + "; import os; print(os.environ['A'], os.environ['B']); " \
        "s = os.statvfs('/tmp'); print(s.f_blocks * s.f_frsize)"
    result = run(house, code, "--policy", str(path), "--env", "B=option", env=config)
    assert result.out.split() == ["300", "file", "option", str(8 << 20)]
    assert run(house, LIMIT, env=config).out == "200\n"
    assert run(house, LIMIT).out == "1024\n"
    assert run(house, "1", "--policy", str(path), "--processes", "0").status == USAGE


def test_a_broken_file(house, folder):
    path = folder / "p.json"
    path.write_text('{"env": {"TOKEN": 5, "SECRET": "hunter2"}}')
    result = run(house, "1", "--policy", str(path))
    assert result.status == FAULT and "TOKEN" in result.err and "hunter2" not in result.err
    assert len(result.err.splitlines()) == 1


# ------------------------------------------------------------------------------------ effects

def cold_python(house, folder):
    """An environment in the workspace: its sessions start cold, inside the box."""
    subprocess.run([os.path.realpath(house.env["FUMEHOOD_PYTHON"]), "-m", "venv", "--without-pip",
                    str(folder / "venv")], check=True)
    return ["-w", str(folder), "--python", str(folder / "venv")]


@pytest.mark.parametrize("start", ["warm", "cold"])
def test_variables(house, folder, start):
    """In the interpreter and in what it starts, also after its death; ours otherwise never."""
    options = cold_python(house, folder) if start == "cold" else []
    code = "import os, subprocess\n" \
           "print(os.environ.get('FH_A'), os.environ.get('FH_SECRET'), " \
           "subprocess.run(['sh', '-c', 'echo $FH_A$FH_B'], capture_output=True, " \
           "text=True).stdout.strip())"
    ours = {"FH_A": "1", "FH_SECRET": "s"}
    with house.pipe("--env", "FH_A", "--env", "FH_B=2", *options, **ours) as pipe:
        assert pipe.run(code).out == "1 None 12\n"
        assert pipe.run("import os; os._exit(1)").status == "died"
        assert pipe.run(code).out == "1 None 12\n"
    assert run(house, code, *options, env=ours).out.split() == ["None", "None"]


def test_read_and_write(house, folder):
    """Shown at the same place; what is read-only cannot be changed, what was not named is not
    there."""
    shown, written = house.folder(), house.folder()
    (shown / "there").write_text("yes")
    code = """
import os
def attempt(action):
    try:
        return action()
    except OSError as error:
        return type(error).__name__
print(attempt(lambda: open(%r).read()))
print(attempt(lambda: open(%r, "w").write("x")))
print(attempt(lambda: open(%r, "w").write("x")))
""" % (str(shown / "there"), str(shown / "made"), str(written / "made"))
    result = run(house, code, "--read", str(shown), "--write", str(written))
    assert result.out.split() == ["yes", "OSError", "1"]
    assert (written / "made").read_text() == "x" and not (shown / "made").exists()
    owner, made = written.stat(), (written / "made").stat()
    assert (made.st_uid, made.st_gid) == (owner.st_uid, owner.st_gid)
    (written / "made").unlink()
    assert run(house, code).out.split() == ["FileNotFoundError"] * 3


def test_what_cannot_be_shown(house, folder):
    for options in (["--write", "/usr"], ["--write", "/"], ["--read", "/home"],
                    ["--read", str(folder / "nosuch")]):
        result = run(house, "1", *options)
        assert result.status == FAULT and len(result.err.splitlines()) == 1, options
    path = folder / "p.json"
    path.write_text('{"read": ["%s/nosuch"]}' % folder)
    assert "No such file" in run(house, "1", "--policy", str(path)).err
    assert not house.new_sessions()


def test_a_python_that_can_be_written_is_nobodys_zygote(house, folder):
    """With its environment in a folder of --write a session starts cold, in its own box."""
    options = cold_python(house, folder)[2:]  # without the workspace
    code = "import os, sys; print(sys.prefix, os.access(sys.prefix, os.W_OK))"
    before = set(house.zygotes())
    result = run(house, code, *options, "--write", str(folder))
    assert result.out == "%s/venv True\n" % folder, result
    assert set(house.zygotes()) == before
    assert run(house, code, *options).out == "%s/venv False\n" % folder


def test_processes(house):
    code = """
import subprocess
made = []
try:
    for _ in range(60):
        made.append(subprocess.Popen(["sleep", "3333"]))
except OSError:
    pass
print(len(made))
"""
    assert int(run(house, code, "--processes", "40").out) < 40
    assert int(run(house, code).out) == 60


# ---------------------------------------------------------------------------------- while it lives

def test_changed_while_it_lives(house):
    """Limits and hosts; kept in session.json, told by events, in force at once."""
    session = house.session(policy={"files": 300, "env": {"A": "b"}})
    with house.keeper(session) as keeper:
        assert keeper.run(LIMIT).out == "300\n"
        rules = ["pypi.org", "*.example.org:8443"]
        answer = keeper.ask("policy", set={"files": 200, "net": rules})
        assert answer["policy"]["files"] == 200 and answer["policy"]["net"] == rules
        told = [event for event in keeper.events if event["type"] == "state"]
        assert [event["limits"]["files"] for event in told if "limits" in event] == [200]
        assert [event["policy"]["net"] for event in told if "policy" in event] == [rules]
        assert keeper.run(LIMIT).out == "200\n"
        assert "127.0.0.1" in keeper.run("import os; print(os.environ['HTTPS_PROXY'])").out
        assert keeper.ask("policy")["policy"] == answer["policy"]
        keeper.stop()
    kept = on_disk(session)
    assert kept["policy"] == {"files": 300, "env": {"A": "b"}, "net": rules}
    assert kept["limits"]["files"] == 200
    with house.keeper(session) as keeper:
        told = keeper.ask("policy")["policy"]
        assert told["files"] == 200 and told["net"] == rules
        assert keeper.ask("policy", set={"net": []})["policy"]["net"] == []
        keeper.stop()


@pytest.mark.parametrize("change, code, word", [
    ({"read": ["/x"]}, "unsupported", "another session"),
    ({"env": {"A": "b"}}, "unsupported", "another session"),
    ({"net": ["!"]}, "invalid", '"net"'),
    ({"net": "pypi.org"}, "invalid", "array of hosts"),
    ({"nett": []}, "invalid", 'did you mean "net"'),
    ({"files": 1}, "invalid", "files"),
], ids=json.dumps)
def test_all_or_none(house, change, code, word):
    session = house.session()
    before = on_disk(session)
    with house.keeper(session) as keeper:
        told = keeper.ask("policy")
        with pytest.raises(Refused) as refused:
            keeper.ask("policy", set={"processes": 99, "net": ["pypi.org"], **change})
        assert refused.value.code == code and word in refused.value.message
        assert keeper.ask("policy")["policy"] == told["policy"]
        assert on_disk(session) == before
        keeper.stop()


def test_session_json_is_read_strictly(house):
    session = house.session(policy={"memory_byte": 1})
    with pytest.raises(Refused) as refused:
        house.keeper(session)
    assert refused.value.code == "invalid"
    assert 'did you mean "memory_bytes"' in refused.value.message
