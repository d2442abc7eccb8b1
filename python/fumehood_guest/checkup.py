"""What `fumehood doctor` asks of a Python, and of a session.

As a program (`python -I checkup.py`) it prints, as JSON, what the Python is and whether Fumehood's
extension loads in it: also where no zygote could start. In a session, print_fonts() draws Chinese
and tells what became of it, because a list of fonts does not say whether a figure comes out right.
"""
import json
import os
import stat
import sys

SAMPLE = "\u4e2d\u6587"


def describe():
    return {
        "version": ".".join(map(str, sys.version_info[:3])),
        "implementation": sys.implementation.name,
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "extension": extension_error(),
        "open": open_to_others(),
        "owner": strange_owner(),
    }


def extension_error():
    """Why the extension cannot be loaded, or None."""
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    try:
        import fumehood_guest._guest  # noqa: F401
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)
    finally:
        del sys.path[0]
    return None


def places():
    """What is executed when this Python starts and imports, as far as it is there."""
    for path in [sys.prefix, os.path.realpath(sys.executable), sys.executable] + sys.path:
        try:
            yield path, os.stat(path)
        except OSError:
            continue


def open_to_others():
    """The first of them that anybody may write to, or None."""
    for path, status in places():
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            return path
    return None


def strange_owner():
    """The first of them that belongs neither to us nor to root, with its uid; or None."""
    for path, status in places():
        if status.st_uid not in (0, os.geteuid()):
            return {"path": path, "uid": status.st_uid}
    return None


def describe_fonts():
    """In a session: which fonts its figures have."""
    try:
        import matplotlib
        import matplotlib.font_manager as font_manager
    except ImportError:
        return {"matplotlib": None}
    from fumehood_guest import fonts
    found = fonts.cjk_font(font_manager, [])
    deja_vu = os.path.join(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
    return {
        "matplotlib": matplotlib.__version__,
        "known": len(font_manager.fontManager.ttflist),
        "cjk": found and {"name": found.name, "path": str(found.fname)},
        "drawn": draws(SAMPLE),
        "dejavu": deja_vu if fonts.has_glyph(font_manager, deja_vu, 0x2212) else None,
        "unknown": None if found else unknown_font(fonts, font_manager),
    }


def draws(text):
    """Whether each character of a text gets its glyph in a figure."""
    import io
    import warnings
    from matplotlib.figure import Figure
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure = Figure()
        figure.text(0.5, 0.5, text)
        figure.savefig(io.BytesIO(), format="png")
    return not any("glyph" in str(warning.message).lower() for warning in caught)


def unknown_font(fonts, font_manager):
    """A font with Chinese glyphs that is there and that matplotlib's list, made when the zygote
    began or earlier, does not have; or None."""
    known = {str(entry.fname) for entry in font_manager.fontManager.ttflist}
    for path in sorted(map(str, font_manager.findSystemFonts())):
        if path not in known and fonts.has_glyph(font_manager, path, fonts.CJK):
            return path
    return None


def print_fonts():
    print(json.dumps(describe_fonts()))


if __name__ == "__main__":
    print(json.dumps(describe()))
