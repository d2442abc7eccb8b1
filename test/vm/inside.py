#!/usr/bin/env python3
"""Runs inside of the virtual machine, as root, from its PID 1: test programs in each place that a
process can have on a machine of systemd.

Places, each a control group that is what systemd makes of it:
    service   root, in a service to which its group is delegated
    scope     an ordinary user, in a group of its own manager, beside others
    session   an ordinary user who has come by ssh: nothing is delegated

Writes to /results what each program printed, what pytest reports, and steps.json.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

CGROUPS = pathlib.Path("/sys/fs/cgroup")
RESULTS = pathlib.Path("/results")
USER = 65534
CONTROLLERS = "+cpu +memory +pids"
STEP_S_MAX = 3600
SKIPPED, TAIL = 77, 4000  # status of a unit test that does not apply; what is shown of a failure


def make_group(path, owner=0, hand_on=True):
    """A group; `owner` may make others in it."""
    where = CGROUPS / path
    where.mkdir()
    if hand_on:
        (where / "cgroup.subtree_control").write_text(CONTROLLERS)
    if owner:
        for name in (".", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
            os.chown(where / name, owner, owner)
    return where


def make_places():
    slice_ = "user.slice/user-%d.slice" % USER
    make_group(slice_)
    manager = slice_ + "/user@%d.service" % USER
    make_group(manager, USER)
    make_group(manager + "/app.slice", USER)
    places = {
        "service": (0, make_group("system.slice/fumehood.service", hand_on=False)),
        "scope": (USER, make_group(manager + "/app.slice/tests.scope", USER, False)),
        "session": (USER, make_group(slice_ + "/session-1.scope", hand_on=False)),
    }
    os.setxattr(places["service"][1], "trusted.delegate", b"1")
    return places


class Machine:
    def __init__(self, order):
        self.order, self.steps, self.places = order, [], make_places()
        home = pathlib.Path("/home/user")
        home.mkdir()
        os.chown(home, USER, USER)

    def environment(self, place):
        order, (uid, group) = self.order, self.places[place]
        return {**os.environ, "FUMEHOOD_BUILD": order["build"], "FUMEHOOD_PYTHON": order["python"],
                "FUMEHOOD_TEST_GUEST": order["build"] + "/python/fumehood_guest",
                "FUMEHOOD_TEST_PYTHONS": "/usr/bin/python3:" + order["python"],
                "FUMEHOOD_TEST_WAIT_S": "300", "FUMEHOOD_VM_PLACE": place,
                "FUMEHOOD_VM_GROUP": str(group),
                "HOME": "/home/user" if uid else "/root", "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, place, name, command, seconds=STEP_S_MAX):
        """A program in a place; what it prints goes to a file of the results."""
        uid, group = self.places[place]
        if uid:
            command = ["setpriv", "--reuid=%d" % uid, "--regid=%d" % uid, "--clear-groups", "--",
                       *command]

        def enter():
            (group / "cgroup.procs").write_text("0")
        full, start = "%s-%s" % (place, name), time.monotonic()
        print("vm: " + full, flush=True)
        with open(RESULTS / (full + ".log"), "wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT, start_new_session=True,
                                       cwd=self.order["root"], env=self.environment(place),
                                       preexec_fn=enter)
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                status = process.wait()
        took = round(time.monotonic() - start, 1)
        self.steps.append({"name": full, "status": status, "seconds": took})
        (RESULTS / "steps.json").write_text(json.dumps(self.steps))
        print("vm: %s: status %d, %.1f s" % (full, status, took), flush=True)
        if status not in (0, SKIPPED):
            print((RESULTS / (full + ".log")).read_text(errors="replace")[-TAIL:], flush=True)

    def flow(self, place, name, *words):
        """pytest; its report is beside its log."""
        report = RESULTS / ("%s-%s.xml" % (place, name))
        report.touch()
        report.chmod(0o666)
        self.run(place, name, [self.order["python"], "-m", "pytest", "-q", "-p",
                               "no:cacheprovider", "-rf", "-o", "junit_family=xunit2",
                               "--junitxml=%s" % report, "--durations=10", *words])


def unit(machine):
    for name, command, seconds in machine.order["unit"]:
        for place in machine.places:
            machine.run(place, "unit-" + name, command, 20 * seconds)


def doctor(machine):
    for place in machine.places:
        machine.run(place, "doctor", [machine.order["build"] + "/fumehood", "doctor"])


def vm(machine):
    for place in machine.places:
        machine.flow(place, "vm", "test/vm/test_vm.py")


def limits(machine):
    for place in ("service", "scope"):
        machine.flow(place, "limits", "test/flow/test_limits_box.py")


def overlay(machine):
    for place in ("service", "scope"):
        machine.flow(place, "overlay", "test/flow/test_overlay.py")


def probes(machine):
    machine.flow("service", "probes", "test/flow/test_probes.py")


def sandbox(machine):
    for place in ("service", "scope"):
        machine.flow(place, "sandbox", "test/flow/test_sandbox_cli.py")


PARTS = {"unit": unit, "doctor": doctor, "vm": vm, "limits": limits, "overlay": overlay,
         "probes": probes, "sandbox": sandbox}


def main(path):
    machine = Machine(json.loads(pathlib.Path(path).read_text()))
    for name in machine.order["parts"]:
        PARTS[name](machine)


if __name__ == "__main__":
    main(sys.argv[1])
