"""The keeper has given up the user's rights (src/keeper/confine.h), and its spawner, which has
them, does not outlive it, nor it the spawner.

What a keeper can still do is tried by making one do it: a real one is stopped by root's ptrace and
calls. The same is done with a process of the same user that nobody has confined, where it must
work.
"""
import json
import os
import subprocess

import pytest

import inject_kit
from cgroup_kit import stale_groups
from fumehood_kit import (House, children, init_of, is_alive, kill, parent_of, read_proc,
                          spawner_of, wait_gone)
from user_kit import USER, home, user_house  # noqa: F401 (fixtures)

SANITIZED = "sanitizer"
EFAULT_IS_DONE = ("execve", "mount", "bpf", "init_module")  # as far as that they would look at it


def status_of(pid):
    lines = read_proc(pid, "status").decode().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def layers_of(keeper):
    keeper.run("1")
    event = next(event for event in keeper.events if event["type"] == "session")
    return {layer["layer"]: layer for layer in event["keeper"]}


def is_confined(layers):
    """False: the build has a sanitizer, and says so."""
    if SANITIZED in layers["system call filter"].get("why", ""):
        return False
    assert layers["system call filter"]["holds"] and layers["capabilities"]["holds"]
    return True


def test_it_says_what_holds(home):
    with home.keeper(home.session()) as keeper:
        layers = layers_of(keeper)
        assert set(layers) == {"files", "signals and abstract sockets", "system call filter",
                               "capabilities"}
        for layer in layers.values():
            assert layer["holds"] or (layer["why"] and layer["effect"])
        status = status_of(keeper.pid)
        if is_confined(layers):
            assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
            assert int(status["CapEff"], 16) & (1 << 21) == 0  # CAP_SYS_ADMIN
        spawner = spawner_of(keeper.pid)
        assert read_proc(spawner, "cmdline").rstrip(b"\0") == b"fumehood-spawner"
        assert status_of(spawner)["Seccomp"] == status_of("self")["Seccomp"]


def test_an_overlay_says_that_its_files_are_open(house, folder):
    session = house.session(workspace=folder)
    config = json.loads((session / "session.json").read_text())
    config["workspace"] = {"path": str(folder), "mode": "overlay", "private": False}
    (session / "session.json").write_text(json.dumps(config))
    with house.keeper(session) as keeper:
        layers = layers_of(keeper)
        assert not layers["files"]["holds"]
        if is_confined(layers):
            assert "overlay" in layers["files"]["why"]


# What is tried, with its arguments. {home}: a folder of the user's, not of the session's.
ATTEMPTS = {
    "read a file": ("open", "{home}/secret", os.O_RDONLY),
    "write one": ("open", "{home}/secret", os.O_WRONLY),
    "make one": ("open", "{home}/new", os.O_WRONLY | os.O_CREAT, 0o600),
    "list a folder": ("open", "{home}", os.O_RDONLY | os.O_DIRECTORY),
    "change a mode": ("chmod", "{home}/secret", 0o600),
    "the environment of another": ("open", "/proc/{other}/environ", os.O_RDONLY),
    "run a program": ("execve", "/bin/sh", 1, 0),
    "make a socket": ("socket", 1, 1, 0),
    "signal another": ("kill", "{other}", 0),
}
ROOT_ATTEMPTS = {
    "mount": ("mount", 1, 1, 1, 0, 0),
    "another namespace": ("unshare", 0x00020000),
    "bpf": ("bpf", 0, 1, 128),
    "a kernel module": ("init_module", 1, 128, 1),
}


def try_all(pid, world, attempts):
    """{what: errno, or "": done}."""
    told = {}
    with inject_kit.taken(pid) as process:
        assert process.call("getpid") == ""
        for what, (name, *arguments) in attempts.items():
            arguments = [text.format(**world) if isinstance(text, str) else text
                         for text in arguments]
            if name == "kill":
                arguments[0] = int(arguments[0])
            result = process.call(name, *arguments)
            told[what] = "" if result in ("EFAULT", "EINVAL") and name in EFAULT_IS_DONE \
                else result
    return told


@pytest.mark.skipif(not inject_kit.HERE, reason="cannot simulate: root's ptrace on x86-64")
def test_one_that_is_taken_over_has_nothing_of_the_users(home, tmp_path):
    uid = os.geteuid() if type(home) is House else USER
    private = home.folder()
    secret = private / "secret"
    secret.write_text("secret")
    os.chown(secret, uid, uid)
    attempts = {**ATTEMPTS, **({} if uid else ROOT_ATTEMPTS)}
    other = subprocess.Popen(["sleep", "1000"], user=uid, group=uid, extra_groups=[])
    free = subprocess.Popen(["sleep", "1000"], user=uid, group=uid, extra_groups=[])
    try:
        world = {"home": private, "other": other.pid}
        control = try_all(free.pid, world, attempts)
        (private / "new").unlink(missing_ok=True)
        lacking = {what for what in control if control[what] == "ENOSYS"}
        assert lacking <= set(ROOT_ATTEMPTS) - {"mount"}, control  # by some kernels
        assert {control[what] for what in set(control) - lacking} == {""}, control
        with home.keeper(home.session()) as keeper:
            if not is_confined(layers_of(keeper)):
                return
            told = try_all(keeper.pid, world, attempts)
            assert set(told.values()) <= {"EACCES", "EPERM", "ENOSYS"}, told
            assert not (private / "new").exists()
            assert keeper.run("6 * 7").result == "42"  # it has not noticed
    finally:
        for process in (other, free):
            process.kill()
            process.wait()


def test_the_death_of_the_spawner_ends_the_session(home):
    """With a reason, and nothing lives on; what is done then is done again by another keeper."""
    session = home.session()
    keeper = home.keeper(session)
    try:
        keeper.run("x = 1")
        spawner, init = spawner_of(keeper.pid), init_of(keeper.pid)
        inside = children(init)
        keeper.send(op="run", id="long", code="import time; time.sleep(600)")
        keeper.event("started", cell="long")
        kill(spawner)
        assert keeper.event("stopped")["reason"] == "spawner"
        finished = next(event for event in keeper.events
                        if event["type"] == "finished" and event["cell"] == "long")
        assert finished["status"] == "died"
        for pid in (keeper.pid, init, *inside):
            assert wait_gone(pid)
    finally:
        kill(keeper.process.pid)
        keeper.close()
    with home.keeper(session) as again:
        assert again.run("6 * 7", id="later").result == "42"


def test_the_death_of_the_keeper_leaves_nothing(home):
    before = stale_groups()
    session = home.session()
    keeper = home.keeper(session)
    keeper.run("1")
    spawner, init = spawner_of(keeper.pid), init_of(keeper.pid)
    others = [spawner, init, *children(init)]
    kill(keeper.process.pid)
    keeper.close()
    for pid in others:
        assert wait_gone(pid), "process %d outlives its keeper" % pid
    assert stale_groups() <= before
    with home.keeper(session) as again:
        assert again.run("6 * 7", id="later").result == "42"


def test_a_stop_reaps_the_spawner(home):
    with home.keeper(home.session()) as keeper:
        keeper.run("1")
        spawner = spawner_of(keeper.pid)
        assert parent_of(spawner) == keeper.pid
        keeper.stop()
        assert not is_alive(spawner)
