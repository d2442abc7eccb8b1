"""System calls made by another process: what a program could do that somebody has taken over.

taken(pid)   a context: the process is stopped, `call` makes it call, and then it goes on as if
             nothing had happened

Root's ptrace(2), x86-64 only: the registers are put so that the `syscall` instruction at which the
process waits is executed once more, with other numbers. Texts are put on its stack, far below what
is in use.
"""
import contextlib
import ctypes
import errno
import os
import platform
import signal
import time

from process_kit import WAIT_S

HERE = platform.machine() == "x86_64" and os.geteuid() == 0
GETREGS, SETREGS, SINGLESTEP, DETACH, SEIZE, INTERRUPT = 12, 13, 9, 17, 0x4206, 0x4207
# struct user_regs_struct
NAMES = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss "
         "fs_base gs_base ds es fs gs").split()
STACK_BELOW = 4096
NUMBERS = {"open": 2, "connect": 42, "execve": 59, "kill": 62, "rename": 82, "chmod": 90,
           "ptrace": 101, "socket": 41, "mount": 165, "getpid": 39, "close": 3, "unshare": 272,
           "bpf": 321, "keyctl": 250, "init_module": 175}

LIBC = ctypes.CDLL(None, use_errno=True)


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in NAMES]


def ptrace(request, pid, address=0, data=0):
    if LIBC.ptrace(ctypes.c_long(request), ctypes.c_long(pid), ctypes.c_void_p(address),
                   data if not isinstance(data, int) else ctypes.c_void_p(data)) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Taken:
    def __init__(self, pid):
        self.pid = pid
        self.saved = Registers()
        ptrace(GETREGS, pid, 0, ctypes.byref(self.saved))

    def waits(self):
        """Whether it waits in a system call: only there is an instruction to be used again."""
        with open("/proc/%d/mem" % self.pid, "rb") as memory:
            memory.seek(self.saved.rip - 2)
            return memory.read(2) == b"\x0f\x05"

    def call(self, name, *arguments):
        """Returns the name of the errno, or "" when it was done."""
        registers = Registers.from_buffer_copy(self.saved)
        at = self.saved.rsp - STACK_BELOW
        values = []
        with open("/proc/%d/mem" % self.pid, "r+b", buffering=0) as memory:
            for argument in arguments:
                if isinstance(argument, str):
                    at -= len(os.fsencode(argument)) + 1
                    memory.seek(at)
                    memory.write(os.fsencode(argument) + b"\0")
                    argument = at
                values.append(argument & 0xffffffffffffffff)
        for register, value in zip(("rdi", "rsi", "rdx", "r10", "r8", "r9"), values):
            setattr(registers, register, value)
        registers.rax = NUMBERS[name]
        registers.orig_rax = 0xffffffffffffffff  # nothing is to be restarted
        registers.rip -= 2
        ptrace(SETREGS, self.pid, 0, ctypes.byref(registers))
        ptrace(SINGLESTEP, self.pid)
        _, status = os.waitpid(self.pid, 0)
        assert os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGTRAP, status
        ptrace(GETREGS, self.pid, 0, ctypes.byref(registers))
        result = ctypes.c_longlong(registers.rax).value
        if result < 0:
            return errno.errorcode[-result]
        if name in ("open", "socket"):
            assert self.call("close", result) == ""
        return ""


def stop(pid):
    ptrace(SEIZE, pid)
    ptrace(INTERRUPT, pid)
    os.waitpid(pid, 0)
    return Taken(pid)


@contextlib.contextmanager
def taken(pid):
    until = time.monotonic() + WAIT_S
    process = stop(pid)
    while not process.waits():
        assert time.monotonic() < until, "process %d does not come to rest" % pid
        ptrace(DETACH, pid)
        process = stop(pid)
    try:
        yield process
    finally:
        ptrace(SETREGS, pid, 0, ctypes.byref(process.saved))
        ptrace(DETACH, pid)
