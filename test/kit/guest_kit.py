"""A small keeper in Python: starts a guest, runs cells and collects what they say, in exact order.

It speaks src/guest/protocol.h from the other side and follows the reading rule of
doc/protocol-guest.md (FIONREAD first, then the control socket, then at most that many bytes), so a
test that checks an order checks the guest. No box is needed for a cold guest; Box makes a bare set
of namespaces for the tests of entering.
"""
import array
import codecs
import fcntl
import json
import mmap
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import time

HEADER = struct.Struct("=BBHI")
MEMFD, ALLOW_STDIN, STDERR, PASSWORD, EOF, WAIT = 1, 2, 4, 8, 16, 32
SEALS = 15  # F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE
F_ADD_SEALS, F_GET_SEALS = 1033, 1034
INLINE_MAX = 60 * 1024
ASK_BIT = 1 << 31
NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")


def send(sock, kind, flags=0, cell=0, body=b"", fds=()):
    if len(body) > INLINE_MAX:
        memfd = os.memfd_create("body", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        view = memoryview(body)
        while view:
            view = view[os.write(memfd, view):]
        fcntl.fcntl(memfd, F_ADD_SEALS, SEALS)
        body, fds, flags = b"", (memfd,), flags | MEMFD
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([HEADER.pack(ord(kind), flags, 0, cell) + body], ancillary)
    if flags & MEMFD:
        os.close(fds[0])


def receive(sock, wait=True):
    """(kind, flags, cell, body, fds), None at end of file; BlockingIOError when there is
    nothing."""
    try:
        data, ancillary, flags, _ = sock.recvmsg(65536, socket.CMSG_SPACE(64),
                                                 0 if wait else socket.MSG_DONTWAIT)
    except ConnectionResetError:
        return None
    assert not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
    fds = array.array("i")
    for level, kind, part in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(part)
    if not data:
        return None
    kind, bits, reserved, cell = HEADER.unpack(data[:HEADER.size])
    assert reserved == 0
    body, fds = data[HEADER.size:], list(fds)
    if bits & MEMFD:
        memfd = fds.pop(0)
        assert fcntl.fcntl(memfd, F_GET_SEALS) == SEALS, "body is not sealed"
        body = os.pread(memfd, os.fstat(memfd).st_size, 0)
        os.close(memfd)
    return chr(kind), bits, cell, body, fds


def pending(fd):
    return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0]


class Died(Exception):
    """The guest has closed its control socket."""


class Cell:
    """What one cell has said: `events` in order, and the usual views of them."""

    def __init__(self, number):
        self.number = number
        self.events = []
        self.status = None
        self.count = None
        self.seconds = None

    def text(self, name):
        return "".join("".join(e["parts"]) for e in self.events
                       if e["type"] == "stream" and e["name"] == name)

    @property
    def stdout(self):
        return self.text("stdout")

    @property
    def stderr(self):
        return self.text("stderr")

    def of(self, kind):
        return [e for e in self.events if e["type"] == kind]

    @property
    def result(self):
        found = self.of("result")
        return found[-1]["data"].get("text/plain") if found else None

    @property
    def error(self):
        found = self.of("error")
        return found[-1] if found else None

    @property
    def traceback(self):
        return "\n".join(self.error["traceback"])


