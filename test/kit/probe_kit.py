"""Runs the probes: in a session, and outside as a control. Used by test/flow/test_probes.py.

World    a user with a home, services (probe_target.py) and sessions of a certain tier
Tried    what each probe gave in both places

The user's programs are copied to a place that any user can read, since a build directory may lie in
somebody's home. Each world is closed before its results are compared, so a failed comparison leaves
nothing running.
"""
import collections
import ctypes
import hashlib
import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess

from fumehood_kit import BUILD, FUMEHOOD, PYTHON, WAIT_S, House
from probe_table import PROBES

KIT = pathlib.Path(__file__).resolve().parent
# Nobody's: it has no entry in passwd and no process. Another one for each run, since limits count
# all that a user runs, also what another run has started.
ORDINARY_UID = 60000 + os.getpid() % 4000
INTERPRETER = "/usr/bin/python3"  # that of the tests may lie in a home
READ_ONLY = "/usr/lib/os-release"
# The counter of user namespaces at 0 for what is started here, and none of what could raise it.
WITHOUT_NAMESPACES = (
    "unshare", "-U", "--map-current-user", "--keep-caps", "sh", "-c",
    'echo 0 > /proc/sys/user/max_user_namespaces && '
    'exec setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all -- "$@"', "sh")
# Of each: the user (0: root itself), the tier, options, and what the program is started by.
WORLDS = {
    "root": (0, "full", (), ()),
    "user": (ORDINARY_UID, "full", (), ()),
    "degraded": (ORDINARY_UID, "degraded", ("--tier", "degraded"), ()),
    "counter": (ORDINARY_UID, "degraded", (), WITHOUT_NAMESPACES),
}
CONTROL = """
import json, sys
order = json.load(sys.stdin)
T = order["targets"]
exec(order["words"])
results = []
for code in order["codes"]:
    exec(code)
    signal.alarm(60)
    results.append(fork(probe))
print(json.dumps(results))
"""

Tried = collections.namedtuple("Tried", "probe inside outside")


class UserHouse(House):
    """A house of another user, whose programs lie in it too."""

    def __init__(self, uid, wrap=(), **environment):
        super().__init__(python=PYTHON if uid is None else INTERPRETER, **environment)
        self.uid, self.wrap, self.leaked = uid, wrap, []
        self.program = FUMEHOOD
        if uid is not None:
            self.copy_programs()
            self.give()

    def copy_programs(self):
        place = self.dir / "libexec"
        place.mkdir()
        for name in ("fumehood", "fumehood-keeper", "fumehood-pool", "fumehood-zip"):
            shutil.copy(BUILD / name, place)
        shutil.copytree(BUILD / "python", place / "python")
        self.program = str(place / "fumehood")
        self.env["FUMEHOOD_LIBEXEC"] = str(place)

    def give(self):
        """Everything to the user."""
        for top, folders, files in os.walk(self.dir):
            for name in (".", *folders, *files):
                os.chown(os.path.join(top, name), self.uid, self.uid, follow_symlinks=False)

    def identity(self):
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.uid, "extra_groups": []}

    def popen(self, *args, cwd=None, env=None, **rest):
        return subprocess.Popen([*self.wrap, self.program, *args], cwd=cwd or self.dir / "work",
                                env={**self.env, **(env or {})}, pass_fds=self.leaked,
                                **self.identity(), **rest)


class Target:
    """probe_target.py, running as the user."""

    def __init__(self, house, secret):
        self.process = subprocess.Popen(
            [INTERPRETER, "-I", "-S", str(house.dir / "target.py"),
             str(house.dir / "run"), secret],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=house.env,
            start_new_session=True, cwd=house.dir, **house.identity())
        self.places = json.loads(self.process.stdout.readline())

    def reached(self):
        """The names of the services that somebody has come to since the start."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return set(json.loads(self.process.stdout.readline()))

    def close(self):
        self.process.stdin.close()
        self.process.wait(WAIT_S)
        self.process.stdout.close()


def own_address():
    """The address that others know this machine by."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.2"
        return sock.getsockname()[0]


def source_of(code):
    """A probe's code as a function."""
    return "def probe():\n" + "".join("    %s\n" % line for line in code.split("\n"))


