"""The shell: compiles a cell, runs it in the session's namespace, shows its last value.

Our own and not IPython's run_cell, because it is several times cheaper and does the same for plain
Python. The namespace is the module `__main__`. Each cell has a file name of its own, `<cell N>`
with N its execution count (a script: its path), whose lines linecache knows: so tracebacks, pdb
and inspect show the code that ran. `from __future__` imports hold for the rest of the session, as
in Python's own interactive mode.
"""
__builtins__ = dict(__builtins__)

import __future__ as future
import ast
import builtins
import inspect
import linecache
import re
import sys
import types

from fumehood_guest import asyncio_support, display

OUTPUTS_MAX = 1000  # values kept in Out; a session may run for weeks
FUTURES = 0
for _name in future.all_feature_names:
    FUTURES |= getattr(future, _name).compiler_flag
ONLY_AST = ast.PyCF_ONLY_AST
AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
CO_COROUTINE = inspect.CO_COROUTINE

_compile, _exec, _eval = compile, exec, eval
_Expression, _Expr = ast.Expression, ast.Expr
_comment = re.compile("#.*")


class Program:
    """A compiled cell. `steps`: (code, whether its value is shown), usually its statements and its
    last expression."""

    __slots__ = ("steps", "in_loop", "hidden")

    def __init__(self):
        self.steps = []
        self.in_loop = False  # runs whole in the session's event loop
        self.hidden = False   # ends with a semicolon: no value is shown

    def add(self, code, shown):
        self.steps.append((code, shown))
        if not self.in_loop:
            self.in_loop = bool(code.co_flags & CO_COROUTINE) or \
                not asyncio_support.WHOLE_IN_LOOP.isdisjoint(code.co_names)


class CompileError(Exception):
    """Carries the error of code that never ran."""

    def __init__(self, error):
        super().__init__(error)
        self.error = error


