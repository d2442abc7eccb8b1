"""What of the file system an environment consists of, found without running anything of it.

Run by the pool as `<python> -I -S layout.py`, outside of any box, before the zygote: -S leaves
`site` out, and with it every .pth file and every package. So what is told here comes from
pyvenv.cfg, from the interpreter itself, and from .pth files read as text. Prints a JSON array of
absolute paths; they are all that the zygote will see beyond the system's own directories
(src/sandbox/nursery.h).

An editable install names the folder of a project, in a .pth file or in the table of an import hook
that setuptools writes. Such a folder is shown too, unless its path has a hidden part (~/.ssh is no
package, whatever a .pth file says).
"""
import ast
import json
import os
import sys


def read_config(folder):
    """pyvenv.cfg as a dict, or None."""
    try:
        with open(os.path.join(folder, "pyvenv.cfg"), encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def prefixes():
    """The prefix of this environment first, then those it is built on."""
    program = os.path.dirname(sys.executable)
    found = []
    for folder in (os.path.dirname(program), program):
        config = read_config(folder)
        if config is not None:
            found.append(folder)
            if config.get("home"):
                found.append(os.path.dirname(config["home"]))
            break
    return found + [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]


def site_folders(prefix):
    """The folders of `prefix` that `site` would look into for .pth files."""
    version = "python%d.%d" % sys.version_info[:2]
    names = [(sys.platlibdir, version, "site-packages"), ("lib", version, "site-packages"),
             ("lib", version + "t", "site-packages"), ("lib", "python3", "dist-packages"),
             ("local", "lib", version, "dist-packages")]
    return [path for path in (os.path.join(prefix, *name) for name in names)
            if os.path.isdir(path)]


def read_text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""


def in_pth(folder, text):
    for line in text.splitlines():
        if line and not line.startswith(("#", "import ", "import\t")):
            yield os.path.join(folder, line.strip())


def in_finder(text):
    """The values of the table MAPPING in an import hook of setuptools."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in tree.body:
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        if any(getattr(target, "id", "") == "MAPPING" for target in targets):
            try:
                yield from map(str, ast.literal_eval(node.value).values())
            except (ValueError, AttributeError):
                return


def is_fit(path):
    hidden = any(part.startswith(".") for part in path.split(os.sep))
    return os.path.isabs(path) and os.path.exists(path) and not hidden


def editable(folder):
    """Paths outside that the packages of this site folder live in."""
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        found = ()
        if name.endswith(".pth"):
            found = in_pth(folder, read_text(path))
        elif name.startswith("__editable__") and name.endswith("_finder.py"):
            found = in_finder(read_text(path))
        for place in found:
            place = os.path.normpath(place)
            if is_fit(place):
                yield place


def layout():
    own = prefixes()
    wanted = own + [os.path.dirname(sys.executable),
                    os.path.dirname(os.path.realpath(sys.executable)),
                    os.path.dirname(os.path.abspath(__file__))]
    wanted += [path for path in sys.path if os.path.isabs(path) and os.path.exists(path)]
    for prefix in dict.fromkeys(own):
        for folder in site_folders(prefix):
            wanted.append(folder)
            wanted += editable(folder)
    paths = set()
    for path in wanted:
        paths.add(os.path.normpath(path))
        paths.add(os.path.realpath(path))
    kept = []
    for path in sorted(paths):
        inside = any(path == above or path.startswith(above + "/") for above in kept + ["/usr"])
        if path != "/" and not inside:
            kept.append(path)
    return kept


if __name__ == "__main__":
    json.dump(layout(), sys.stdout)