class World:
    """A user, a home with secrets, and what stands round a session."""

    def __init__(self, uid, options=(), wrap=()):
        self.options, self.secret = options, secrets.token_hex(16)
        self.house = UserHouse(uid, wrap, FUMEHOOD_PROBE_TOKEN=self.secret)
        self.folder, self.outside = self.house.folder(), self.house.folder()
        self.make_home()
        self.target = Target(self.house, self.secret)
        self.t = {**self.target.places, **self.places()}

    def make_home(self):
        house = self.house
        self.home = house.dir / "home"
        (self.home / ".ssh").mkdir(parents=True)
        for path in (self.home / ".ssh" / "id_rsa", self.home / "moved",
                     self.folder.parent / "beside"):
            path.write_text(self.secret)
            path.chmod(0o600)
        shutil.copy("/bin/true", self.home / "program")
        shutil.copy(KIT / "probe_target.py", house.dir / "target.py")
        if house.uid is not None:
            house.give()
        self.home.chmod(0o700)
        for folder in (house.dir, self.folder, self.outside):
            shutil.copy("/usr/bin/id", folder / "setuid-id")
            (folder / "setuid-id").chmod(0o4755)
            if house.uid is not None:
                os.chown(folder / "setuid-id", 0, 0)
                (folder / "setuid-id").chmod(0o4755)

    def places(self):
        house, home = self.house, self.home
        return {"house": str(house.dir), "home": str(home), "secret": str(home / ".ssh" / "id_rsa"),
                "moved": str(home / "moved"), "beside": str(self.folder.parent / "beside"),
                "program": str(home / "program"), "token": self.secret, "address": own_address(),
                "state": str(house.dir / "state"), "run": str(house.dir / "run"),
                "read_only": READ_ONLY, "setuid": str(house.dir / "setuid-id"),
                "leaked": [[status.st_dev, status.st_ino] for status in
                           (os.stat(home), os.stat(home / ".ssh" / "id_rsa"))]}

    # ---- inside

    def session(self):
        """A session, started by somebody who has left descriptors open."""
        for path in (self.home, self.home / ".ssh" / "id_rsa"):
            self.house.leaked.append(os.open(path, os.O_RDONLY))
        try:
            return self.house.pipe("--workspace", str(self.folder), *self.options)
        finally:
            for fd in self.house.leaked:
                os.close(fd)
            self.house.leaked = []

    def try_inside(self, pipe, codes):
        """The words of all, from one session; a guest that has died is begun with again."""
        words = []
        first = "T = %r\n%s" % (self.t, (KIT / "probe_inside.py").read_text())
        begun = pipe.run(first)
        assert begun.status == "ok", begun
        for code in codes:
            cell = pipe.run(source_of(code) + "print('word:' + attempt(probe))")
            if cell.status == "died":
                words.append("died")
                assert pipe.run(first).status == "ok"
            else:
                assert "word:" in cell.out, (code, cell)
                words.append(cell.out.rpartition("word:")[2].strip())
        # whatever has been tried, the session must still be one
        assert pipe.run("print(6 * 7)").out == "42\n"
        return words

    # ---- outside

    def try_outside(self, codes):
        order = {"targets": {**self.t, "outside": True},
                 "words": (KIT / "probe_inside.py").read_text(),
                 "codes": [source_of(code) for code in codes]}
        leaked = [os.open(path, os.O_RDONLY)
                  for path in (self.home, self.home / ".ssh" / "id_rsa")]
        try:
            ended = subprocess.run([INTERPRETER, "-I", "-S", "-c", CONTROL],
                                   input=json.dumps(order), capture_output=True,
                                   text=True, cwd=self.outside,
                                   env=self.house.env, timeout=4 * WAIT_S, pass_fds=leaked,
                                   start_new_session=True, **self.house.identity())
        finally:
            for fd in leaked:
                os.close(fd)
        assert ended.returncode == 0, ended
        return json.loads(ended.stdout)

    # ---- both

    def run(self):
        """Tried of every probe; nothing is left open afterwards but the house."""
        codes = [probe.code for probe in PROBES]
        with self.session() as pipe:
            self.tier = pipe.hello["tier"]
            self.t.update(keeper=str(self.house.runtime / (pipe.hello["session"] + ".sock")),
                          keeper_pid=pipe.hello["pid"], outside=False)
            inside = self.try_inside(pipe, codes)
            came = self.target.reached()
            outside = self.try_outside(codes)
            came_outside = self.target.reached()
        tried = []
        for probe, ours, theirs in zip(PROBES, inside, outside):
            if probe.effect:
                ours = "open" if probe.effect in came else ours
                theirs = "open" if probe.effect in came_outside and theirs in ("open", "sent") \
                    else theirs
            tried.append(Tried(probe, ours, theirs))
        return tried

    def close(self):
        """Complaints."""
        self.target.close()
        return self.house.close()


def why_not(tier):
    """Why sessions of this tier cannot be probed on this machine; None: they can."""
    if os.geteuid() != 0:
        return "needs root, to become each of the users"
    if os.uname().machine != "x86_64":
        return "cannot simulate x86-64, whose system calls the probes name"
    if tier == "degraded" and ctypes.CDLL(None).syscall(444, None, 0, 1) < 6:
        return "tier degraded needs Landlock ABI 6"
    return None


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
