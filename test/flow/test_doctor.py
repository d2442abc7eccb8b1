"""`fumehood doctor`: what it shows, and what it finds about the machine. Each finding is provoked
for real (see doctor_kit.py).
"""
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile

import pytest

import fumehood_kit
from doctor_kit import doctor, libexec, own, root_only  # noqa: F401 (own is a fixture)
from fumehood_kit import FAULT, FUMEHOOD, USAGE

GROUPS = ["system", "sandbox", "programs", "directories", "disk", "limits", "python", "session",
          "fonts", "records", "models", "environments"]


def limited(kind, value):
    return lambda: resource.setrlimit(kind, (value, value))



# --------------------------------------------------------------------------------- what is shown

def test_all_groups(house):
    report = doctor(house)
    assert report.status == 0, report.all
    groups = [check["group"] for check in report.all["checks"]]
    assert list(dict.fromkeys(groups)) == GROUPS
    report.expect("session", "ok", "6 * 7 is 42")
    report.expect("python", "ok", "CPython", "FUMEHOOD_PYTHON=")
    for name in ("IPython", "numpy", "pandas", "matplotlib"):
        assert report[name]["status"] == "ok" and re.match(r"\d+\.", report[name]["detail"])


def test_text(house):
    result = house.cli("doctor", "system", "directories", "records")
    assert result.status == 0, result
    lines = result.out.splitlines()
    assert [line for line in lines if not line.startswith(" ")][:3] == [
        "system", "directories", "records"]
    assert re.search(r"(?m)^  ok       state directory +/", result.out)
    assert lines[-1] == "all is well" or re.fullmatch(r"\d+ warnings?", lines[-1])


def test_groups_are_chosen(house):
    report = doctor(house, "disk", "system")
    assert {check["group"] for check in report.all["checks"]} == {"system", "disk"}
    result = house.cli("doctor", "disc")
    assert result.status == USAGE and "disc" in result.err and "environments" in result.err


def test_text_shows_effect_and_cure_and_escapes(house):
    folder = house.folder()
    (folder / "pyenv" / "versions" / "a\x1b[31mb" / "bin").mkdir(parents=True)
    python = folder / "pyenv" / "versions" / "a\x1b[31mb" / "bin" / "python"
    python.write_bytes(b"#!/bin/sh\nprintf 'no \\033[2J\\377 way\\n'; exit 1\n")
    python.chmod(0o755)
    process = house.popen("doctor", "environments", stdout=subprocess.PIPE,
                          env={"PYENV_ROOT": str(folder / "pyenv")})
    out, _ = process.communicate(timeout=fumehood_kit.WAIT_S)
    assert process.returncode == 0
    assert b"\x1b" not in out and b"\xff" not in out and b"\\x1b[31m" in out
    assert re.search(rb"(?m)^  warning  pyenv a", out)
    assert re.search(rb"(?m)^           effect: .", out)
    assert re.search(rb"(?m)^           cure:   .", out)


# -------------------------------------------------------------------------------- system, sandbox

def test_locale(house):
    doctor(house, "system", env={"LC_ALL": "C.UTF-8"}).expect("locale", "ok")
    report = doctor(house, "system", env={"LC_ALL": "C"})
    report.expect("locale", "warning", "LC_ALL=C:")
    report.expect("locale", "warning", "export LC_ALL=C.UTF-8", part="cure")
    assert report.status == 0
    doctor(house, "system", env={"LC_ALL": "xx_XX.UTF-8"}).expect(
        "locale", "warning", "not installed")


def test_terminal(house):
    report = doctor(house, "system", env={"FUMEHOOD_IMAGES": "no\x1bsuch"})
    report.expect("terminal", "warning", "FUMEHOOD_IMAGES")
    assert doctor(house, "system", env={"FUMEHOOD_IMAGES": "kitty"})["terminal"]["detail"].endswith(
        "kitty's protocol")


def test_no_namespaces(own):
    report = doctor(own(), "sandbox", "limits", "session", user=True,
                    before="echo 0 >/proc/sys/user/max_user_namespaces")
    assert report.status == FAULT
    report.expect("user namespace", "failed")
    report.expect("namespaces", "failed", "at most 0 of kind user")
    report.expect("namespaces", "failed", "user.max_user_namespaces=", part="cure")
    report.expect("session", "warning", "degraded", part="effect")


def test_what_landlock_can(house):
    """Older kernels are tried in virtual machines (test/vm/test_vm.py)."""
    report = doctor(house, "sandbox")
    if report["Landlock"]["detail"].startswith("the kernel has none"):
        pytest.skip("tier degraded needs Landlock")
    assert re.match(r"ABI \d+", report["Landlock"]["detail"])
    assert report["tier degraded"]["status"] == "ok"
    if os.geteuid() == 0:
        report.expect("tier degraded", "ok", "cannot contain root")


