"""Results as HTML, for notebooks: `_repr_html_`.

What a cell printed or returned is hostile: it must be shown, and must not run. Text is escaped;
images are <img> with a data: URL, in which also an SVG runs nothing; HTML of the cell stands in an
<iframe sandbox> without any permission, as its srcdoc: no script, no form, no origin.
"""
from __future__ import annotations

import base64
import html
import re
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from .answer import Answer
    from .result import Output, Result

TEXT_CHARS_MAX = 100_000
_CONTROL = re.compile(r"\x1b\[[ -?]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
_PRE = "margin:0;white-space:pre-wrap;word-break:break-word;"


def text(value: str, style: str = "") -> str:
    """Text, with its line breaks; escape sequences are taken out."""
    if len(value) > TEXT_CHARS_MAX:
        half = TEXT_CHARS_MAX // 2
        value = "%s\n… %d characters are not shown …\n%s" % (
            value[:half], len(value) - 2 * half, value[-half:])
    return '<pre style="%s%s">%s</pre>' % (_PRE, style, html.escape(_CONTROL.sub("", value)))


def image(mime: str, data: bytes) -> str:
    return '<img alt="" style="max-width:100%%" src="data:%s;base64,%s">' % (
        html.escape(mime), base64.b64encode(data).decode("ascii"))


def frame(source: str) -> str:
    """HTML that may do nothing but look."""
    return ('<iframe sandbox="" referrerpolicy="no-referrer" style="width:100%%;height:20em;'
            'border:1px solid #ccc" srcdoc="%s"></iframe>' % html.escape(_policed(source)))


def _policed(source: str) -> str:
    """Also nothing is fetched: a picture's address would tell that, and where, it is looked at."""
    return ('<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
            'img-src data:; style-src \'unsafe-inline\'; font-src data:">' + source)


def _joined(value: Any) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value)


def output(item: Output) -> str:
    if item.kind in ("stderr", "error"):
        return text(item.text, "background:#fdd;color:#000;")
    if item.kind == "stdout":
        return text(item.text)
    if item.images:
        return image(item.images[0].mime, item.images[0].data)
    if "text/html" in item.data:
        return frame(_joined(item.data["text/html"]))
    return text(item.text)


def result(item: Result) -> str:
    parts: List[str] = [output(one) for one in item.outputs]
    if not item.ok and not any(one.error for one in item.outputs):
        parts.append(text(str(item.error), "background:#fdd;color:#000;"))
    if not parts:
        parts.append(text("(no output)", "color:#888;"))
    return '<div class="fumehood-result">%s</div>' % "".join(parts)


def answer(item: Answer) -> str:
    parts: List[str] = [text(item.text or "(no output)", "" if item.success
                             else "background:#fdd;color:#000;")]
    notes = [item.known] + ["suspicious: " + one for one in item.suspicions]
    parts.append(text("\n".join(notes), "color:#888;"))
    if item.code:
        parts.append("<details><summary>the program</summary>%s</details>" % text(item.code))
    return '<div class="fumehood-answer">%s</div>' % "".join(parts)
