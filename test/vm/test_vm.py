"""What a session is on a kernel of Debian's with control groups of version 2. Runs inside of the
machine of machine.py, in each of the places of inside.py; FUMEHOOD_VM_PLACE says in which.
"""
import json
import os
import pathlib
import platform
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "kit"), str(ROOT / "flow")]
from cgroup_kit import groups_of  # noqa: E402
from conftest import (  # noqa: E402, F401 (fixtures)
    close_the_house, count_what_is_left, folder, house, run_house,
)
from fumehood_kit import FAULT, FUMEHOOD, House, init_of  # noqa: E402

MIB = 1 << 20
PLACE = os.environ["FUMEHOOD_VM_PLACE"]
OTHER = pathlib.Path(os.environ["FUMEHOOD_VM_GROUP"])  # of this place
VERSION = tuple(int(part) for part in platform.release().split("-")[0].split("+")[0].split(".")[:2])
ABI = {(6, 1): 2, (6, 12): 6}[VERSION]
IS_ROOT = os.geteuid() == 0
GROUPED = PLACE != "session"


def doctor(house, group):
    result = house.cli("doctor", "--json", group)
    return {check["check"]: check for check in json.loads(result.out)["checks"]}


def how_of(keeper):
    keeper.run("1")
    return next(event for event in keeper.events if event["type"] == "session")["limits_how"]


def group_of(keeper):
    group, = groups_of([init_of(keeper.pid)])
    return pathlib.Path(group)


# ------------------------------------------------------------------------------------------ tiers

def test_full(house):
    with house.pipe() as pipe:
        assert pipe.hello["tier"] == "full"
        pipe.run("1")
        session = next(event for event in pipe.events if event["type"] == "session")
        missing = {layer["layer"] for layer in session["layers"] if not layer["holds"]}
        assert not missing, session["layers"]
        zygote, = (layer for layer in session["layers"] if layer["layer"] == "confined zygote")
        assert ("how" in zygote) == (ABI < 6 and not IS_ROOT), zygote


def test_doctor_says_what_landlock_can(house):
    found = doctor(house, "sandbox")
    landlock, degraded = found["Landlock"], found["tier degraded"]
    assert landlock["detail"].startswith("ABI %d," % ABI)
    if ABI < 6:
        assert landlock["status"] == ("ok" if IS_ROOT else "warning")
        assert "no signals" in landlock["detail"]
        assert IS_ROOT or "Linux 6.12" in landlock["cure"]
        assert "ABI 6 (Linux 6.12), and here is ABI 2" in degraded["detail"]
    else:
        assert landlock["status"] == "ok"
        assert ("cannot contain root" if IS_ROOT else "can be had") in degraded["detail"]
    assert degraded["status"] == "ok"  # nobody needs it here


def test_degraded(house):
    done = house.cli("run", "--tier", "degraded", "-c", "print(6 * 7)")
    if ABI >= 6 and not IS_ROOT:
        assert (done.status, done.out) == (0, "42\n"), done
        return
    assert done.status == FAULT and done.out == "", done
    if ABI < 6:
        assert "ABI 6 (Linux 6.12), and here is ABI 2" in done.err, done
        assert "--tier none" in done.err


@pytest.mark.skipif(IS_ROOT, reason="cannot simulate a counter that binds root")
def test_without_namespaces():
    """Below ABI 6 there is nothing to fall back on: refused, and said by doctor, never weaker."""
    counter = ["unshare", "-U", "--map-current-user", "--keep-caps", "sh", "-c",
               "echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --inh-caps=-all "
               '--ambient-caps=-all --bounding-set=-all -- "$@"', "sh", FUMEHOOD]
    house = House()

    def run(*words):
        return subprocess.run([*counter, *words], env=house.env, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, cwd=house.dir / "work", timeout=300)
    done = run("run", "-c", "print(6 * 7)")
    checks = {check["check"]: check for check in
              json.loads(run("doctor", "--json", "sandbox").stdout)["checks"]}
    run("pool", "stop")
    assert not (bad := house.close()), bad
    assert checks["user namespace"]["status"] == "failed"
    if ABI < 6:
        assert done.returncode == FAULT and done.stdout == "", done
        assert "user namespace: No space" in done.stderr and "ABI 6 (Linux" in done.stderr, done
        assert checks["tier degraded"]["status"] == "failed"
        assert "Linux 6.12" in checks["tier degraded"]["detail"]
    else:
        assert done.stdout == "42\n" and checks["tier degraded"]["status"] == "ok", done


