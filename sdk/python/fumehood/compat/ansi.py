"""Terminal colours as HTML (ECMA-48 §8.3.117, SGR), and text as a terminal would leave it."""
from __future__ import annotations

import html
import re
from typing import Dict, List, Optional

_SEQUENCE = re.compile(r"\x1b(?:\[([0-9;:]*)([ -/]*[@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_COLOURS = ("#000", "#a00", "#0a0", "#a50", "#00a", "#a0a", "#0aa", "#aaa",
            "#555", "#f55", "#5f5", "#ff5", "#55f", "#f5f", "#5ff", "#fff")


def strip(text: str) -> str:
    """Text without escape sequences."""
    return _SEQUENCE.sub("", text)


def settle(text: str) -> str:
    """Text as it stands at the end, where a carriage return has written over the line."""
    if "\r" not in text:
        return text
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part):]
        lines.append(shown)
    return "\n".join(lines)


def _colour_256(number: int) -> Optional[str]:
    if number < 16:
        return _COLOURS[number] if number >= 0 else None
    if number < 232:
        parts = ((number - 16) // 36, (number - 16) // 6 % 6, (number - 16) % 6)
        return "#" + "".join("%02x" % (55 + 40 * part if part else 0) for part in parts)
    return "#" + "%02x" % (8 + 10 * (number - 232)) * 3 if number < 256 else None


def _extended(codes: List[int], at: int) -> "tuple[Optional[str], int]":
    """The colour behind 38 or 48, and how many codes it takes."""
    if codes[at:at + 1] == [5] and len(codes) > at + 1:
        return _colour_256(codes[at + 1]), 2
    if codes[at:at + 1] == [2] and len(codes) > at + 3:
        return "#" + "".join("%02x" % min(code, 255) for code in codes[at + 1:at + 4]), 4
    return None, 1


def _apply(style: Dict[str, str], codes: List[int]) -> None:
    at = 0
    while at < len(codes):
        code = codes[at]
        at += 1
        key = "color" if code < 40 or 90 <= code < 98 else "background-color"
        if code == 0:
            style.clear()
        elif code in (1, 3, 4):
            style.update(({"font-weight": "bold"}, {"font-style": "italic"},
                          {"text-decoration": "underline"})[(1, 3, 4).index(code)])
        elif code in (22, 23, 24):
            style.pop(("font-weight", "font-style", "text-decoration")[code - 22], None)
        elif code in (39, 49):
            style.pop(key, None)
        elif code in (38, 48):
            colour, taken = _extended(codes, at)
            at += taken
            if colour:
                style[key] = colour
        elif 30 <= code < 38 or 40 <= code < 48:
            style[key] = _COLOURS[code % 10]
        elif 90 <= code < 98 or 100 <= code < 108:
            style[key] = _COLOURS[8 + code % 10]


def to_html(text: str) -> str:
    """Text with its colours, as one <pre>; everything in it is escaped."""
    style: Dict[str, str] = {}
    made, at = [], 0

    def add(part: str) -> None:
        shown = html.escape(_CONTROL.sub("", part))
        if shown and style:
            shown = '<span style="%s">%s</span>' % (
                ";".join("%s:%s" % item for item in style.items()), shown)
        made.append(shown)
    for match in _SEQUENCE.finditer(text):
        add(text[at:match.start()])
        at = match.end()
        if match.group(2) == "m":
            _apply(style, [int(code or 0) for code in re.split("[;:]", match.group(1) or "0")])
    add(text[at:])
    return "<pre>%s</pre>" % "".join(made)