class Guest:
    """A keeper's side of one guest: its descriptors, and the loop that reads them."""

    def __init__(self):
        self.control, self.guest_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.out, self.guest_out = os.pipe()
        self.err, self.guest_err = os.pipe()
        self.word_fd = os.memfd_create("word", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.word_fd, 4096)
        self.word = mmap.mmap(self.word_fd, 4096)
        for fd in (self.out, self.err):
            os.set_blocking(fd, False)
        decoder = codecs.getincrementaldecoder("utf-8")
        self.decoders = {fd: decoder("replace") for fd in (self.out, self.err)}
        self.cell = Cell(0)
        self.late = []         # (cell, name, text): tagged messages
        self.hello = None
        self.pidfd = None
        self.answers = None    # None: nobody can answer
        self.number = 0
        self.asked, self.answered = 0, None
        self.eof = False

    def guest_fds(self):
        """Control, stdout, stderr, word, in the order of enum zygote_fd."""
        return [self.guest_control.fileno(), self.guest_out, self.guest_err, self.word_fd]

    def handed_over(self):
        """The guest's ends are only the guest's from now on."""
        self.guest_control.close()
        os.close(self.guest_out)
        os.close(self.guest_err)

    # ---- reading

    def _read(self, fd, limit):
        while limit > 0:
            try:
                data = os.read(fd, min(limit, 1 << 20))
            except BlockingIOError:
                return
            if not data:
                return
            limit -= len(data)
            text = self.decoders[fd].decode(data)
            if text:
                self._stream("stdout" if fd == self.out else "stderr", text)

    def _stream(self, name, text):
        events = self.cell.events
        if events and events[-1]["type"] == "stream" and events[-1]["name"] == name:
            events[-1]["parts"].append(text)
        else:
            events.append({"type": "stream", "name": name, "parts": [text]})

    def turn(self, timeout):
        """One turn of the loop: waits, then reads in the order that keeps the guest's order."""
        poller = select.poll()
        for fd in (self.control.fileno(), self.out, self.err):
            poller.register(fd, select.POLLIN)
        if not poller.poll(max(0, timeout) * 1000):
            return
        bytes_out, bytes_err = pending(self.out), pending(self.err)
        done = None
        while not self.eof and done is None:
            try:
                message = receive(self.control, wait=False)
            except BlockingIOError:
                break
            if message is None:
                self.eof = True
                break
            if message[0] == "D":
                done = message
            else:
                self._message(*message)
        if done is not None or self.eof:
            bytes_out, bytes_err = pending(self.out), pending(self.err)
        self._read(self.out, bytes_out)
        self._read(self.err, bytes_err)
        if done is not None:
            self._message(*done)

    def _message(self, kind, flags, cell, body, fds):
        if kind == "H":
            self.hello = json.loads(body)
            self.pidfd, = fds
            return
        assert not fds
        if kind == "t":
            self.late.append((cell, "stderr" if flags & STDERR else "stdout", body.decode()))
        elif kind == "I":
            self.cell.events.append({"type": "input_request", "prompt": body.decode(),
                                     "password": bool(flags & PASSWORD)})
            if self.answers is not None and self.answers != "open":
                if self.answers:
                    self.answer(self.answers.pop(0))
                else:
                    self.answer(None)
        elif kind == "w":
            pass  # it waits for empty pipes; this keeper never lets it wait on purpose
        elif kind == "c":
            self.cell.events.append({"type": "clear", "wait": bool(flags & WAIT)})
        elif kind == "a":
            assert cell == self.asked
            self.answered = json.loads(body)
        elif kind == "D":
            value = json.loads(body)
            assert cell == self.cell.number
            self.cell.status, self.cell.count = value["status"], value["execution_count"]
        else:
            name = {"d": "display", "u": "update_display", "r": "result", "x": "error"}[kind]
            value = json.loads(body, parse_constant=lambda text: 1 / 0)
            self.cell.events.append(dict(value, type=name, of=cell))

    # ---- commands

    def answer(self, text):
        send(self.control, "i", EOF if text is None else 0, self.cell.number, (text or "").encode())

    def start_cell(self, code, answers=None):
        self.number += 1
        self.cell = Cell(self.number)
        self.answers = answers
        self.began = time.monotonic()
        send(self.control, "X", ALLOW_STDIN if answers is not None else 0, self.number,
             code.encode("utf-8", "surrogatepass"))
        return self.cell

    def wait(self, condition, timeout=20):
        """Reads until condition() is true."""
        end = time.monotonic() + timeout
        while not condition():
            if self.eof:
                raise Died
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError("guest said so far: %r" % (self.cell.events,))
            self.turn(left)

    def finish(self, timeout=20):
        cell = self.cell
        self.wait(lambda: cell.status is not None, timeout)
        cell.seconds = time.monotonic() - self.began
        return cell

    def run(self, code, answers=None, timeout=20):
        self.start_cell(code, answers)
        return self.finish(timeout)

    def ask(self, op, timeout=20, **question):
        """Puts a question to the guest and returns its answer."""
        self.start_ask(op, **question)
        self.wait(lambda: self.answered is not None, timeout)
        return self.answered

    def start_ask(self, op, **question):
        self.asked = ASK_BIT | (self.asked + 1 & ~ASK_BIT)
        self.answered = None
        send(self.control, "A", 0, self.asked, json.dumps(dict(question, op=op)).encode())

    def set_word(self, cell):
        self.word[:4] = struct.pack("=I", cell)

    def interrupt(self, cell=None, group=None):
        """As the keeper does it: the word, then the signal to the guest's process group."""
        self.set_word(self.number if cell is None else cell)
        os.killpg(group or self.group, signal.SIGINT)

    def wait_exit(self, timeout=10):
        """Waits for the guest's end by its pidfd."""
        return bool(select.select([self.pidfd], [], [], timeout)[0])

    def close(self):
        self.control.close()
        for fd in (self.out, self.err, self.word_fd, self.pidfd):
            if fd is not None:
                os.close(fd)
        self.word.close()


