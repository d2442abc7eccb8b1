"""The zygote: a warmed-up Python process from which guests are forked. It never runs a session's
code.

Started by the pool as `<python> -I -u <folder>/fumehood_guest/zygote.py [JSON]` with descriptor 3
the pool's socket; isolated mode keeps the folder, the user's site-packages and PYTHON* variables
out. The JSON is {"modules": [names to import]}; without it the default list. Imports happen one by
one: a module that fails or that starts a thread is left out and reported. A thread cannot be
unstarted, so in that case the zygote executes itself again without that module. A fork copies only
the calling thread: hence one task, checked before every fork. What lies outside of the environment
is left out too (trusted.py): a session may be able to write it.

A Python that cannot load the extension (plain.py) cannot give guests. It says so ("cold") and what
a box must show of it, imports nothing and stays, as one that is ready: the pool then watches its
files as those of any other.

FUMEHOOD_PLAIN_FORK=1 in its environment makes it enter boxes by fork instead of vfork (enter.c).
"""
import importlib
import json
import os
import signal
import sys

POOL = 3
HERE = os.path.dirname(os.path.abspath(__file__))
DEFAULT_MODULES = ("IPython", "numpy", "pandas", "matplotlib.pyplot")
ENVIRONMENT = {
    # Read by libraries when they are loaded. Threads here would forbid every fork.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MPLBACKEND": "Agg",
}


def load_engine():
    """Imports the package beside this file and leaves no trace of its folder on sys.path."""
    sys.path.insert(0, os.path.dirname(HERE))
    try:
        for name in ("_guest", "alone", "trusted", "wire", "guest", "ipython", "prepare", "warmup",
                     "asking", "completion", "inspection", "variables"):
            importlib.import_module("fumehood_guest." + name)
    finally:
        del sys.path[0]
    return sys.modules["fumehood_guest"]


