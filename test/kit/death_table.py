"""Ways to die, or nearly: cells after which a session must have the variables of before.

Way(name, code, status, reason, ...): what `finished` must say. `states`: the states of the
variables that are true of it; the tests hold the session to what is said. `options`: of the
session.
"""
import re
import textwrap

# Before each: variables, imports, functions, an open file, a working directory.
BEFORE = """
import math, os
x, text = list(range(1000)), "before"
def twice(n): return 2 * n
os.mkdir("sub"); os.chdir("sub")
kept = open("kept.txt", "w+"); kept.write("one"); kept.flush()
"""
AFTER = """
assert x == list(range(1000)) and text == "before" and twice(4) == 8 and math.pi > 3
assert os.path.basename(os.getcwd()) == "sub"
kept.write(" two"); kept.flush(); kept.seek(0)
assert kept.read().startswith("one two")
print("all is there")
"""


class Way:
    def __init__(self, name, code, status="died", reason=None, states=("recovered",), timeout=60,
                 options=(), tiers=("full", "degraded"), needs=()):
        # What the cell does before it dies must be gone.
        self.name, self.code = name, "x = text = twice = None\n" + textwrap.dedent(code)
        self.statuses = (status,) if isinstance(status, str) else status
        self.reason = re.compile(reason) if reason else None
        self.states, self.timeout, self.options = states, timeout, options
        self.tiers, self.needs = tiers, needs

    def __repr__(self):
        return self.name


SEGV, ABRT, KILL = r"^signal 11 ", r"^signal 6 ", r"^signal 9 "
CLOSED = r"^it closed descriptor 3"
DIED_OR_TIMEOUT = "died", "timeout"