# -------------------------------------------------------------------------------------- programs

def test_programs_are_missing_or_of_another_version(house, folder):
    report = doctor(house, "programs", env={"FUMEHOOD_LIBEXEC": str(folder)})
    report.expect("fumehood-keeper", "failed", str(folder))
    report.expect("fumehood-pool", "failed", "FUMEHOOD_LIBEXEC")
    env = libexec(folder)
    doctor(house, "programs", env=env).expect("fumehood-keeper", "ok", str(folder))
    (folder / "fumehood-keeper").unlink()
    (folder / "fumehood-keeper").write_text("#!/bin/sh\necho fumehood-keeper 99.0\n")
    (folder / "fumehood-keeper").chmod(0o755)
    doctor(house, "programs", env=env).expect("fumehood-keeper", "failed", "99.0")


def test_another_build_runs(own):
    house = own()
    env = libexec(house.folder())
    assert house.cli("run", "-s", "old", "-c", "1", env=env).status == 0
    report = doctor(house, "programs")
    report.expect("running", "warning", "session old", "the pool of")
    assert report.status == 0
    doctor(house, "programs", env=env).expect("running", "ok")
    house.cli("stop", "old")


# ------------------------------------------------------------------------------ directories, disk

def state(house):
    return house.dir / "state" / "fumehood"


@root_only
def test_tiny_and_volatile_state(own):
    house = own()
    mount = "mount -t tmpfs -o mode=0700,%s none " + str(house.dir / "state")
    report = doctor(house, "directories", "disk", before=mount % "size=8m")
    report.expect("state file system", "warning", "tmpfs")
    report.expect("state file system", "warning", "reboot", part="effect")
    report.expect("space for records", "warning", "MiB of 8.0 MiB")
    assert report.status == 0
    report = doctor(house, "directories", "disk", before=mount % "size=512k")
    report.expect("state file system", "failed", "mebibyte", part="effect")
    report.expect("space for records", "failed")
    assert report.status == FAULT
    report = doctor(house, "disk", before=mount % "size=2g,nr_inodes=500")
    report.expect("space for records", "warning", "files")
    report = doctor(house, "directories", before=mount % "size=2g,noexec")
    report.expect("state file system", "warning", "noexec")


@root_only
def test_state_in_a_container(own):
    house = own()
    place = house.dir / "layers"
    place.mkdir()
    report = doctor(house, "directories", before="""
        mount -t tmpfs none %s; cd %s; mkdir low up work
        mount -t overlay -o lowerdir=low,upperdir=up,workdir=work none %s""" % (
            place, place, house.dir / "state"))
    report.expect("state file system", "warning", "overlay")
    report.expect("state file system", "warning", "container", part="effect")


@root_only
def test_state_without_space_ahead(own):
    house = own()
    report = doctor(house, "directories", before="mount -t ramfs none %s" % (house.dir / "state"))
    report.expect("state file system", "warning", "space ahead", part="effect")


@root_only
def test_state_is_read_only(own):
    house = own()
    report = doctor(house, "directories", before="""
        mount -t tmpfs none %(s)s; mkdir -m 700 %(s)s/fumehood; mount -o remount,ro %(s)s""" % {
            "s": house.dir / "state"})
    report.expect("state directory", "failed", "Read-only file system")
    report.expect("state directory", "failed", "XDG_STATE_HOME", part="cure")


def test_state_cannot_be_made(house):
    doctor(house, "directories", "disk", env={"XDG_STATE_HOME": "/proc"}).expect(
        "state directory", "failed", "/proc/fumehood")


@root_only
def test_state_is_others(own):
    house = own()
    doctor(house, "directories").expect("state directory", "ok")
    state(house).chmod(0o777)
    report = doctor(house, "directories")
    report.expect("state directory", "warning", "0777")
    report.expect("state directory", "warning", "chmod go-w", part="cure")
    state(house).chmod(0o700)
    os.chown(state(house), 12345, 12345)
    doctor(house, "directories").expect("state directory", "warning", "uid 12345")


def test_nothing_of_the_trials_is_left(own):
    house = own()
    doctor(house, "directories")
    for folder in (state(house), house.runtime):
        assert not [name for name in os.listdir(folder) if name.startswith(".doctor")]


def test_runtime_directory_with_a_long_path(own):
    house = own()
    path = house.dir / "run" / ("x" * 120)
    path.mkdir(0o700)
    house.env["XDG_RUNTIME_DIR"] = str(path)
    report = doctor(house, "directories", "session")
    report.expect("runtime directory", "ok", "/proc/self/fd", "at most 107")
    report.expect("session", "ok")
    assert house.cli("pool", "stop").status == 0


def test_runtime_directory_is_not_there(house):
    report = doctor(house, "directories", env={"XDG_RUNTIME_DIR": "/nosuch"})
    report.expect("XDG_RUNTIME_DIR", "warning", "/nosuch")
    report.expect("runtime directory", "ok", "/tmp/fumehood-")