class ColdGuest(Guest):
    """`python -I cold.py cold`, as the box's init starts it, but without a box."""

    def __init__(self, python, package, workspace=None, ignore_sigint=False, env=None):
        super().__init__()
        self.own_workspace = workspace is None
        self.workspace = workspace or tempfile.mkdtemp(prefix="guest-")
        null = os.open("/dev/null", os.O_RDWR)
        fds = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 50) for fd in
               (null, self.guest_out, self.guest_err, self.guest_control.fileno(), self.word_fd)]
        os.close(null)
        argv = [python, "-I", os.path.join(package, "cold.py"), "cold"]
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                os.chdir(self.workspace)
                signal.signal(signal.SIGINT, signal.SIG_IGN if ignore_sigint else signal.SIG_DFL)
                for number, fd in enumerate(fds):
                    os.dup2(fd, number)
                os.closerange(len(fds), 4096)  # what whoever runs the tests has left open
                os.execve(python, argv, env or {"LANG": "C.UTF-8"})
            finally:
                os._exit(127)
        for fd in fds:
            os.close(fd)
        self.group = self.pid
        self.handed_over()
        self.wait(lambda: self.hello is not None)

    def close(self):
        """Ends the guest by end of file and returns its wait status."""
        self.control.shutdown(socket.SHUT_RDWR)
        if not select.select([self.pidfd], [], [], 5)[0]:
            os.killpg(self.group, signal.SIGKILL)
        status = os.waitpid(self.pid, 0)[1]
        super().close()
        if self.own_workspace:
            shutil.rmtree(self.workspace, ignore_errors=True)
        return status


# ---------------------------------------------------------------- zygote and box

class Zygote:
    """A zygote, and the pool's end of its socket."""

    def __init__(self, python, package, options=None, env=None):
        self.sock, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        source = fcntl.fcntl(other.fileno(), fcntl.F_DUPFD_CLOEXEC, 50)
        argv = [python, "-I", "-u", os.path.join(package, "zygote.py")]
        if options is not None:
            argv.append(json.dumps(options))
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.dup2(source, 3)
                os.execve(python, argv, dict({"LANG": "C.UTF-8"}, **(env or {})))
            finally:
                os._exit(127)
        os.close(source)
        other.close()
        self.kind, _, _, body, _ = receive(self.sock)
        self.ready = json.loads(body)

    def enter(self, box, workspace="/workspace", processes=0, files=0, file_bytes=0, guest=None):
        """A new guest in the box. Returns (guest or None, kind of the answer, its body)."""
        guest = guest or Guest()
        body = struct.pack("=QQQQQ64s", processes, files, file_bytes, 0, 0, workspace.encode())
        everything = filter_that_allows()
        send(self.sock, "E", 0, 7, body,
             guest.guest_fds() + box.namespace_fds + [everything] * 6)
        os.close(everything)
        guest.handed_over()
        kind, _, cell, body, _ = receive(self.sock)
        assert cell == 7
        if kind == "e":
            guest.wait(lambda: guest.hello is not None)
            with open("/proc/self/fdinfo/%d" % guest.pidfd, encoding="ascii") as file:
                pids = dict(line.split(":", 1) for line in file if ":" in line)
            guest.pid = guest.group = int(pids["Pid"])
        return guest, kind, json.loads(body) if body else None

    def close(self):
        """Ends it by end of file and returns its wait status."""
        self.sock.close()
        return os.waitpid(self.pid, 0)[1]


def filter_that_allows():
    """A memfd of the shortest system call filter: BPF_RET | BPF_K, SECCOMP_RET_ALLOW."""
    fd = os.memfd_create("filter")
    os.write(fd, struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000))
    return fd


BOX_INIT = """
import os, signal, sys
os.makedirs(sys.argv[1], exist_ok=True)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
print("ready", flush=True)
while True:
    signal.sigwait([signal.SIGCHLD])
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid: break
            print(pid, status, flush=True)
    except ChildProcessError:
        pass
"""


class Box:
    """Seven namespaces with a reaping PID 1 that reports each exit as a line; no lockdown of any
    kind."""

    maps = ["--map-user=1000", "--map-group=1000", "--mount-proc"]

    def __init__(self, workspace):
        self.workspace = workspace
        self.process = subprocess.Popen(
            ["unshare", "--user", *self.maps, "--mount", "--pid", "--net", "--ipc", "--uts",
             "--cgroup", "--fork", "--kill-child",
             "/usr/bin/python3", "-I", "-c", BOX_INIT, workspace],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout.readline() == "ready\n", "unshare has failed"
        with open("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid),
                  encoding="ascii") as file:
            self.init = int(file.read().split()[0])
        paths = ["/proc/%d/ns/%s" % (self.init, name) for name in NAMESPACES]
        self.namespace_fds = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in paths]

    def next_exit(self):
        """(pid inside, status) of the next child that PID 1 has reaped."""
        return tuple(map(int, self.process.stdout.readline().split()))

    def close(self):
        for fd in self.namespace_fds:
            os.close(fd)
        os.kill(self.init, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


class MappedBox(Box):
    """A box whose uid 1000 is a host uid of its own, as a keeper run by root makes it."""

    maps = []

    def __init__(self, workspace, uid):
        super().__init__(workspace)
        for name in ("uid_map", "gid_map"):
            with open("/proc/%d/%s" % (self.init, name), "w", encoding="ascii") as file:
                file.write("1000 %d 1" % uid)