WAYS = [
    Way("os._exit", "import os; os._exit(3)", reason="^exit status 3$"),
    Way("os._exit with 0", "import os; os._exit(0)", reason="^exit status 0$"),
    Way("os.abort", "import os; os.abort()", reason=ABRT),
    Way("reads at address 0", "import ctypes; ctypes.string_at(0)", reason=SEGV),
    Way("raises SIGSEGV", "import signal; signal.raise_signal(signal.SIGSEGV)", reason=SEGV),
    Way("faulthandler._sigsegv", "import faulthandler; faulthandler._sigsegv()", reason=SEGV),
    Way("illegal instruction", "import os; os.kill(os.getpid(), 4)", reason="^signal 4 "),
    Way("SIGALRM unhandled", "import signal, time; signal.alarm(1); time.sleep(60)",
        reason="^signal 14 "),
    Way("stack of C", """
        import ctypes, sys
        sys.setrecursionlimit(10 ** 9)
        kind = ctypes.CFUNCTYPE(None)
        call = kind(lambda: call())
        call()
        """, status=("died", "error"), reason=SEGV, states=("recovered", "kept")),
    Way("recursion without a limit", """
        import sys
        sys.setrecursionlimit(10 ** 9)
        class Deep:
            def __repr__(self): return repr(self)
        repr(Deep())
        """, status=("died", "error"), reason=SEGV, states=("recovered", "kept")),
    Way("kill -9 of itself", "import os; os.kill(os.getpid(), 9)", reason=KILL),
    Way("kill -9 by the shell", """
        import os, time
        os.system("kill -9 $PPID"); time.sleep(60)
        """, reason=KILL),
    Way("kill -9 -1", """
        import os
        try:
            os.kill(-1, 9)
        except PermissionError:
            print("refused")
        os.system("kill -9 -1")
        import time; time.sleep(0.1); os._exit(4)
        """, reason="^exit status 4$|" + KILL),
    Way("kill of PID 1", """
        import os
        try:
            os.kill(1, 9)
        except PermissionError:
            pass
        os._exit(5)
        """, reason="^exit status 5$"),
    Way("kill of every process by its number", """
        import os
        for pid in range(2, 200):
            if pid != os.getpid():
                try:
                    os.kill(pid, 9)
                except OSError:
                    pass
        os._exit(7)
        """, reason="^exit status 7$", states=("recovered", "reset"), tiers=("full",)),
    Way("kill of its neighbours by number", """
        import os
        for pid in range(os.getpid() - 60, os.getpid() + 60):
            if pid > 1 and pid != os.getpid():
                try:
                    os.kill(pid, 9)
                except OSError:
                    pass
        os._exit(7)
        """, reason="^exit status 7$", states=("recovered", "reset"), tiers=("degraded",)),
    Way("closes all descriptors", "import os; os.closerange(0, 4096)",
        reason=CLOSED + "|^exit status 1$"),
    Way("closes descriptor 3", "import os; os.close(3)", reason=CLOSED + "|^exit status 1$"),
    Way("becomes another program", "import os; os.execv('/bin/true', ['true'])",
        reason=CLOSED + "|^exit status 0$"),
    Way("stops itself", "import os; os.kill(os.getpid(), 19)", status="timeout", timeout=1),
    Way("holds the GIL in C for ever", """
        import ctypes, threading
        mutex = ctypes.create_string_buffer(64); lock = ctypes.PyDLL(None).pthread_mutex_lock
        def work():
            lock(mutex); lock(mutex)
        threading.Thread(target=work).start()
        """, status="timeout", timeout=1),
    Way("ignores interrupts", """
        import signal
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True: pass
        """, status="timeout", timeout=1),
    Way("swallows interrupts", """
        while True:
            try:
                while True: pass
            except BaseException:
                pass
        """, status="timeout", timeout=1, states=("recovered", "kept")),
    Way("a loop in C without a look at signals", "sum(range(10 ** 13))", status="timeout",
        timeout=1),
    Way("fork bomb", """
        import os
        while True:
            try:
                os.fork()
            except OSError:
                pass
        """, status=DIED_OR_TIMEOUT, timeout=1, options=("--processes", "60"),
        states=("recovered", "kept")),
    Way("memory bomb", """
        import itertools
        hoard = []
        for n in itertools.count(): hoard.append(bytearray(b"x") * (4 << 20))
        """, reason="^out of memory: limit memory_bytes", options=("--memory", "400M")),
    Way("memory bomb of children", """
        import os, time
        for _ in range(3):
            if os.fork() == 0:
                hoard = []
                while True: hoard.append(bytearray(b"x") * (4 << 20)); time.sleep(0.001)
        hoard = []
        while True: hoard.append(bytearray(b"x") * (4 << 20)); time.sleep(0.001)
        """, status=("died", "error"), options=("--memory", "600M"),
        states=("recovered", "kept", "reset")),
    Way("processor time of its own", """
        import resource
        resource.setrlimit(resource.RLIMIT_CPU, (1, 2))
        while True: pass
        """, reason="^signal (24|9) "),
    Way("a corrupted heap of C", """
        import ctypes
        libc = ctypes.CDLL(None); libc.malloc.restype = ctypes.c_void_p
        chunks = [libc.malloc(64) for _ in range(20)]
        for chunk in chunks: ctypes.memset(chunk - 16, 0xff, 96)
        for chunk in chunks: libc.free(ctypes.c_void_p(chunk))
        """, reason=ABRT + "|" + SEGV),
    Way("a corrupted heap of Python", """
        import ctypes, gc
        things = [bytes(100) for _ in range(10000)]
        ctypes.memset(id(things[5000]), 0x41, 100_000)
        things.clear(); gc.collect()
        while True: [bytes(n) for n in range(600)]
        """, status=DIED_OR_TIMEOUT, timeout=3, states=("recovered", "kept")),
    Way("a crash in a finalizer", """
        import ctypes, gc
        class Bad:
            def __del__(self): ctypes.string_at(0)
        bad = Bad(); bad.self = bad; del bad; gc.collect()
        """, reason=SEGV),
    Way("a crash in a thread", """
        import ctypes, threading
        thread = threading.Thread(target=ctypes.string_at, args=(0,)); thread.start(); thread.join()
        """, reason=SEGV),
    Way("a crash in numpy", """
        import numpy as np
        np.lib.stride_tricks.as_strided(np.zeros(1), (1 << 40,), (8,)).sum()
        """, reason=SEGV, needs=("numpy",)),
    Way("an exit in the midst of a loop of asyncio", """
        import asyncio, os
        asyncio.get_running_loop().call_later(0.01, os._exit, 6)
        await asyncio.sleep(60)
        """, reason="^exit status 6$"),
    Way("a daemon of two forks", """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                while True: time.sleep(1)
            os._exit(0)
        os.wait(); os._exit(8)
        """, reason="^exit status 8$"),
    Way("ten daemons", """
        import os, subprocess
        daemons = [subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(10)]
        os._exit(1)
        """, reason="^exit status 1$"),
    Way("a child that stays in the cell", """
        import os, time
        if os.fork(): os._exit(9)
        time.sleep(600)
        """, reason="^exit status 9$"),
]

# Which of them die at once: what these take is death and recovery, and nothing else.
QUICK = ("os._exit", "os.abort", "reads at address 0", "faulthandler._sigsegv", "kill -9 of itself")

# What looks like an end and is none: status and state are those of a cell that has run.
NO_DEATHS = [
    Way("sys.exit with a handler that never returns", """
        import atexit, sys, threading
        lock = threading.Lock(); lock.acquire(); atexit.register(lock.acquire)
        sys.exit(3)
        """, status="error", states=("kept",)),
    Way("an exception in sys.excepthook", """
        import sys
        def hook(*_): raise RuntimeError("hook")
        sys.excepthook = hook
        1 / 0
        """, status="error", states=("kept",)),
    Way("memory beyond its own limit", """
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 31))
        bytearray(2 << 30)
        """, status="error", states=("kept",)),
    Way("a recursion", "def f(): f()\nf()", status="error", states=("kept",)),
    Way("stdout and stderr closed", """
        import os, sys
        sys.stdout.close(); sys.stderr.close(); os.close(1); os.close(2)
        """, status="ok", states=("kept",)),
    Way("destroyed builtins", """
        import builtins
        for name in ("print", "len", "open", "Exception", "BaseException", "type"):
            delattr(builtins, name)
        """, status=("ok", "error"), states=("kept",)),
]
