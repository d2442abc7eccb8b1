"""The shell: compiles a cell, runs it in the session's namespace, shows its last value.

Our own and not IPython's run_cell, because it is several times cheaper and does the same for plain
Python. The namespace is the module `__main__`. Each cell has a file name of its own, `<cell N>`
with N its execution count, whose lines linecache knows: so tracebacks, pdb and inspect show the
code that ran. `from __future__` imports hold for the rest of the session, as in Python's own
interactive mode.
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
    """A compiled cell: its statements, and its last expression if it ends with one."""

    __slots__ = ("body", "last", "in_loop", "hidden")

    def __init__(self):
        self.body = self.last = None
        self.in_loop = False  # runs whole in the session's event loop
        self.hidden = False   # ends with a semicolon: the value is not shown


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
        self.inputs = [""]
        self.outputs = {}
        self.ipython = None      # the bridge, where IPython is in use
        self.wanted_ipython = lambda code, failed: None
        self.module = types.ModuleType("__main__")
        self.ns = self.module.__dict__
        self.renew_namespace()

    def renew_namespace(self):
        """What a program must find in its namespace, also after globals().clear()."""
        self.ns.update({"__name__": "__main__", "__builtins__": builtins, "In": self.inputs,
                        "Out": self.outputs, "_": "", "__": "", "___": ""})
        self.last_shown = ""

    # ---- compiling

    def compile(self, code, name):
        flags = self.flags | AWAIT
        tree = _compile(code, name, "exec", flags | ONLY_AST, True)
        program = Program()
        statements = tree.body
        last = None
        if statements and type(statements[-1]) is _Expr:
            last = statements.pop()
        names = ()
        if statements:
            program.body = _compile(tree, name, "exec", flags, True)
            self.flags |= program.body.co_flags & FUTURES
            names = program.body.co_names
            program.in_loop = bool(program.body.co_flags & CO_COROUTINE)
        if last is not None:
            program.last = _compile(_Expression(last.value), name, "eval", self.flags | AWAIT, True)
            program.hidden = ";" in code and ends_with_semicolon(code, last)
            names += program.last.co_names
            program.in_loop |= bool(program.last.co_flags & CO_COROUTINE)
        if names and not program.in_loop:
            program.in_loop = not asyncio_support.WHOLE_IN_LOOP.isdisjoint(names)
        return program

    def prepare(self, code, name):
        """Compiles a cell. What is no plain Python may be so after IPython has translated it; what
        is neither keeps its first error."""
        if "\x00" in code:
            raise CompileError(SyntaxError("source code cannot contain null bytes",
                                           (name, *place_of_nul(code))))
        try:
            return self.compile(code, name)
        except Exception as error:
            first = error
        bridge = self.wanted_ipython(code, True)
        if bridge is not None:
            translated = bridge.translate(code)
            if translated is not None and translated != code:
                try:
                    program = self.compile(translated, name)
                except Exception:
                    pass
                else:
                    remember(translated, name)
                    return program
        raise CompileError(first)

    # ---- running

    def run(self, code):
        """Runs one cell. Exceptions of the cell come out; CompileError when it never ran."""
        self.count += 1
        code = normalise(code)
        name = "<cell %d>" % self.count
        remember(code, name)
        if "__name__" not in self.ns:
            self.renew_namespace()
        self.inputs.append(code)
        bridge = self.wanted_ipython(code, False)
        if bridge is not None:
            bridge.note(code)
        program = self.prepare(code, name)
        if bridge is not None:
            bridge.before_cell(code)
        try:
            if program.in_loop:
                self.loops.run_cell(lambda: self._in_loop(program))
            else:
                asyncio_support.shared.run(self._plain, program)
        finally:
            if bridge is not None:
                bridge.after_cell()

    def _plain(self, program):
        if program.body is not None:
            _exec(program.body, self.ns)
        if program.last is not None:
            value = _eval(program.last, self.ns)
            if value is not None:
                self.show(value, program.hidden)

    async def _in_loop(self, program):
        value = None
        if program.body is not None:
            pending = _eval(program.body, self.ns)
            if program.body.co_flags & CO_COROUTINE:
                await pending
        if program.last is not None:
            value = _eval(program.last, self.ns)
            if program.last.co_flags & CO_COROUTINE:
                value = await value
        if value is not None:
            self.show(value, program.hidden)

    def show(self, value, hidden):
        """Keeps a cell's value in `_`, `__`, `___` and Out, and shows it unless it is hidden."""
        ns = self.ns
        if ns.get("_", self.last_shown) is self.last_shown:  # else the program uses the name itself
            ns["___"] = ns.get("__")
            ns["__"] = self.last_shown
            ns["_"] = self.last_shown = value
        if value is not self.outputs:
            self.outputs[self.count] = value
            if len(self.outputs) > OUTPUTS_MAX:
                del self.outputs[next(iter(self.outputs))]
        if not hidden:
            display.show_result(value, self.count)

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
