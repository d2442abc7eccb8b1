"""IPython as a guest of our shell.

Where IPython is installed an InteractiveShell exists (ipython_shell.py) and shares the session's
namespace: get_ipython(), display(), formatters, hooks, history and magics work. It does not run the
cells; but what is no plain Python (`%magic`, `!cmd`, `name?`) goes through its transformer first,
and the calls that come out of that are plain Python.

What IPython lets a user change in its way of running cells is looked at here, each with a test that
costs a plain cell next to nothing: input transformers, AST transformers, ast_node_interactivity,
automagic, macros, events, custom exception handlers.
"""
__builtins__ = dict(__builtins__)

import ast
import builtins
import fnmatch
import functools
import importlib.util
import inspect
import os
import pathlib
import re
import sys

from fumehood_guest import _guest, display, matplotlib_backend, traceback_text, wire

OUTPUTS_MAX = 1000  # texts kept for %history -o
# What may be a magic, a shell line or a question: else a cold guest does not import IPython for a
# syntax error.
_MAGIC = re.compile(r"^\s*[%!?]|[=(]\s*[%!]|\?\s*$", re.MULTILINE)
# A line that Python takes for an expression and that may yet be meant as a command: `ls -l`, `mm`.
_COMMAND = re.compile(r"\s*([^\W\d]\w*)(?:[ \t]+[^=\n]*)?$")


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
            shell.ipython.settle_in()
            shell.ipython.before_cell(code)  # the cell has begun without it
        except Exception:  # an IPython that does not work is none
            available[0] = False
        return shell.ipython

    shell.wanted_ipython = wanted


def install(shell):
    """Makes the bridge now. Raises what IPython raises."""
    shell.ipython = Bridge(shell)
    shell.wanted_ipython = lambda code, failed: shell.ipython


