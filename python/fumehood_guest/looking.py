"""Looking at the session's values without running more of its code than a question needs.

`resolve` finds the value of a short expression: names, attributes, subscripts with constants,
literals; never a call. An attribute is first looked up without the object's own code
(inspect.getattr_static); what only its code knows (a property, `__getattr__`) is asked for with
getattr, as every completer does.
"""
__builtins__ = dict(__builtins__)

import ast
import builtins
import inspect
import keyword
import types

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType,
             types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
             types.ClassMethodDescriptorType, staticmethod, classmethod)
INDEXED = (dict, list, tuple, str, bytes, range)
EXPRESSION_CHARS_MAX = 2000


class Unknown(Exception):
    """The expression has no value that can be found without running it."""


def resolve(text, ns):
    """The value of an expression in the namespace; Unknown."""
    if len(text) > EXPRESSION_CHARS_MAX:
        raise Unknown
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Unknown from None
    return _value(tree, ns)


def name_value(name, ns):
    if name in ns:
        return ns[name]
    try:
        return vars(builtins)[name]
    except KeyError:
        raise Unknown from None


def _value(node, ns):
    if isinstance(node, ast.Name):
        return name_value(node.id, ns)
    if isinstance(node, ast.Attribute):
        return attribute(_value(node.value, ns), node.attr)
    if isinstance(node, ast.Subscript):
        return _item(_value(node.value, ns), node.slice)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise Unknown from None


def attribute(value, name):
    try:
        return getattr(value, name)
    except Exception:
        raise Unknown from None


def _item(value, index):
    """Subscripts of the language's own containers only, and of tables by a column's name."""
    if isinstance(index, getattr(ast, "Index", ())):  # Python 3.8's form, which 3.9 no longer makes
        index = index.value
    try:
        key = ast.literal_eval(index)
        if type(value) in INDEXED or is_table(value) and isinstance(key, str):
            return value[key]
    except Exception:
        pass
    raise Unknown


def root_of(value):
    """The top-level package that a value's class comes from; "" when its class does not say."""
    module = module_of(type(value))
    return module.split(".")[0]


def module_of(kind):
    try:
        module = type.__getattribute__(kind, "__module__")
    except Exception:
        return ""
    return module if type(module) is str else ""


def full_name(kind):
    """A class's name with its module."""
    module = module_of(kind)
    name = type.__dict__["__qualname__"].__get__(kind)
    return name if module in ("", "builtins") else module + "." + name


def is_table(value):
    return root_of(value) in ("pandas", "polars") and hasattr(type(value), "columns")


def static_attribute(value, name):
    """The attribute as it lies in the object or its class, without running anything; Unknown."""
    try:
        return inspect.getattr_static(value, name)
    except Exception:
        raise Unknown from None


def kind_of(value):
    """Jupyter's word for what a completion is: module, class, function, instance."""
    if isinstance(value, types.ModuleType):
        return "module"
    if isinstance(value, type):
        return "class"
    if isinstance(value, FUNCTIONS):
        return "function"
    if isinstance(value, property):
        return "property"
    return "instance"


def kind_of_name(name, ns):
    """The same for a name of the session."""
    if keyword.iskeyword(name):
        return "keyword"
    try:
        return kind_of(name_value(name, ns))
    except Unknown:
        return ""


def kind_of_attribute(value, name):
    try:
        return kind_of(static_attribute(value, name))
    except Unknown:
        return "instance"


def hidden(shell):
    """Names of the namespace that the session's code has not made."""
    ip = shell.ipython.ip if shell.ipython is not None else None
    names = set(getattr(ip, "user_ns_hidden", None) or ())
    names.update(shell.own_names)
    return names
