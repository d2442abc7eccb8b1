"""IPython's InteractiveShell, made to live in our guest.

Everything it wants to show leaves through display.py and wire.py. No history database, no threads,
no colours; tracebacks are CPython's own text here too. Code that its magics run (%%capture, %rerun,
%run of a notebook) is run by our shell. Commands (`!ls`) write to the real pipes: no
pseudo-terminal between, so no CR before LF, exact order, and nothing that depends on pexpect; only
when sys.stdout has been replaced (%%capture, redirect_stdout) is their output read and passed on.
"""
__builtins__ = dict(__builtins__)

import codecs
import fnmatch
import os
import socket
import subprocess
import sys

from fumehood_guest import display

NO_NETWORK = """\
Fumehood: this session has no network, so %s cannot fetch packages. What can be done:
  - install the package outside, into the environment that the sessions use (%s)
    and restart the session;
  - or start the session with the package index allowed
    (--allow-net pypi.org,files.pythonhosted.org);
  - or put a wheel into the workspace and install that:
    %%pip install --no-index --no-deps --target . FILE.whl
"""
INSTALLERS = ("pip", "conda", "mamba", "micromamba", "uv", "apt", "apt-get")
NO_EDITOR = ("There is no editor in this session. Write files with %%writefile, show them with "
             "%pycat, and change them with Python.")
NO_DEBUGGER = ("Nobody can answer the debugger's prompts: the cell runs with allow_stdin false. "
               "Print what you want to know, or look at the traceback.")
INTERRUPTED_WAIT_S = 0.5


class Memory(dict):
    """In place of the database that IPython keeps in the user's home (for %cd, %store): it lasts as
    long as the session."""

    def keys(self, pattern="*"):
        return [key for key in dict.keys(self) if fnmatch.fnmatch(key, pattern)]

    def __delitem__(self, key):
        self.pop(key, None)  # as a file that is gone