def test_runtime_directory_is_open_to_others(house, folder):
    (folder / "fumehood").mkdir()
    (folder / "fumehood").chmod(0o777)
    report = doctor(house, "directories", env={"XDG_RUNTIME_DIR": str(folder)})
    report.expect("runtime directory", "failed", "rights for others")


@root_only
def test_what_gc_would_free(own):
    house = own()
    old = "2020-01-01T00:00:00.000000Z"
    mount = "mount -t tmpfs -o size=16m,mode=0700 none %(s)s; cp -r %(f)s %(s)s/fumehood"
    session = house.session("old")
    config = json.loads((session / "session.json").read_text())
    (session / "session.json").write_text(json.dumps({**config, "created": old}))
    shutil.copytree(state(house), house.dir / "copy")
    report = doctor(house, "disk", before=mount % {"s": house.dir / "state",
                                                   "f": house.dir / "copy"})
    report.expect("sessions", "warning", "1 sessions", "(1 of them)")
    report.expect("sessions", "warning", "fumehood gc", part="cure")


@root_only
def test_full_tmp(own):
    """The program stays where it is, if that is in /tmp."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        report = doctor(own(), "disk", cwd="/", env={"XDG_STATE_HOME": place}, before="""
            mount --bind %(build)s /mnt
            mount -t tmpfs -o size=1m none /tmp
            mkdir -p %(build)s
            mount --bind /mnt %(build)s""" % {"build": fumehood_kit.BUILD})
    report.expect("space in /tmp", "warning", "of 1.0 MiB free")


# ---------------------------------------------------------------------------------------- limits

def test_few_open_files(house):
    report = doctor(house, "limits", preexec_fn=limited(resource.RLIMIT_NOFILE, 64))
    report.expect("open files", "warning", "64 a process")
    report.expect("open files", "warning", "ulimit -n", part="cure")
    assert report.status == 0
    report = doctor(house, "limits", preexec_fn=limited(resource.RLIMIT_NOFILE, 16))
    report.expect("open files", "failed", "16 a process")


def test_no_memory(house):
    report = doctor(house, "limits", preexec_fn=limited(resource.RLIMIT_AS, 256 << 20))
    report.expect("memory", "warning", "512 MiB are refused")


def test_counters_of_the_kernel(house):
    report = doctor(house, "limits", user=True, before="""
        echo 3 >/proc/sys/user/max_inotify_instances
        echo 10 >/proc/sys/user/max_net_namespaces""")
    report.expect("inotify", "warning", "3 more could be had", "of ")
    report.expect("namespaces", "warning", "at most 10 of kind net")


def group_of(controller):
    """A new control group of version 1 or 2 with this controller; None where none can be made."""
    for place in ("/sys/fs/cgroup/" + controller, "/sys/fs/cgroup"):
        path = pathlib.Path(place, "fumehood-test-%d" % os.getpid())
        try:
            path.mkdir()
        except OSError:
            continue
        names = {"pids": ["pids.max"], "memory": ["memory.max", "memory.limit_in_bytes"]}
        for name in names[controller]:
            if (path / name).exists():
                return path, path / name
        path.rmdir()
    return None, None


@pytest.mark.parametrize("controller, most, check, words", [
    ("pids", 40, "processes of the machine", "the control group allows 40"),
    ("memory", 256 << 20, "memory", "the control group allows 256 MiB"),
])
def test_control_group_limits(house, controller, most, check, words):
    path, limit = group_of(controller)
    if path is None:
        pytest.skip("cannot simulate a control group with " + controller)
    try:
        limit.write_text(str(most))

        def enter():
            (path / "cgroup.procs").write_text("0")
        doctor(house, "limits", preexec_fn=enter).expect(check, "warning", words)
    finally:
        path.rmdir()


@root_only
def test_control_groups_cannot_be_made(house):
    hidden = house.folder()
    report = doctor(house, "limits", before="mount --bind %s /sys/fs/cgroup" % hidden)
    report.expect("control groups", "warning")
    report.expect("control groups", "warning", "memory", part="effect")


@root_only
def test_few_processes(own):
    """The limit binds everyone but root."""
    house = own()
    for folder in ("state", "run", "data", "work"):
        os.chown(house.dir / folder, 65534, 65534)
    if subprocess.run([FUMEHOOD, "version"], user=65534, capture_output=True).returncode != 0:
        pytest.skip("cannot simulate another user: %s is not for others" % FUMEHOOD)
    report = doctor(house, "limits", user=None, preexec_fn=lambda: (
        resource.setrlimit(resource.RLIMIT_NPROC, (40, 40)), os.setgid(65534), os.setuid(65534)))
    report.expect("processes of the user", "warning", "used of 40")
