"""What no probe is to reach: services, a process with secrets, objects in shared memory.

Started as the user whose session is probed: `python3 -I probe_target.py FOLDER SECRET`. Prints one
line of JSON, the addresses of everything, and then answers each line of stdin with the names of
what has been reached since the start. So "never arrived" is what the service says, not what the
probe believes: each service tells by a name of its own. Ends at the end of stdin, and takes with it
what would outlive it.
"""
import ctypes
import json
import os
import selectors
import signal
import socket
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
IPC_CREAT, IPC_RMID, SHM_BYTES = 0o1000, 0, 4096
MPTCP = 262


class Services:
    """Sockets that tell who has come."""

    def __init__(self):
        self.selector, self.reached = selectors.DefaultSelector(), set()

    def add(self, name, sock, address):
        sock.bind(address)
        if sock.type != socket.SOCK_DGRAM:
            sock.listen(50)
        sock.setblocking(False)
        self.selector.register(sock, selectors.EVENT_READ, name)
        return sock.getsockname()

    def serve(self, sock, name):
        self.reached.add(name)
        if sock.type == socket.SOCK_DGRAM:
            sock.recv(1 << 16)
            return
        with sock.accept()[0] as peer:
            try:
                peer.sendall(b"reached")
            except OSError:  # it did not wait for the answer
                pass


def make_sockets(services, folder):
    """{name: address} of all; None where this machine has no such thing."""
    found = {}
    for name, family, kind, protocol, address in (
            ("tcp", socket.AF_INET, socket.SOCK_STREAM, 0, ("127.0.0.1", 0)),
            ("mptcp", socket.AF_INET, socket.SOCK_STREAM, MPTCP, ("127.0.0.1", 0)),
            ("tcp6", socket.AF_INET6, socket.SOCK_STREAM, 0, ("::1", 0)),
            ("any", socket.AF_INET, socket.SOCK_STREAM, 0, ("0.0.0.0", 0)),
            ("udp", socket.AF_INET, socket.SOCK_DGRAM, 0, ("127.0.0.1", 0)),
            ("abstract", socket.AF_UNIX, socket.SOCK_STREAM, 0,
             "\0fumehood-probe-%d" % os.getpid()),
            ("abstract_datagram", socket.AF_UNIX, socket.SOCK_DGRAM, 0,
             "\0fumehood-probe-d-%d" % os.getpid()),
            ("stream", socket.AF_UNIX, socket.SOCK_STREAM, 0, folder + "/stream"),
            ("packet", socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, folder + "/packet"),
            ("datagram", socket.AF_UNIX, socket.SOCK_DGRAM, 0, folder + "/datagram")):
        try:
            bound = services.add(name, socket.socket(family, kind, protocol), address)
        except OSError:
            found[name] = None
            continue
        if isinstance(bound, bytes):
            bound = bound.decode()
        found[name] = bound[1] if isinstance(bound, tuple) else bound
    return found


class Shared:
    """Objects that belong to no process: System V and POSIX shared memory."""

    def __init__(self, secret):
        self.key = 0x46480000 + os.getpid() % 0x10000
        LIBC.shmat.restype = ctypes.c_void_p
        self.shm = LIBC.shmget(self.key, SHM_BYTES, IPC_CREAT | 0o600)
        place = LIBC.shmat(self.shm, None, 0)
        ctypes.memmove(place, secret, len(secret))
        self.sem = LIBC.semget(self.key, 1, IPC_CREAT | 0o600)
        self.msg = LIBC.msgget(self.key, IPC_CREAT | 0o600)
        self.file = "/dev/shm/fumehood-probe-%d" % os.getpid()
        with open(self.file, "wb") as file:
            file.write(secret)

    def remove(self):
        LIBC.shmctl(self.shm, IPC_RMID, None)
        LIBC.semctl(self.sem, 0, IPC_RMID)
        LIBC.msgctl(self.msg, IPC_RMID, None)
        os.unlink(self.file)


def main(folder, secret):
    services = Services()
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGIO, signal.SIGURG, signal.SIGRTMIN):
        signal.signal(number, lambda number, _: services.reached.add("signal"))
    kept = bytearray(secret.encode())  # the secret in memory
    at = ctypes.addressof(ctypes.c_char.from_buffer(kept))
    targets = make_sockets(services, folder)
    shared = Shared(bytes(kept))
    targets.update(pid=os.getpid(), secret_at=at, secret_bytes=len(kept), shm_key=shared.key,
                   shm_id=shared.shm, sem_id=shared.sem, msg_id=shared.msg, shm_file=shared.file)
    print(json.dumps(targets), flush=True)
    services.selector.register(sys.stdin, selectors.EVENT_READ, None)
    try:
        while True:
            for key, _ in services.selector.select():
                if key.data:
                    services.serve(key.fileobj, key.data)
                elif sys.stdin.readline():
                    print(json.dumps(sorted(services.reached)), flush=True)
                else:
                    return
    finally:
        shared.remove()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
