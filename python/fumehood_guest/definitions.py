"""Which statements of the session's cells define a name of `__main__`, and what they refer to.

For a process that has to make a function or class anew (children.py). Nothing is noted while cells
run: the sources are in linecache, and they are read when somebody asks. A definition is a `def` or
`class`, or an assignment (`Point = namedtuple(...)`, `f = lambda: 1`, `f = lru_cache(f)`), at the
top level or inside an `if`, `try`, `with` or loop there. Of several with the same name it is the
one whose lines the value's code has; where no line says so, the last.
"""
__builtins__ = dict(__builtins__)

import __future__ as future
import ast
import dis
import functools
import inspect
import linecache
import types

from fumehood_guest.traceback_text import of_session

FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
BLOCKS = "body", "orelse", "handlers", "finalbody", "cases"
CO_OPTIMIZED = inspect.CO_OPTIMIZED
AT_ONCE = "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"  # code that runs where it stands


# ---------------------------------------------------------------- reading cells

@functools.lru_cache(maxsize=4096)
def parse(text):
    """The bindings of a cell as [(name, statement)], the modules that it imports as whole names,
    and the flags of its __future__ imports. Nothing of what is no Python."""
    bindings, modules, flags = [], [], 0
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return bindings, modules, flags
    todo = tree.body[::-1]
    while todo:
        node = todo.pop()
        if isinstance(node, FUNCTIONS):
            bindings.append((node.name, node))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if len(targets) == 1 and isinstance(targets[0], ast.Name) and node.value is not None:
                bindings.append((targets[0].id, node))
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names if alias.asname is None]
        elif isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                flags |= getattr(future, alias.name).compiler_flag
        elif isinstance(node, ast.Expr):
            inner = parse(magic_body(node.value))
            bindings += inner[0]
            modules += inner[1]
        else:
            for block in BLOCKS:
                todo += getattr(node, block, [])[::-1]
    return bindings, modules, flags


def magic_body(call):
    """The code of a cell magic as IPython has translated it; it may define things too (%%time)."""
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) \
            and call.func.attr == "run_cell_magic" and len(call.args) == 3 \
            and isinstance(call.args[2], ast.Constant) and isinstance(call.args[2].value, str):
        return call.args[2].value
    return ""


def source_of(file):
    return "".join(linecache.getlines(file))


def files_of(places):
    """The cells in order, and the files that a value's code names (of %run)."""
    files = [file for file in list(linecache.cache) if of_session(file)]
    return [file for file, _ in places if file not in files] + files


# ---------------------------------------------------------------- finding a definition

def places_of(value):
    """[(file, line)] of the code that a function or the methods of a class consist of."""
    try:
        value = inspect.unwrap(value)
    except Exception:
        return []
    found = [value]
    if isinstance(value, type):
        found = [getattr(member, "__func__", member) for member in list(vars(value).values())]
        found = [member for member in found if isinstance(member, types.FunctionType)
                 and member.__qualname__.startswith(value.__qualname__ + ".")]
    codes = [getattr(member, "__code__", None) for member in found]
    return [(code.co_filename, code.co_firstlineno) for code in codes
            if isinstance(code, types.CodeType)]


def covers(file, node, place):
    first = min([node.lineno] + [line.lineno for line in getattr(node, "decorator_list", ())])
    return place[0] == file and first <= place[1] <= node.end_lineno


def refers_to_itself(name, node):
    return isinstance(node, (ast.Assign, ast.AnnAssign)) and any(
        isinstance(part, ast.Name) and part.id == name for part in ast.walk(node.value))


def find(name, value, flags):
    """The code objects that define the name when they are executed one after the other, and their
    sources as {file: text}; None when no cell defines it."""
    places = places_of(value)
    found = []
    for file in files_of(places):
        text = source_of(file)
        if name in text:
            found += [(file, node) for bound, node in parse(text)[0] if bound == name]
    if not found:
        return None
    chosen = len(found) - 1
    for index, (file, node) in enumerate(found):
        if any(covers(file, node, place) for place in places):
            chosen = index
    last = chosen
    while chosen > 0 and refers_to_itself(name, found[chosen][1]):
        chosen -= 1
    if type(value) is not types.FunctionType or hasattr(value, "__wrapped__"):
        while last + 1 < len(found) and refers_to_itself(name, found[last + 1][1]):
            last += 1
    codes, texts = [], {}
    for file, node in found[chosen:last + 1]:
        texts[file] = text = source_of(file)
        codes.append(compile(ast.Module([node], []), file, "exec", flags | parse(text)[2], True))
    return codes, texts


def modules_below(name):
    """Whole names of the modules that cells have imported as part of this one (`import a.b`)."""
    found = {}
    for file in files_of(()):
        text = source_of(file)
        if name + "." in text:
            found.update((module, None) for module in parse(text)[1]
                         if module.startswith(name + "."))
    return list(found)


# ---------------------------------------------------------------- what code refers to

def names_of(code):
    """Global names of a definition's code: those needed to execute it, and those of functions that
    are only called later."""
    now, later = {}, {}
    todo = [(code, now)]
    while todo:
        code, into = todo.pop()
        for step in dis.get_instructions(code):
            if "GLOBAL" in step.opname or step.opname == "LOAD_NAME":
                into[step.argval] = None
        for part in code.co_consts:
            if isinstance(part, types.CodeType):
                at_once = not part.co_flags & CO_OPTIMIZED or part.co_name in AT_ONCE \
                    or part.co_name.startswith("<generic parameters")
                todo.append((part, into if at_once else later))
    return list(now), list(later)
