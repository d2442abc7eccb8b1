"""Fonts of figures: those lying in the workspace, a fallback for Chinese, Japanese and Korean, a
minus sign in every font, and one warning instead of hundreds.

Done once, when the first figure is made: a session without figures pays nothing. Matplotlib (3.6
and later) takes each glyph from the first of a list of fonts that has it. To the list that it finds
for a text, two are added here: a font with CJK glyphs, if there is one, and DejaVu Sans, which
comes with matplotlib and has U+2212. So it does not matter which font, style or rcParams the
program has chosen. Names that notebooks ask for and that only other systems have (SimHei, Meiryo)
stand for the CJK font.
"""
__builtins__ = dict(__builtins__)

import logging
import os
import time

from fumehood_guest import imports
from fumehood_guest.wire import state

SUFFIXES = (".ttf", ".otf", ".ttc")
FONTS_MAX, FOLDERS_MAX, ENTRIES_MAX, DEPTH_MAX = 64, 200, 5000, 3
FONT_BYTES_MAX = 64 << 20
SCAN_S = 0.1
CJK = 0x4E2D  # a character that each of the three languages has

# By preference; fonts of the workspace that have the character come first.
FAMILIES = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK TC", "Noto Sans CJK KR", "Noto Sans SC",
    "Noto Sans JP", "Noto Sans KR", "Noto Sans TC", "Source Han Sans SC", "Source Han Sans CN",
    "Source Han Sans", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Droid Sans Fallback",
    "AR PL UMing CN", "AR PL UKai CN", "IPAGothic", "IPAexGothic", "TakaoGothic", "VL Gothic",
    "NanumGothic", "UnDotum", "Noto Serif CJK SC", "Unifont", "SimHei", "Microsoft YaHei")
# Asked for by name in notebooks written elsewhere.
ALIASES = FAMILIES + (
    "SimSun", "NSimSun", "KaiTi", "FangSong", "STHeiti", "STSong", "Heiti SC", "Heiti TC",
    "PingFang SC", "PingFang TC", "PingFang HK", "Hiragino Sans", "Hiragino Sans GB", "Meiryo",
    "MS Gothic", "MS Mincho", "Yu Gothic", "Malgun Gothic", "AppleGothic", "Arial Unicode MS")
NO_GLYPH = ("No font here has a glyph for some characters, the first is %r (U+%04X). "
            "Put a font that has it (.ttf, .otf) into the workspace and restart the session.")

_done = []
_warned = [0]  # the cell that has been warned


def install():
    """Before the session makes its first figure."""
    imports.when_imported("matplotlib.figure", _wait_for_first)


def _wait_for_first(module):
    plain = module.Figure.__init__

    def first(self, *args, **kwargs):
        module.Figure.__init__ = plain
        try:
            prepare()
        except Exception:  # figures without these fonts are better than none
            pass
        plain(self, *args, **kwargs)

    first.__doc__, first.__wrapped__ = plain.__doc__, plain
    module.Figure.__init__ = first


def prepare():
    """Registers fonts, and the fallbacks for all texts."""
    if _done:
        return
    _done.append(True)
    import matplotlib.font_manager as font_manager
    manager = font_manager.fontManager
    own = register(manager, workspace_fonts(os.getcwd()))
    fallback = cjk_font(font_manager, own)
    if fallback is not None:
        add_aliases(manager, fallback)
    add_fallbacks(font_manager, fallback)
    logging.getLogger("matplotlib.font_manager").addFilter(Once())
    from matplotlib import _text_helpers
    if hasattr(_text_helpers, "warn_on_missing_glyph"):
        _text_helpers.warn_on_missing_glyph = warn_on_missing_glyph


def workspace_fonts(top):
    """Paths of font files beneath a folder, as far as a short look finds them."""
    found, entries_seen = [], 0
    folders = [(top, 0)]
    until = time.monotonic() + SCAN_S
    for folder, depth in folders:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    entries_seen += 1
                    if entries_seen > ENTRIES_MAX or time.monotonic() > until:
                        return found
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        if depth < DEPTH_MAX and len(folders) < FOLDERS_MAX \
                                and entry.name not in ("node_modules", "site-packages"):
                            folders.append((entry.path, depth + 1))
                    elif entry.name.lower().endswith(SUFFIXES) and len(found) < FONTS_MAX \
                            and 0 < entry.stat().st_size <= FONT_BYTES_MAX:
                        found.append(entry.path)
        except OSError:
            continue
    return found


def register(manager, paths):
    """Makes fonts known by their names; returns the entries of those that are fonts."""
    before = len(manager.ttflist)
    for path in sorted(paths):
        try:
            manager.addfont(path)
        except Exception:
            continue
    return manager.ttflist[before:]


def has_glyph(font_manager, path, character):
    try:
        return character in font_manager.get_font(path).get_charmap()
    except Exception:
        return False


def cjk_font(font_manager, own):
    """The entry of the font to fall back to, or None."""
    for entry in own:
        if has_glyph(font_manager, entry.fname, CJK):
            return entry
    known = {}
    for entry in font_manager.fontManager.ttflist:
        if entry.name in FAMILIES and entry.style == "normal":
            best = known.get(entry.name)
            if best is None or _weight(entry) < _weight(best):
                known[entry.name] = entry
    for name in FAMILIES:
        if name in known and has_glyph(font_manager, known[name].fname, CJK):
            return known[name]
    return None


def _weight(entry):
    """How far from regular."""
    weight = entry.weight if isinstance(entry.weight, int) else \
        {"normal": 400, "regular": 400, "medium": 500, "bold": 700}.get(entry.weight, 600)
    return abs(weight - 400)


def add_aliases(manager, entry):
    import copy
    import dataclasses
    names = {known.name for known in manager.ttflist}
    for name in ALIASES:
        if name not in names:
            try:
                alias = dataclasses.replace(entry, name=name)
            except TypeError:
                alias = copy.copy(entry)
                alias.name = name
            manager.ttflist.append(alias)
    finder = getattr(manager, "_findfont_cached", None)
    if hasattr(finder, "cache_clear"):
        finder.cache_clear()


def add_fallbacks(font_manager, entry):
    manager = font_manager.fontManager
    plain = getattr(manager, "_find_fonts_by_props", None)
    if plain is None:  # before 3.6 a text has one font
        return
    import matplotlib
    last = os.path.join(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
    extra = [entry.fname] if entry is not None else []
    extra += [last] if os.path.exists(last) else []
    def find(prop, fontext="ttf", *args, **kwargs):
        found = plain(prop, fontext, *args, **kwargs)
        if fontext != "ttf":
            return found
        known = {str(path) for path in found}
        return found + [path for path in extra if path not in known]

    manager._find_fonts_by_props = find


class Once(logging.Filter):
    """Lets each message of the font manager through once a session."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def filter(self, record):
        message = record.getMessage()
        if message in self.seen or len(self.seen) > 100:
            return False
        self.seen.add(message)
        return True


def warn_on_missing_glyph(codepoint, fontnames):
    """In place of a warning for each character: one a cell."""
    if _warned[0] == state.cell:
        return
    _warned[0] = state.cell
    import warnings
    warnings.warn_explicit(NO_GLYPH % (chr(codepoint), codepoint), UserWarning, "<figure>", 1)
