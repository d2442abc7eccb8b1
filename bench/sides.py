"""The two sides of every row, with the same methods: Fumehood through libfumehood (and, where it is
named so, through the Python SDK), ipykernel through jupyter_client.

A side starts sessions; a session has

    start(code)      starts it and runs code as the first cell;
                     -> (ms until it takes cells, ms until the answer)
    run(code, n=1)   n cells; -> [Cell]: ms as the client sees it, from before the request until the
                     end and all output are in
    interrupt(code)  runs code, interrupts it 300 ms later; -> ms from then until the end is in
    variables(n)     asks for the list of at least n variables, of code that has run; -> ms
    stop()           ends it and what it left on the disk
    memory()         PSS in MiB of all processes that exist because of this session

What goes wrong raises Failed: no figure is made of a failure.
"""

import collections
import os
import signal
import subprocess
import sys
import time

import machine

Cell = collections.namedtuple("Cell", "ms chars status")
INTERRUPT_AFTER_MS = 300


class Failed(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failed(what)


# ---------------------------------------------------------------- Fumehood


class Fumehood:
    name = "fumehood"

    def __init__(self, build, environment):
        self.build = build
        self.environment = dict(environment, FUMEHOOD_LIBEXEC=build)

    def session(self, python=sys.executable):
        return FumehoodSession(self, python)

    def client(self, python):
        return subprocess.Popen(
            [self.build + "/bench/bench-client", python],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.environment,
        )

    def floor(self, n):
        out = subprocess.run(
            [self.build + "/bench/bench-floor", str(n)], check=True, capture_output=True
        )
        return [float(line) / 1000 for line in out.stdout.split()]

    def command(self, *words):
        return subprocess.run(
            [self.build + "/fumehood", *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )

    def oneshot(self, code):
        return self.command("run", "--python", sys.executable, "-c", code)

    def execute(self, notebook, made):
        return self.command("run", "--python", sys.executable, "-q", notebook, "-o", made)

    def layers(self, n, folder):
        """Samples in ms by the name of the layer."""
        return self.samples("bench-layers", n, folder)

    def snapshots(self, n, folder):
        """The same by what was done; leaves the folders `small` and `large` there."""
        return self.samples("bench-snapshot", n, folder)

    def samples(self, program, n, folder):
        out = subprocess.run(
            [f"{self.build}/bench/{program}", str(n), folder],
            check=True, capture_output=True, text=True,
        ).stdout
        found = {}
        for line in out.splitlines():
            name, microseconds = line.split("\t")
            found.setdefault(name, []).append(int(microseconds) / 1e3)
        return found

    @staticmethod
    def bubblewrap(code):
        """The same code in bwrap's box: the whole file system read-only, nothing else."""
        return subprocess.run(
            ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
             "--tmpfs", "/tmp", "--die-with-parent", sys.executable, "-c", code],
            stdin=subprocess.DEVNULL, capture_output=True,
        )

    @staticmethod
    def plain_python(code):
        return subprocess.run(
            [sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True
        )

    def stop_pool(self):
        """The next session then finds no warm interpreter."""
        for pid in self.pool():
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 10
        while self.pool():
            expect(time.monotonic() < deadline, "the pool does not end")
            machine.reap()
            time.sleep(0.01)

    def until_spare(self):
        """Waits until the pool has a spare session, as it has between two starts of a user."""
        deadline = time.monotonic() + 30
        while b'"spare":"ready"' not in self.command("pool", "list", "--json").stdout:
            expect(time.monotonic() < deadline, "the pool keeps no spare session")
            time.sleep(0.02)

    def pool(self):
        """Pids of pool and zygote."""
        for pid in machine.tree(os.getpid()):
            try:
                with open(f"/proc/{pid}/cmdline") as file:
                    if os.path.basename(file.read().split("\0")[0]) == "fumehood-pool":
                        return machine.tree(pid)
            except OSError:
                continue
        return []


class FumehoodSession:
    """One bench-client, with one session or, by further start(), several: all but memory() act on
    the last."""

    def __init__(self, side, python):
        self.process = side.client(python)
        self.keepers = []

    def _order(self, order, code=None):
        data = b"" if code is None else code.encode()
        self.process.stdin.write(
            f"{order} {len(data)}\n".encode() + data if code is not None else f"{order}\n".encode()
        )
        self.process.stdin.flush()

    def _answer(self):
        line = self.process.stdout.readline().decode()
        expect(line and not line.startswith("failed"), line.strip() or "the client has died")
        return line.rstrip("\n").split(" ", 3)

    def start(self, code="1+1", how="start"):
        """`how`: "spare", with the pool's; "bare", in tier none."""
        self._order(how, code)
        ready, answered, pid, self.directory = self._answer()
        self.keepers.append(int(pid))
        return int(ready) / 1000, int(answered) / 1000

    def run(self, code, n=1):
        self._order(f"run {n}", code)
        cells = []
        for _ in range(n):
            us, chars, _, status = self._answer()
            cells.append(Cell(int(us) / 1000, int(chars), status))
        return cells

    def interrupt(self, code):
        self._order(f"interrupt {INTERRUPT_AFTER_MS}", code)
        us, status = self._answer()
        expect(status == "interrupted", f"interrupted cell ended as {status}")
        return int(us) / 1000

    def save(self):
        """-> ms until the notebook is on the disk"""
        self._order("save")
        return int(self._answer()[0]) / 1000

    def variables(self, n):
        self._order(f"variables {n}")
        us, size = self._answer()
        expect(int(size) > 20 * n, f"{size} bytes cannot be the list of {n} variables")
        return int(us) / 1000

    def memory(self):
        """Keepers, the PID 1 of their boxes, and all that lives in these: a guest is no child
        of its keeper."""
        inits = [pid for keeper in self.keepers for pid in machine.tree(keeper) if pid != keeper]
        return machine.pss_mib(self.keepers + machine.members(inits))

    def stop(self):
        times = []
        while self.keepers:
            self._order("stop")
            times.append(int(self._answer()[0]) / 1000)
            self.keepers.pop()
        self.process.communicate(timeout=60)
        return machine.median(times)


# ---------------------------------------------------------------- Fumehood, by the Python SDK


class Sdk:
    """In this process, as the peer's client is."""

    name = "fumehood (SDK)"

    def __init__(self, fumehood):
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        if root + "/sdk/python" not in sys.path:
            sys.path.insert(0, root + "/sdk/python")
        os.environ.update(FUMEHOOD=fumehood.build + "/fumehood", FUMEHOOD_LIBEXEC=fumehood.build,
                          FUMEHOOD_PYTHON=sys.executable)

    def session(self):
        return SdkSession()


class SdkSession:
    def start(self, code="1+1", spare=None):
        import fumehood

        began = time.perf_counter()
        self.session = fumehood.Session(spare=spare)
        ready = time.perf_counter()
        result = self.session.run(code)
        answered = time.perf_counter()
        expect(result.ok, f"the first cell ended as {result.status}: {result.error}")
        return (ready - began) * 1e3, (answered - began) * 1e3

    def run(self, code, n=1, max_chars=8000):
        cells = []
        for _ in range(n):
            began = time.perf_counter()
            result = self.session.run(code, max_chars=max_chars)
            cells.append(Cell((time.perf_counter() - began) * 1e3, len(result.stdout),
                              result.status))
        return cells

    def stop(self):
        began = time.perf_counter()
        self.session.close()
        return (time.perf_counter() - began) * 1e3


# ---------------------------------------------------------------- ipykernel


class Ipykernel:
    name = "ipykernel"

    def session(self):
        return KernelSession()

    @staticmethod
    def oneshot(notebook):
        """A notebook file, as `jupyter execute` does it."""
        code = (
            "import sys, nbformat, nbclient\n"
            "n = nbclient.execute(nbformat.read(sys.argv[1], 4))\n"
            "print(''.join(o.get('text', '') for c in n.cells for o in c.outputs), end='')"
        )
        return subprocess.run(
            [sys.executable, "-c", code, notebook], stdin=subprocess.DEVNULL, capture_output=True
        )


    @staticmethod
    def execute(notebook, made):
        """As `jupyter execute --output`."""
        code = (
            "import sys, nbformat, nbclient\n"
            "n = nbclient.execute(nbformat.read(sys.argv[1], 4))\n"
            "nbformat.write(n, sys.argv[2])"
        )
        return subprocess.run(
            [sys.executable, "-c", code, notebook, made],
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )


class KernelSession:
    """One kernel through jupyter_client's blocking client, all settings at their defaults."""

    def start(self, code="1+1"):
        from jupyter_client.manager import KernelManager

        began = time.perf_counter()
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        ready = time.perf_counter()
        cell = self._wait(self.client.execute(code))
        answered = time.perf_counter()
        expect(cell[0] == "ok", "the first cell of the peer failed")
        return (ready - began) * 1e3, (answered - began) * 1e3

    def _wait(self, request):
        """Both of Jupyter's ends: the reply, and idle after all output. -> (status, characters)"""
        chars, idle = 0, False
        while not idle:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "stream" and content["name"] == "stdout":
                chars += len(content["text"])
            idle = message["msg_type"] == "status" and content["execution_state"] == "idle"
        while True:
            message = self.client.get_shell_msg(timeout=60)
            if message["parent_header"].get("msg_id") == request:
                return message["content"]["status"], chars

    def run(self, code, n=1):
        cells = []
        for _ in range(n):
            began = time.perf_counter()
            status, chars = self._wait(self.client.execute(code))
            cells.append(Cell((time.perf_counter() - began) * 1e3, chars, status))
        return cells

    def restart(self):
        """All variables are lost."""
        self.manager.restart_kernel(now=True)
        self.client.wait_for_ready(timeout=60)

    def interrupt(self, code):
        request = self.client.execute(code)
        time.sleep(INTERRUPT_AFTER_MS / 1e3)
        began = time.perf_counter()
        self.manager.interrupt_kernel()
        status, _ = self._wait(request)
        expect(status == "error", f"interrupted cell of the peer ended as {status}")
        return (time.perf_counter() - began) * 1e3

    def variables(self, n):
        """What JupyterLab asks for to fill its list of variables; it works without a debugger."""
        message = self.client.session.msg(
            "debug_request",
            {"type": "request", "seq": 1, "command": "inspectVariables", "arguments": {}},
        )
        began = time.perf_counter()
        self.client.control_channel.send(message)
        while True:
            reply = self.client.get_control_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                break
        ms = (time.perf_counter() - began) * 1e3
        body = reply["content"].get("body", {})
        expect(len(body.get("variables", ())) >= n, f"no list of {n} variables: {reply['content']}")
        return ms

    def memory(self):
        return machine.pss_mib(machine.tree(self.manager.provisioner.pid))

    def stop(self):
        began = time.perf_counter()
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        return (time.perf_counter() - began) * 1e3