def make_instance(shell, bridge):
    """The one instance. Its classes are made here, because IPython is only imported when wanted."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config
    import IPython.display  # noqa: F401  (the session's builtin display)

    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.color_info = False
    config.InteractiveShell.display_page = True
    config.InteractiveShell.history_length = 0
    config.Completer.use_jedi = False
    config.PlainTextFormatter.max_width = 79
    hooks = sys.displayhook, sys.excepthook
    kind = make_shell_class(InteractiveShell, shell, bridge)
    ip = kind.instance(config=config, user_module=shell.module, user_ns=shell.ns,
                       display_pub_class=make_publisher(), displayhook_class=make_hook(shell))
    sys.displayhook, sys.excepthook = hooks
    ip.display_formatter.formatters["image/png"].for_type_by_name(
        "matplotlib.figure", "Figure", _figure_png)
    offer_inline_backend(ip)
    replace_magics(ip)
    ip.extension_manager.load_extension("storemagic")
    return ip


def make_publisher():
    from IPython.core.displaypub import DisplayPublisher

    class Publisher(DisplayPublisher):
        def publish(self, data, metadata=None, source=None, *, transient=None, update=False,
                    **kwargs):
            display.publish(data, metadata, (transient or {}).get("display_id"), update)

        def clear_output(self, wait=False):
            display.clear_output(wait)

    return Publisher


def make_hook(shell):
    from IPython.core.displayhook import DisplayHook

    class Hook(DisplayHook):
        """For code that IPython itself runs (%%time, %run and the like)."""

        def quiet(self):
            return False

        def __call__(self, result=None):
            if result is not None:
                shell.show(result, False)

    return Hook


def make_formatter(bridge):
    from IPython.core.formatters import DisplayFormatter

    class Formatter(DisplayFormatter):
        def format(self, obj, include=None, exclude=None):
            outer = bridge.formatting, bridge.failure
            bridge.formatting, bridge.failure = True, None
            try:
                data, metadata = super().format(obj, include, exclude)
                failure = bridge.failure
            finally:
                bridge.formatting, bridge.failure = outer
            unknown = "text/plain" not in data and not (exclude or include)
            if failure is not None and (unknown or "text/plain" in data
                                        and type(obj).__repr__ is object.__repr__):
                data["text/plain"] = display.unprintable(obj, failure)
            return data, metadata

    return Formatter


def make_shell_class(base, shell, bridge):
    from IPython.core import pylabtools
    formatter = make_formatter(bridge)

    class Shell(base):
        execution_count = property(lambda self: shell.count, lambda self, value: None)
        memory = Memory()
        db = property(lambda self: self.memory, lambda self, value: None)
        fumehood = bridge

        def init_display_formatter(self):
            self.display_formatter = formatter(parent=self)
            self.configurables.append(self.display_formatter)

        # ---- errors

        def showtraceback(self, exc_tuple=None, *args, **kwargs):
            error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
            if error is None:  # %tb
                error = getattr(sys, "last_value", None)
            if bridge.formatting:
                bridge.failure = error
                if error is not None:
                    display.report(error)
            else:
                bridge.show_error(error)

        def showsyntaxerror(self, *args, **kwargs):
            self.showtraceback()

        showindentationerror = showsyntaxerror

        def _showtraceback(self, etype, evalue, stb):
            if stb:
                bridge.show_error(evalue, stb)

        # ---- code and commands

        def run_cell(self, raw_cell, store_history=False, silent=False, shell_futures=True,
                     cell_id=None, **kwargs):
            return run_nested(shell, bridge, raw_cell, silent)

        async def run_cell_async(self, raw_cell, *args, **kwargs):
            return run_nested(shell, bridge, raw_cell, kwargs.get("silent", False))

        def system(self, cmd):
            if cmd.rstrip().endswith("&"):
                raise OSError("Background processes not supported.")
            self.user_ns["_exit_code"] = run_command(self.var_expand(cmd, depth=1))
            if self.user_ns["_exit_code"] != 0:
                advise(cmd)

        system_piped = system_raw = system

        def set_next_input(self, text, replace=False):
            """There is no next cell that could be filled in: the text is shown."""
            display.publish({"text/plain": text})

        # ---- what needs a terminal or a window

        def enable_gui(self, gui=None):
            """There are no windows here."""

        def enable_matplotlib(self, gui=None):
            return "inline", "inline"

        def enable_pylab(self, gui=None, import_all=True, welcome_message=False):
            names = {}
            pylabtools.import_pylab(names, import_all)
            self.user_ns.update(names)
            self.user_ns_hidden.update(names)  # %who does not list them
            return "inline", "inline", {}

        def debugger(self, force=False):
            from fumehood_guest.wire import state
            if not state.allow_stdin:
                sys.stderr.write(NO_DEBUGGER + "\n")
                return
            super().debugger(force=force)

        def ask_exit(self):
            raise SystemExit

    # By this name libraries (rich, pandas) know that HTML will be seen, and not a terminal.
    Shell.__name__ = Shell.__qualname__ = "ZMQInteractiveShell"
    return Shell


def run_nested(shell, bridge, code, silent):
    """A cell inside a cell. As in IPython its error is shown and returned, not raised; but what
    stops the whole cell does."""
    from IPython.core.interactiveshell import ExecutionResult
    from fumehood_guest.shell import CompileError
    result = ExecutionResult(bridge.info(code))
    result.execution_count = shell.count
    if not code.strip():
        return result
    try:
        result.result = shell.run_nested(code, silent)
    except (KeyboardInterrupt, SystemExit):
        raise
    except CompileError as error:
        result.error_before_exec = error.error
        bridge.show_error(error.error, compiling=True)
    except BaseException as error:
        result.error_in_exec = error
        bridge.show_error(error)
    return result


# ---------------------------------------------------------------- commands

def run_command(command):
    """Runs a command of the shell as `!command` does; returns its exit status as IPython has it."""
    stream = sys.stdout
    own = stream is sys.__stdout__
    if own:
        stream.flush()
    shell = os.environ.get("SHELL") or "/bin/sh"
    process = subprocess.Popen([shell, "-c", command], stdin=subprocess.DEVNULL,
                               stdout=None if own else subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    try:
        if not own:
            pass_on(process.stdout, stream)
        status = process.wait()
    except BaseException:
        stop(process)
        raise
    return status


def pass_on(pipe, stream):
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with pipe:
        while True:
            data = pipe.read1(65536)
            stream.write(decoder.decode(data, not data))
            if not data:
                return


def stop(process):
    """The interrupt went to the whole process group; who does not heed it is killed."""
    try:
        process.wait(INTERRUPTED_WAIT_S)
    except BaseException:
        process.kill()
        process.wait()


def advise(command):
    """A word after an installer that has failed in a box without a network."""
    words = command.split()
    for word in words[:3]:  # pip install, python3 -m pip install
        name = word.rpartition("/")[2]
        if name in INSTALLERS and "install" in words and not has_network():
            sys.stderr.write(NO_NETWORK % (name, sys.prefix))
            return


def has_network():
    """Is there any interface but the loopback, or a proxy of the keeper's?"""
    if "HTTP_PROXY" in os.environ:
        return True
    try:
        return any(name != "lo" for _, name in socket.if_nameindex())
    except OSError:
        return True


# ---------------------------------------------------------------- what needs another answer here

def offer_inline_backend(ip):
    """`%config InlineBackend.figure_format = 'svg'` works without `%matplotlib inline` before."""
    try:
        from matplotlib_inline.config import InlineBackend
    except ImportError:
        return
    backend = InlineBackend.instance(parent=ip)
    backend.shell = ip
    ip.configurables.append(backend)


def replace_magics(ip):
    def edit(line):
        """There is no editor in this session."""
        from IPython.core.error import UsageError
        raise UsageError(NO_EDITOR)

    for name in ("edit", "ed"):
        ip.magics_manager.magics["line"][name] = edit


def _figure_png(figure):
    from fumehood_guest import matplotlib_backend
    return matplotlib_backend.png_of(figure)