# ----------------------------------------------------------------------------------------- groups

def test_who_holds_the_limits(house):
    wanted = "hard: cgroup v2" if GROUPED else "soft"
    session = house.session(limits={"memory_bytes": 300 * MIB, "processes": 77, "cpus": 0.5})
    with house.keeper(session) as keeper:
        how = how_of(keeper)
        assert how["memory_bytes"] == wanted
        assert how["cpus"] == ("hard: cgroup v2" if GROUPED else "none")
        if GROUPED:
            group = group_of(keeper)
            assert (group / "memory.max").read_text() == "%d\n" % (300 * MIB)
            assert (group / "pids.max").read_text() == "77\n"
            assert (group / "cpu.max").read_text() == "50000 100000\n"
            keeper.run("import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: 1")
            stat = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
            assert int(stat["nr_throttled"]) > 5
    assert doctor(house, "limits")["control groups"]["status"] == ("ok" if GROUPED else "warning")
    assert not GROUPED or not group.exists()


def test_memory_is_named_when_it_kills(house):
    with house.keeper(house.session(limits={"memory_bytes": 300 * MIB})) as keeper:
        cell = keeper.run("l = []\nwhile True: l.append(bytearray(1 << 20))", max_chars=2000)
        assert cell.status == "died", cell
        assert cell.finished["reason"] == "out of memory: limit memory_bytes, 300 MiB"
        if GROUPED:
            events = (group_of(keeper) / "memory.events").read_text()
            assert "oom_kill 0" not in events


@pytest.mark.skipif(PLACE != "scope", reason="cannot simulate a scope without a manager")
def test_a_limit_round_fumehood_stays_one_round_its_sessions(house):
    """As with `systemd-run --user --scope -p MemoryMax=1G fumehood ...`, which delegates nothing:
    a group beside that one would be free of its limit."""
    scope = OTHER.parent / "limited.scope"
    scope.mkdir()
    inside = 'echo $$ >"$0" && exec "$@"'

    def control_groups():
        done = subprocess.run(["sh", "-c", inside, scope / "cgroup.procs", FUMEHOOD, "doctor",
                               "--json", "limits"], env=house.env, capture_output=True, text=True)
        return next(check for check in json.loads(done.stdout)["checks"]
                    if check["check"] == "control groups")
    try:
        assert control_groups()["status"] == "ok"  # without a limit it may be beside
        for file, text in (("memory.max", str(1 << 30)), ("memory.high", str(1 << 30)),
                           ("cpu.max", "50000 100000")):
            (scope / file).write_text(text)
            found = control_groups()
            assert found["status"] == "warning" and "limited.scope" in found["detail"], found
            assert "Delegate=yes" in found["cure"]
            (scope / file).write_text("max")
        (scope / "pids.max").write_text("1000")  # systemd's own, for everything
        assert control_groups()["status"] == "ok"
    finally:
        scope.rmdir()


# -------------------------------------------------------------------------------------- id mapping

@pytest.mark.skipif(not IS_ROOT, reason="needs root")
@pytest.mark.parametrize("kind", ["ext4", "tmpfs"])
def test_workspace_of_root(house, folder, kind):
    """By an id-mapped mount; tmpfs can be mapped since Linux 6.3, and before is refused by name."""
    if kind == "tmpfs":
        subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
    try:
        (folder / "old").write_text("old")
        if kind == "tmpfs" and VERSION < (6, 3):
            done = house.cli("run", "--workspace", str(folder), "-c", "print(1)")
            assert done.status == FAULT and "cannot be mapped" in done.err, done
            assert "cannot contain root" in done.err or "ABI" in done.err, done
            return
        done = house.cli("run", "--workspace", str(folder), "-c",
                         "print(open('old').read()); open('new', 'w').close()")
        assert (done.status, done.out) == (0, "old\n"), done
        assert (folder / "new").stat().st_uid == 0
    finally:
        if kind == "tmpfs":
            house.stop_sessions()
            subprocess.run(["umount", folder], check=True)
