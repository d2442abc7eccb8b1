"""Which modules a zygote may import: those of its own environment.

sys.path can lead out of it. The common case is an editable install (`pip install -e`): a .pth file
or an import hook in site-packages names the folder of a project, which may well be a workspace.
What a session writes there would then be imported into the zygote of the next one, outside of any
box. So while the zygote imports, a finder before all others looks at what they have found and
refuses it unless it lies in the standard library, in a site-packages, or in the engine itself.
Guests import such modules as always: they do it in their box.

The name of the file decides, not where symlinks lead: what lies in site-packages was put there by
an installer (uv and Nix make symlinks). Code that a .pth file itself runs at the interpreter's
start comes before all this; site-packages is the user's own.
"""
__builtins__ = dict(__builtins__)

import os
import site
import sys


def folders(package):
    """The folders of this environment that hold modules, each with a slash at its end."""
    found = [os.path.dirname(os.__file__), package]
    found += site.getsitepackages()
    found += [entry for entry in sys.path if os.path.basename(entry) == "lib-dynload"]
    return tuple(os.path.join(os.path.normpath(path), "") for path in found)


class Outside(ImportError):
    """The module lies outside of the environment."""


class Guard:
    """Stands first in sys.meta_path between __enter__ and __exit__."""

    def __init__(self, package):
        self.folders = folders(package)

    def __enter__(self):
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, *error):
        sys.meta_path.remove(self)

    def find_spec(self, name, path=None, target=None):
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                self.check(name, spec)
                return spec
        return None

    def check(self, name, spec):
        places = list(spec.submodule_search_locations or ())
        if spec.has_location and spec.origin:
            places.append(spec.origin)
        for place in places:
            if not os.path.normpath(place).startswith(self.folders):
                raise Outside("%s lies outside of the environment: %s" % (name, place), name=name)