class Zygote:
    def __init__(self, options):
        self.options = options
        self.skipped = dict(options.get("skipped", ()))
        self.versions = {}
        self.files = []
        self.package = load_engine()
        self.wire = self.package.wire
        self.native = self.package._guest
        self.alone = self.package.alone.Check()
        self.cold = not hasattr(self.native, "enter")
        if not self.cold:
            self.native.own_arenas()
        self.guest = None if self.cold else self.package.guest.Guest()

    # ---- warming up

    def start_again(self, without, reason):
        """A thread has appeared: the same process image again, without what started it."""
        options = dict(self.options, skipped=dict(self.skipped, **{without: reason}))
        os.execv(sys.executable, [sys.executable, "-I", "-u", os.path.abspath(__file__),
                                  json.dumps(options)])

    def check_threads(self, name):
        alone = self.package.alone
        if alone.tasks() > 1:
            self.start_again(name, "starts threads (%s)" % alone.task_names())
        elif alone.shared_mappings():
            self.start_again(name, "maps shared memory")

    def load(self):
        self.check_threads("threads")
        for name in self.options.get("modules", DEFAULT_MODULES):
            top = name.split(".")[0]
            if top in self.skipped:
                continue
            try:
                importlib.import_module(name)
                self.versions[top] = str(getattr(sys.modules[top], "__version__", ""))
            except ModuleNotFoundError as error:
                # Not there at all needs no word, unless somebody has asked for it by name.
                if error.name != top or "modules" in self.options:
                    self.skipped[top] = str(error)
            except BaseException as error:
                self.skipped[top] = "%s: %s" % (type(error).__name__, error)
            self.check_threads(top)
        for name in ("asyncio", "getpass", "traceback", "linecache"):
            importlib.import_module(name)
        if "IPython" in self.versions:
            try:
                self.package.ipython.install(self.guest.shell)
            except Exception as error:
                self.skipped["IPython"] = "%s: %s" % (type(error).__name__, error)
                del self.versions["IPython"]
        self.check_threads("IPython")
        if "warm-up" not in self.skipped:
            self.package.warmup.run(self.guest)
            self.check_threads("warm-up")
        self.guest.install()
        self.guest.modules = self.versions
        self.files = self.package.prepare.open_files()

    def ready_message(self):
        return {
            "protocol": self.native.PROTOCOL,
            "python": sys.version.split()[0],
            "executable": sys.executable,
            "prefix": sys.prefix,
            "base_prefix": sys.base_prefix,
            "paths": visible_paths(HERE),
            "modules": self.versions,
            "skipped": self.skipped,
            "cold": self.cold,
            "threads": self.package.alone.tasks(),
        }

    # ---- serving

    def send(self, kind, value=None, cell=0):
        body = b"" if value is None else self.wire.to_json(value)
        self.native.send(POOL, kind, 0, cell, body)

    def serve(self):
        plain = os.environ.get("FUMEHOOD_PLAIN_FORK") == "1"
        while True:
            message = self.native.receive(POOL)
            if message is None:
                return
            kind, _, cell, body, fds = message
            try:
                if kind == self.native.ENTER and self.enter(cell, body, fds, plain):
                    return self.become_guest()
            finally:
                if self.wire.state.owner == 0:
                    for fd in fds:
                        os.close(fd)
            reap()

    def enter(self, cell, body, fds, plain):
        """True in the new guest. In the zygote the pool has been answered."""
        if self.cold:
            self.send(self.native.REFUSED, {"message": "this Python has no zygote: its sessions "
                                            "start cold", "step": "cold", "errno": 0}, cell)
            return False
        forbidden = self.alone()
        if forbidden:
            self.send(self.native.REFUSED,
                      {"message": forbidden, "step": "alone", "errno": 0}, cell)
            return False
        try:
            outcome = self.native.enter(body, fds, plain)
        except ValueError as error:
            self.send(self.native.REFUSED, {"message": str(error), "step": "request", "errno": 22},
                      cell)
            return False
        if outcome is None:
            self.wire.state.owner = os.getpid()
            return True
        if outcome is True:
            self.send(self.native.ENTERED, None, cell)
        else:
            step, number = outcome
            self.send(self.native.REFUSED, {
                "message": "%s: %s" % (step, os.strerror(number)), "step": step, "errno": number},
                cell)
        return False

    def become_guest(self):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.package.prepare.reopen(self.files)
        self.package.prepare.apply()
        self.guest.settle_in()
        self.guest.main(lambda: self.package.warmup.rehearse_unless_asked(self.guest))


def reap():
    """Children of the zygote are only left-overs of a step that failed."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def visible_paths(package):
    """Absolute paths that a guest must see, beyond /usr; none lies inside another."""
    wanted = [sys.prefix, sys.base_prefix, sys.exec_prefix, package]
    wanted.append(os.path.dirname(sys.executable))
    wanted += [entry for entry in sys.path if os.path.isabs(entry) and os.path.exists(entry)]
    wanted.append(os.path.dirname(os.path.realpath(sys.executable)))
    wanted += [os.path.realpath(path) for path in wanted]
    paths = []
    for path in sorted(set(map(os.path.normpath, wanted))):
        inside = any(path == above or path.startswith(above + "/") for above in paths + ["/usr"])
        if not inside and path != "/":
            paths.append(path)
    return paths


def main():
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    options = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    zygote = Zygote(options)
    try:
        if not zygote.cold:
            with zygote.package.trusted.Guard(HERE):
                zygote.load()
    except BaseException as error:
        zygote.send(zygote.native.FAILED, {"message": "%s: %s" % (type(error).__name__, error),
                                           "stderr": ""})
        raise SystemExit(1)
    os.set_inheritable(POOL, False)
    try:
        zygote.send(zygote.native.READY, zygote.ready_message())
        zygote.serve()
    except (BrokenPipeError, ConnectionError):
        pass  # the pool has gone: nobody needs a zygote


if __name__ == "__main__":
    main()
