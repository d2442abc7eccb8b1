"""A stand-in for the zygote, for tests of the pool: it speaks the zygote's messages and does as
fake.json beside it says.

    mode          ready, failed, die, hang, deaf (reads nothing after READY), wrong (another
                  protocol), memfd
    answer        entered, refused, die (with the order in hand), never, noise (something first)
    ready_s       seconds before READY (the test needs a window, not a speed)
    words         written to stderr at the start
    paths         for READY
    state         a folder: one file a start is put into it, named by the pid, with what the process
                  was given

It uses the standard library only, as the real one does.
"""
import array
import json
import os
import socket
import struct
import sys
import time

HEADER = struct.Struct("=BBHI")
HERE = os.path.dirname(os.path.abspath(__file__))


def send(sock, kind, body=None, cell=0, flags=0):
    text = b"" if body is None else json.dumps(body).encode()
    sock.send(HEADER.pack(ord(kind), flags, 0, cell) + text)


def receive(sock):
    """One message and its descriptors; b"" at the end."""
    data, control, _flags, _ = sock.recvmsg(65536, socket.CMSG_SPACE(20 * 4))
    fds = array.array("i")
    for level, kind, payload in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    return data, list(fds)


def record(config):
    given = {
        "argv": sys.argv, "environ": dict(os.environ), "cwd": os.getcwd(),
        "fds": sorted(map(int, os.listdir("/proc/self/fd"))),
        "isolated": sys.flags.isolated, "utf8": sys.flags.utf8_mode,
        "unbuffered": sys.stdout.write_through,
        "stdin": os.readlink("/proc/self/fd/0"), "sid": os.getsid(0),
    }
    partial = os.path.join(config["state"], ".%d" % os.getpid())
    with open(partial, "w") as file:
        json.dump(given, file)
    os.rename(partial, os.path.join(config["state"], str(os.getpid())))


def say(fd, text):
    try:
        os.write(fd, text)
    except BrokenPipeError:
        pass  # a keeper that has gone


def enter(sock, config, data, fds):
    kind = config.get("answer", "entered")
    cell = HEADER.unpack_from(data)[3]
    if kind == "die":
        os._exit(7)
    if kind == "never":
        say(fds[1], b"held")
        return
    if kind == "noise":
        sock.send(b"x")
        send(sock, "Q", {"what": "ever"})
    if kind == "refused":
        send(sock, "f", {"message": "no", "step": "setns mnt", "errno": 1}, cell)
    else:
        # Proof that the descriptors are the keeper's own, in its order.
        say(fds[1], b"out %d of %d" % (cell, len(fds)))
        say(fds[2], b"err")
        send(sock, "e", None, cell)
    for fd in fds:
        os.close(fd)


def main():
    with open(os.path.join(HERE, "fake.json")) as file:
        config = json.load(file)
    record(config)
    sys.stderr.write(config.get("words", ""))
    sys.stderr.flush()
    time.sleep(config.get("ready_s", 0))
    sock = socket.socket(fileno=3)
    mode = config.get("mode", "ready")
    if mode == "die":
        sys.exit(3)
    if mode == "hang":
        time.sleep(3600)
    if mode == "failed":
        send(sock, "F", {"message": "numpy is broken"})
        sys.exit(1)
    send(sock, "R", {
        "protocol": 99 if mode == "wrong" else 1, "python": sys.version.split()[0],
        "executable": sys.executable, "prefix": sys.prefix, "base_prefix": sys.base_prefix,
        "paths": config.get("paths", []), "modules": {}, "skipped": {}, "threads": 1,
        "pid": os.getpid(),
    }, flags=1 if mode == "memfd" else 0)
    if mode == "deaf":
        time.sleep(3600)
    while True:
        data, fds = receive(sock)
        if not data:
            return
        with open(os.path.join(HERE, "fake.json")) as file:
            config = json.load(file)
        enter(sock, config, data, fds)


main()
