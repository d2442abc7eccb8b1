"""Pools as a keeper meets them: connections, and the private runtime directory of a test of pools.

FUMEHOOD_BUILD names the build directory; zygotes are test/data/zygote_fake.py.
"""
import array
import concurrent.futures
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import time

BUILD = pathlib.Path(os.environ["FUMEHOOD_BUILD"]).resolve()
DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
HEADER = struct.Struct("=BBHI")
ENTER = struct.Struct("=BBHIQQQQQ64s")
FDS, FDS_MIN = 17, 4
WAIT_S = 20  # for what takes milliseconds on an idle machine


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(what, wait_s=WAIT_S):
    """Waits for a condition; the bound is for a broken product, not a measurement."""
    end = time.monotonic() + wait_s
    while not (result := what()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)
    return result


class Keeper:
    """A connection to a pool."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(WAIT_S)
        self.sock.connect(str(path))

    def receive(self):
        """(letter, cell, body), or None at the end."""
        try:
            data = self.sock.recv(65536)
        except ConnectionResetError:
            return None
        if not data:
            return None
        kind, _flags, _reserved, cell = HEADER.unpack_from(data)
        text = data[HEADER.size:]
        return chr(kind), cell, json.loads(text) if text else None

    def order(self, cell=1, count=FDS, pad=b""):
        """Sends ZYGOTE_ENTER; returns the read ends of stdout and stderr."""
        out, out_w = os.pipe()
        err, err_w = os.pipe()
        null = os.open("/dev/null", os.O_RDONLY)
        fds = array.array("i", ([null, out_w, err_w] + [null] * FDS)[:count])
        message = ENTER.pack(ord("E"), 0, 0, cell, 0, 0, 0, 0, 0, b"/workspace") + pad
        try:
            self.sock.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        finally:
            for fd in (out_w, err_w, null):
                os.close(fd)
        return out, err

    def held(self, cell):
        """Gives an order to a zygote that never answers, and waits until it has it."""
        ends = self.order(cell)
        assert os.read(ends[0], 100) == b"held"
        return ends

    def drop(self, *ends):
        for fd in ends:
            os.close(fd)

    def guest(self, cell=1, count=FDS):
        """Orders a guest and gets it."""
        out, err = self.order(cell, count)
        assert self.receive() == ("e", cell, None)
        assert os.read(out, 100) == b"out %d of %d" % (cell, count)
        assert os.read(err, 100) == b"err"
        # The pool has closed its copies: the fake zygote was the last one that held them.
        assert os.read(out, 100) == b"" and os.read(err, 100) == b""
        self.drop(out, err)

    def close(self):
        self.sock.close()


class House:
    """A runtime directory, a libexec directory with the fake zygote, and what runs in them."""

    def __init__(self, folder):
        self.folder = folder
        self.run = folder / "run"
        self.libexec = folder / "libexec"
        self.guest = self.libexec / "python" / "fumehood_guest"
        self.state = folder / "state"
        for path in (self.run, self.guest, self.state):
            path.mkdir(parents=True)
        self.run.chmod(0o700)
        (self.libexec / "fumehood-pool").symlink_to(BUILD / "fumehood-pool")
        shutil.copy(DATA / "zygote_fake.py", self.guest / "zygote.py")
        self.fake()
        self.env = {
            "PATH": "/usr/bin:/bin", "HOME": str(folder), "XDG_RUNTIME_DIR": str(self.run),
            "FUMEHOOD_LIBEXEC": str(self.libexec), "SECRET": "not for guests",
        }
        self.python = self.probe("resolve", "/usr/bin/python3").strip()
        self.names = self.probe("names", self.python).split()
        self.pids = set()

    @property
    def files(self):
        return self.run / "fumehood"

    @property
    def socket(self):
        return self.files / self.names[0]

    def fake(self, **config):
        """Written in place: a new file would be a change of the environment."""
        with open(self.guest / "fake.json", "w") as file:
            json.dump({"state": str(self.state), **config}, file)

    def command(self, *args, **env):
        return subprocess.run([BUILD / "src/pool/pool_probe", *args], env={**self.env, **env},
                              text=True, capture_output=True, timeout=60, check=False)

    def probe(self, *args, **env):
        done = self.command(*args, **env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def environment(self):
        body = json.loads(self.probe("environment", self.python))
        self.status()
        return body

    def environments(self, count):
        """What `count` keepers are told that ask at the same time."""
        with concurrent.futures.ThreadPoolExecutor(count) as workers:
            texts = workers.map(lambda _: self.probe("environment", self.python), range(count))
            return [json.loads(text) for text in texts]

    def list(self):
        pools = json.loads(self.probe("list"))
        for pool in pools:
            self.pids.add(pool["pid"])
        return pools

    def status(self):
        pools = self.list()
        assert len(pools) == 1
        return pools[0]

    def by_hand(self, *args):
        """A pool that is our own child, listening."""
        command = [BUILD / "fumehood-pool", "--python", self.python, *args]
        pool = subprocess.Popen(command, env=self.env)
        self.pids.add(pool.pid)
        until(self.listens)
        return pool

    def listens(self):
        try:
            self.keeper().close()
            return True
        except (FileNotFoundError, ConnectionRefusedError):
            return False

    def starts(self):
        """Pids of all fake zygotes so far, in no order."""
        return {int(name) for name in os.listdir(self.state) if not name.startswith(".")}

    def log(self):
        return (self.files / self.names[2]).read_text()

    def keeper(self):
        return Keeper(self.socket)

    def end(self):
        self.probe("stop")
        self.count()

    def count(self):
        """Nothing is left."""
        until(lambda: not any(alive(pid) for pid in self.pids | self.starts()))
        left = sorted(path.name for path in self.files.iterdir()) if self.files.exists() else []
        assert [name for name in left if not name.endswith(".log")] == []