class Bridge:
    """Between the shell and IPython's instance."""

    def __init__(self, shell):
        from IPython.core.interactiveshell import ExecutionResult
        from fumehood_guest import ipython_shell
        self.shell = shell
        before = {name: shell.ns.get(name) for name in ("_", "__", "___")}
        outputs = shell.outputs
        self.failure = None      # of a formatter, while one runs
        self.formatting = False
        self.result = None       # what post_run_cell is told: (value, error) of the running cell
        self.ip = ip = ipython_shell.make_instance(shell, self)
        shell.ns.update(before)
        self.history = history = ip.history_manager
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
        self.plain_traits = values_of(self.plain, "type_printers", "float_format", "pprint")
        self.printers = {kind: self.plain.type_printers.get(kind) for kind in display.PLAIN}
        self.other_printers = [formatter.type_printers for formatter
                               in ip.display_formatter.formatters.values()
                               if formatter is not self.plain]
        display.formatter[0] = self.bundle
        history.get_tail, history.search = self._tail, self._search
        ip.last_execution_result = ExecutionResult(self.info(""))  # %xdel wants to forget it
        self.macro = sys.modules["IPython.core.macro"].Macro
        self.transforms = self._transforms()
        self.first_callbacks = [(name, list(found)) for name, found in ip.events.callbacks.items()]
        self.first_transforms = [list(part) for part in self.transforms]

    def settle_in(self):
        """What is known only in the session: where it is, and where its home is."""
        here = pathlib.Path(os.getcwd())
        self.ip.user_ns["_dh"][:] = [here]
        self.ip.home_dir = os.path.expanduser("~")
        self.ip.starting_dir = str(here)

    # ---- values

    def bundle(self, value):
        """As display.bundle, by IPython's formatters."""
        kind = type(value)
        if kind in display.PLAIN and self.is_plain(kind):
            return {"text/plain": repr(value)}, {}
        matplotlib_backend.note_shown(value)
        return self.ip.display_formatter.format(value)

    def is_plain(self, kind):
        """Nobody has changed how this type is shown (%precision, for_type)."""
        traits = self.plain_traits
        if traits["type_printers"].get(kind) is not self.printers[kind]:
            return False
        if kind is float and traits["float_format"] != "%r" or not traits["pprint"]:
            return False
        for printers in self.other_printers:
            if kind in printers:
                return False
        return True

    def captured(self, value):
        """A value of nested code (%%capture, %rerun): where sys.displayhook has been replaced it is
        that one's."""
        hook = getattr(sys, "displayhook", None)  # a program can delete it
        if type(hook).__module__ != "IPython.core.displayhook":
            return False
        hook(value)
        return True

    def _tail(self, n=10, raw=True, output=False, include_latest=False):
        """The last cells, in place of those that IPython's database would know."""
        end = len(self.history.input_hist_raw) - (not include_latest)
        return self.history.get_range(0, max(1, end - (n or 10)), end, raw=raw, output=output)

    def _search(self, pattern="*", raw=True, search_raw=True, output=False, n=None, unique=False):
        """For %history -g."""
        inputs = self.history.input_hist_raw if search_raw else self.history.input_hist_parsed
        found = [number for number in range(1, len(inputs))
                 if fnmatch.fnmatch(inputs[number], pattern)]
        for number in found[-n:] if n else found:
            yield from self.history.get_range(0, number, number + 1, raw=raw, output=output)

    def note_output(self, count, text):
        self.history.output_hist_reprs[count] = text
        self.history.output_hist_reprs.pop(count - OUTPUTS_MAX, None)

    # ---- cells

    def _transforms(self):
        manager = self.ip.input_transformer_manager
        return [manager.cleanup_transforms, manager.line_transforms, manager.token_transformers,
                self.ip.input_transformers_post]

    def has_transformers(self):
        """Has the session added input transformers? Then every cell goes through all of them."""
        return self.transforms != self.first_transforms

    def translate(self, code):
        """The cell with magics made into calls; None when the transformer fails."""
        try:
            return self.ip.transform_cell(code)
        except Exception:
            return None

    def is_command(self, code, program):
        """A name that Python does not know but IPython does: automagic (`ls -l`), a macro."""
        if len(program.steps) != 1:
            return False
        (step, shown), = program.steps
        if not shown or not step.co_names:
            return False
        name, ns = step.co_names[0], self.shell.ns
        if name in ns:
            return type(ns[name]) is self.macro and code.strip() == name
        match = _COMMAND.match(code)
        return match is not None and match.group(1) == name and not hasattr(builtins, name) \
            and bool(self.ip.automagic) and self.ip.find_line_magic(name) is not None

    def change_tree(self, tree):
        """What the session wants done with a cell's syntax tree: (tree, which values are shown)."""
        ip = self.ip
        if ip.ast_transformers:
            tree = ip.transform_ast(tree)
        shown = ip.ast_node_interactivity  # people set it on the class, too
        if shown == "last_expr":
            return tree, shown
        if shown == "last_expr_or_assign":
            shown = "last_expr"
            target = assigned(tree.body[-1]) if tree.body else None
            if target is not None:
                tree.body.append(target)
                ast.fix_missing_locations(tree)
        return tree, shown if shown in ("all", "none") else "last_expr"

    def note(self, code):
        self.history.input_hist_raw.append(code)

    def has_events(self, callbacks):
        """Has the session, or an extension, registered for events? IPython's own callbacks are of
        no use here."""
        for name, first in self.first_callbacks:
            if callbacks[name] != first:
                return True
        return False

    def before_cell(self, code):
        callbacks = self.ip.events.callbacks
        self.result = None
        self.code = code
        if self.has_events(callbacks):
            self.ip.events.trigger("pre_execute")
            self.ip.events.trigger("pre_run_cell", self.info(code))

    def after_cell(self, error):
        """`error`: what ended the cell, or None."""
        callbacks = self.ip.events.callbacks
        if self.has_events(callbacks):
            from IPython.core.interactiveshell import ExecutionResult
            self.ip.events.trigger("post_execute")
            result = ExecutionResult(self.info(self.code))
            result.execution_count = self.shell.count
            result.result = self.result
            result.error_in_exec = error
            self.ip.events.trigger("post_run_cell", result)
        self.result = None

    def info(self, code):
        from IPython.core.interactiveshell import ExecutionInfo
        values = {"raw_cell": code, "store_history": True, "silent": False, "shell_futures": True,
                  "cell_id": "cell-%d" % self.shell.count, "cell_meta": {},
                  "transformed_cell": code}
        return ExecutionInfo(**{name: value for name, value in values.items()
                                if name in parameters(ExecutionInfo)})

    # ---- errors

    def describe(self, error):
        """The body of an error message when IPython or the session says how to show this error;
        None otherwise. False: the session's own handler has shown it."""
        if self.ip.custom_exceptions and isinstance(error, self.ip.custom_exceptions):
            self.ip.CustomTB(type(error), error, error.__traceback__)  # shows by _showtraceback
            return False
        if type(error).__module__ == "IPython.core.error" and type(error).__name__ == "UsageError":
            return self._body(error, ["UsageError: %s" % traceback_text.value_of(error)])
        if self.ip.InteractiveTB.mode == "Minimal":  # %xmode
            return self._body(error, traceback_text.last_lines(error))
        own = getattr(type(error), "_render_traceback_", None)
        if own is not None:
            try:
                return self._body(error, own(error))
            except Exception:
                pass
        return None

    @staticmethod
    def _body(error, lines):
        if isinstance(lines, str):
            lines = lines.split("\n")
        return {"ename": traceback_text.name_of(error), "evalue": traceback_text.value_of(error),
                "traceback": [str(line) for line in lines]}

    def show_error(self, error, lines=None, compiling=False):
        """An error of code that IPython runs for the session (%run, %%capture)."""
        if error is None:
            return
        body = self._body(error, lines) if lines is not None else self.describe(error)
        if body is not False:
            wire.emit_json(_guest.ERROR, body or traceback_text.describe(error, compiling))


def assigned(statement):
    """The expression that shows what a statement has assigned to a name; None."""
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)) or len(targets) != 1 \
            or not isinstance(targets[0], ast.Name):
        return None
    name = ast.Name(targets[0].id, ast.Load())
    return ast.copy_location(ast.Expr(ast.copy_location(name, statement)), statement)


def values_of(configurable, *names):
    """Where traitlets keeps the values. What is asked for every number that is shown is looked up
    there, instead of through the three calls that each attribute takes."""
    for name in names:
        getattr(configurable, name)  # a default is only made when it is asked for
    return configurable._trait_values


@functools.lru_cache(maxsize=None)
def parameters(kind):
    """What a class of this version of IPython takes."""
    return frozenset(inspect.signature(kind).parameters)
