"""IPython as a guest of our shell.

Where IPython is installed an InteractiveShell exists and shares the session's namespace:
get_ipython(), display(), formatters, hooks and magics work. It does not run the cells; but what is
no plain Python (`%magic`, `!cmd`, `name?`) goes through its transformer first, and the calls that
come out of that are plain Python.

Everything IPython wants to show leaves through display.py and wire.py. No history database, no
threads, no colours; tracebacks are CPython's own text here too.
"""
__builtins__ = dict(__builtins__)

import builtins
import fnmatch
import importlib.util
import re
import sys

from fumehood_guest import display

# What may be a magic, a shell line or a question: else a cold guest does not import IPython for a
# syntax error.
_MAGIC = re.compile(r"^\s*[%!?]|[=(]\s*[%!]|\?\s*$", re.MULTILINE)


def offer(shell):
    """A cold guest: the bridge is made when a cell needs it, because its import takes a third of a
    second."""
    available = []  # [bool], once it is known

    def wanted(code, failed):
        if shell.ipython is not None:
            return shell.ipython
        if not ("IPython" in sys.modules or "IPython" in code or "get_ipython" in code
                or failed and _MAGIC.search(code)):
            return None
        if not available:
            available.append(importlib.util.find_spec("IPython") is not None)
        if not available[0]:
            return None
        try:
            install(shell)
        except Exception:  # an IPython that does not work is none
            available[0] = False
        return shell.ipython

    shell.wanted_ipython = wanted


def install(shell):
    """Makes the bridge now. Raises what IPython raises."""
    shell.ipython = Bridge(shell)
    shell.wanted_ipython = lambda code, failed: shell.ipython


class Memory(dict):
    """In place of the database that IPython keeps in the user's home (for %cd, %store): it lasts as
    long as the session."""

    def keys(self, pattern="*"):
        return [key for key in dict.keys(self) if fnmatch.fnmatch(key, pattern)]


class Bridge:
    """Between the shell and IPython's instance."""

    def __init__(self, shell):
        self.shell = shell
        before = {name: shell.ns.get(name) for name in ("_", "__", "___")}
        outputs = shell.outputs
        self.ip = make_instance(shell)
        shell.ns.update(before)
        self.failure = None  # of a formatter, while one runs
        ip = self.ip
        ip.fumehood = self
        history = ip.history_manager
        history.input_hist_parsed[:] = history.input_hist_raw[:] = shell.inputs
        shell.inputs = history.input_hist_parsed
        shell.ns["In"] = shell.ns["_ih"] = shell.inputs
        shell.outputs = shell.ns["Out"]
        shell.outputs.update(outputs)
        for name in ("exit", "quit"):  # IPython's only set a flag; Python's own end the cell
            shell.ns.pop(name, None)
        builtins.get_ipython = ip.get_ipython
        builtins.display = sys.modules["IPython.display"].display
        self.plain = ip.display_formatter.formatters["text/plain"]
        self.printers = {kind: self.plain.type_printers.get(kind) for kind in display.PLAIN}
        display.formatter[0] = self.bundle

    # ---- values

    def bundle(self, value):
        """As display.bundle, by IPython's formatters."""
        kind = type(value)
        if kind in display.PLAIN and self.is_plain(kind):
            return {"text/plain": repr(value)}, {}
        return self.ip.display_formatter.format(value)

    def is_plain(self, kind):
        """Nobody has changed how this type is shown (%precision, for_type)."""
        if self.plain.type_printers.get(kind) is not self.printers[kind]:
            return False
        return not any(kind in formatter.type_printers
                       for formatter in self.ip.display_formatter.formatters.values()
                       if formatter is not self.plain)

    # ---- cells

    def translate(self, code):
        """The cell with magics made into calls; None when the transformer fails."""
        try:
            return self.ip.transform_cell(code)
        except Exception:
            return None

    def note(self, code):
        self.ip.history_manager.input_hist_raw.append(code)

    def before_cell(self, code):
        callbacks = self.ip.events.callbacks
        if callbacks["pre_execute"] or callbacks["pre_run_cell"]:
            self.ip.events.trigger("pre_execute")
            self.ip.events.trigger("pre_run_cell", self._info(code))
        self._code = code

    def after_cell(self):
        callbacks = self.ip.events.callbacks
        if callbacks["post_execute"] or callbacks["post_run_cell"]:
            from IPython.core.interactiveshell import ExecutionResult
            self.ip.events.trigger("post_execute")
            result = ExecutionResult(self._info(self._code))
            result.execution_count = self.shell.count
            self.ip.events.trigger("post_run_cell", result)

    def _info(self, code):
        from IPython.core.interactiveshell import ExecutionInfo
        return ExecutionInfo(code, True, False, True, "cell-%d" % self.shell.count)


def publish(data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
    display.publish(data, metadata, (transient or {}).get("display_id"), update)


def make_instance(shell):
    """InteractiveShell with our publisher, display hook and tracebacks."""
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.formatters import DisplayFormatter
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config
    import IPython.display  # noqa: F401  (the session's builtin display)

    class Publisher(DisplayPublisher):
        def publish(self, data, metadata=None, source=None, *, transient=None, update=False,
                    **kwargs):
            publish(data, metadata, source, transient=transient, update=update)

        def clear_output(self, wait=False):
            display.clear_output(wait)

    class Hook(DisplayHook):
        """For code that IPython itself runs (%%time, %run and the like)."""

        def quiet(self):
            return False

        def __call__(self, result=None):
            if result is not None:
                shell.show(result, False)

    class Formatter(DisplayFormatter):
        def format(self, obj, include=None, exclude=None):
            bridge = self.parent.fumehood
            bridge.failure = None
            data, metadata = super().format(obj, include, exclude)
            failure, bridge.failure = bridge.failure, None
            if failure is not None and "text/plain" not in data and not (exclude or include):
                data["text/plain"] = display.unprintable(obj, failure)
            elif failure is not None and type(obj).__repr__ is object.__repr__ \
                    and "text/plain" in data:
                data["text/plain"] = display.unprintable(obj, failure)
            return data, metadata

    class Shell(InteractiveShell):
        execution_count = property(lambda self: shell.count, lambda self, value: None)
        memory = Memory()
        db = property(lambda self: self.memory, lambda self, value: None)

        def init_display_formatter(self):
            self.display_formatter = Formatter(parent=self)
            self.configurables.append(self.display_formatter)

        def showtraceback(self, exc_tuple=None, *args, **kwargs):
            error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
            self.fumehood.failure = error
            if error is not None:
                display.report(error)

        showsyntaxerror = showindentationerror = showtraceback

        def enable_gui(self, gui=None):
            """There are no windows here."""

        def enable_matplotlib(self, gui=None):
            return "inline", "agg"

        def enable_pylab(self, gui=None, import_all=True, welcome_message=False):
            return "inline", "agg", {}

        def ask_exit(self):
            raise SystemExit

    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.color_info = False
    config.InteractiveShell.display_page = True
    config.InteractiveShell.history_length = 0
    hooks = sys.displayhook, sys.excepthook
    ip = Shell.instance(config=config, user_module=shell.module, user_ns=shell.ns,
                        display_pub_class=Publisher, displayhook_class=Hook)
    sys.displayhook, sys.excepthook = hooks
    ip.display_formatter.formatters["image/png"].for_type_by_name(
        "matplotlib.figure", "Figure", _figure_png)
    return ip


def _figure_png(figure):
    from fumehood_guest import matplotlib_backend
    return (matplotlib_backend.figure_as_value(figure) or {}).get("image/png")