class Shell:
    def __init__(self, loops):
        self.loops = loops
        self.count = 0
        self.flags = 0           # __future__ imports so far
        self.last_shown = None   # what we have put into `_`
        self.last_input = ""
        self.nested = 0          # cells that the running cell has run
        self.nested_value = None
        self.inputs = [""]
        self.outputs = {}
        self.ipython = None      # the bridge, where IPython is in use
        self.wanted_ipython = lambda code, failed: None
        self.own_names = frozenset()  # of the namespace, that no code of the session has made
        self.module = types.ModuleType("__main__")
        self.ns = self.module.__dict__
        self.renew_namespace()

    def renew_namespace(self):
        """What a program must find in its namespace, also after globals().clear()."""
        before = set(self.ns) - self.own_names
        self.ns.update({"__name__": "__main__", "__builtins__": builtins, "In": self.inputs,
                        "Out": self.outputs, "_": "", "__": "", "___": ""})
        self.last_shown = ""
        self.own_names = {name for name in self.ns if name not in before}

    # ---- compiling

    def compile(self, code, name):
        flags = self.flags | AWAIT
        tree = _compile(code, name, "exec", flags | ONLY_AST, True)
        program = Program()
        shown = "last_expr"
        if self.ipython is not None:
            tree, shown = self.ipython.change_tree(tree)
        statements = tree.body
        last = None
        if statements and type(statements[-1]) is _Expr and shown != "none":
            last = statements.pop()
        if shown == "all":
            self.add_each(program, statements, name)
        elif statements:
            body = _compile(tree, name, "exec", flags, True)
            self.flags |= body.co_flags & FUTURES
            program.add(body, False)
        if last is not None:
            program.add(_compile(_Expression(last.value), name, "eval", self.flags | AWAIT, True),
                        True)
            program.hidden = ";" in code and ends_with_semicolon(code, last)
        return program

    def add_each(self, program, statements, name):
        """IPython's ast_node_interactivity "all": the value of every expression is shown."""
        for statement in statements:
            if type(statement) is _Expr:
                code = _compile(_Expression(statement.value), name, "eval", self.flags | AWAIT,
                                True)
            else:
                module = ast.Module([statement], [])
                code = _compile(module, name, "exec", self.flags | AWAIT, True)
                self.flags |= code.co_flags & FUTURES
            program.add(code, type(statement) is _Expr)

    def prepare(self, code, name):
        """Compiles a cell. What is no plain Python may be so after IPython has translated it; what
        is neither keeps its first error."""
        if "\x00" in code:
            raise CompileError(SyntaxError("source code cannot contain null bytes",
                                           (name, *place_of_nul(code))))
        bridge = self.ipython
        first = None
        if bridge is None or not bridge.has_transformers():
            try:
                program = self.compile(code, name)
            except Exception as error:
                first = error
                bridge = self.wanted_ipython(code, True)
            else:
                if bridge is None or not bridge.is_command(code, program):
                    return program
        translated = bridge.translate(code) if bridge is not None else None
        if translated is not None and (translated != code or first is None):
            try:
                program = self.compile(translated, name)
            except Exception as error:
                first = first or error
            else:
                remember(translated, name)
                if self.inputs[-1] is code:
                    self.inputs[-1] = translated.rstrip("\n")
                return program
        raise CompileError(first or SyntaxError("a transformer of the session's has failed"))

    # ---- running

    def run_script(self, script):
        """Runs a cell that is a script (scripts.py)."""
        script.enter(self.ns)
        try:
            self.run(script.code, script.file)
        finally:
            script.leave(self.ns)

    def run(self, code, file=None):
        """Runs one cell. Exceptions of the cell come out; CompileError when it never ran. Whoever
        has shown them calls after_cell."""
        self.count += 1
        self.nested = 0
        code = normalise(code)
        name = file or "<cell %d>" % self.count
        remember(code, name)
        if "__name__" not in self.ns:
            self.renew_namespace()
        self.inputs.append(code)
        self.ns.pop("__warningregistry__", None)  # a warning is shown again in the next cell
        bridge = self.wanted_ipython(code, False)
        if bridge is not None:
            bridge.note(code)
        program = self.prepare(code, name)
        self.note_input(code)
        if bridge is not None:
            bridge.before_cell(code)
        self.execute(program)

    def after_cell(self, error):
        """The cell has ended, and its error, if any, has been shown."""
        if self.ipython is not None:
            self.ipython.after_cell(error)

    def note_input(self, code):
        """`_i`, `_ii`, `_iii`, `_i7`: what cells were, as they were written."""
        ns = self.ns
        ns["_iii"], ns["_ii"], ns["_i"] = ns.get("_ii", ""), ns.get("_i", ""), self.last_input
        self.last_input = code
        ns["_i%d" % self.count] = code
        ns.pop("_i%d" % (self.count - OUTPUTS_MAX), None)

    def run_nested(self, code, silent):
        """Runs a cell for a cell (%%capture, %rerun), and returns its value."""
        self.nested += 1
        code = normalise(code)
        name = "<cell %d, part %d>" % (self.count, self.nested)
        remember(code, name)
        program = self.prepare(code, name)
        program.hidden |= silent
        outer, self.nested_value = self.nested_value, None
        try:
            self.execute(program)
            return self.nested_value
        finally:
            self.nested_value = outer

    def execute(self, program):
        if program.in_loop:
            run = self.loops.run_nested if self.nested else self.loops.run_cell
            run(lambda: self._in_loop(program))
        elif self.nested:
            self._plain(program)
        else:
            asyncio_support.shared.run(self._plain, program)

    def _plain(self, program):
        ns = self.ns
        for code, shown in program.steps:
            if not shown:
                _exec(code, ns)
                continue
            value = _eval(code, ns)
            if value is not None:
                self.show(value, program.hidden)

    async def _in_loop(self, program):
        for code, shown in program.steps:
            value = _eval(code, self.ns)
            if code.co_flags & CO_COROUTINE:
                value = await value
            if shown and value is not None:
                self.show(value, program.hidden)

    def show(self, value, hidden):
        """Keeps a cell's value in `_`, `__`, `___`, `_7` and Out, and shows it unless it is
        hidden."""
        ns = self.ns
        bridge = self.ipython
        if bridge is not None:
            bridge.result = self.nested_value = value
            if bridge.captured(value):
                return
        if ns.get("_", self.last_shown) is self.last_shown:  # else the program uses the name itself
            ns["___"] = ns.get("__")
            ns["__"] = self.last_shown
            ns["_"] = self.last_shown = value
        if value is not self.outputs:
            self.outputs[self.count] = ns["_%d" % self.count] = value
            if len(self.outputs) > OUTPUTS_MAX:
                oldest = next(iter(self.outputs))
                del self.outputs[oldest]
                ns.pop("_%s" % oldest, None)
        if not hidden:
            data = display.show_result(value, self.count)
            if bridge is not None and data:
                bridge.note_output(self.count, data.get("text/plain", ""))

    def install(self):
        sys.modules["__main__"] = self.module


def normalise(code):
    """Line ends as Python reads files, no byte order mark."""
    if code.startswith("\ufeff"):
        code = code[1:]
    if "\r" in code:
        code = code.replace("\r\n", "\n").replace("\r", "\n")
    return code


def remember(code, name):
    """Makes the lines of a cell known to tracebacks. Without a time stamp, linecache never drops
    them."""
    linecache.cache[name] = (len(code), None, [line + "\n" for line in code.split("\n")], name)


def place_of_nul(code):
    before = code[:code.index("\x00")]
    line = code.split("\n")[before.count("\n")].split("\x00")[0]
    return before.count("\n") + 1, len(line) + 1, line + "\n"


def ends_with_semicolon(code, last):
    """After a statement only brackets, comments and semicolons can follow."""
    lines = code.split("\n")
    rest = lines[last.end_lineno - 1].encode()[last.end_col_offset:].decode("utf-8", "replace")
    rest = "\n".join([rest] + lines[last.end_lineno:])
    return ";" in _comment.sub("", rest)
