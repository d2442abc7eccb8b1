"""Results as a fold over events, and as HTML: what a cell wrote is shown and does nothing."""
import base64

import pytest

import fumehood
from fumehood import html
from fumehood.events import with_blobs
from fumehood.result import Collector, Event, Output, Result
from fumehood.run import blobs_of

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
BAD = "<script>alert(1)</script><img src=x onerror=alert(1)>"


def fold(*events):
    collector = Collector()
    for number, event in enumerate(events, 1):
        collector.take(Event({"seq": number, "cell": "c1", **event}))
    collector.take(Event({"seq": 99, "type": "finished", "cell": "c1", "status": "ok",
                          "state": "kept"}))
    return collector.result


def stream(text, name="stdout"):
    return {"type": "stream", "name": name, "text": text}


def test_adjacent_text_is_one_output():
    result = fold(stream("a"), stream("b"), stream("e", "stderr"), stream("c"))
    assert [(one.kind, one.text) for one in result.outputs] == [
        ("stdout", "ab"), ("stderr", "e"), ("stdout", "c")]
    assert result.stdout == "abc" and result.stderr == "e"


def test_an_event_is_taken_once():
    collector = Collector()
    event = Event({"seq": 1, **stream("a")})
    assert collector.take(event) and not collector.take(event)


def test_clear_and_update():
    result = fold(stream("a"), {"type": "clear", "wait": True}, stream("b"),
                  {"type": "display", "data": {"text/plain": "old"}, "metadata": {},
                   "display_id": "d"},
                  {"type": "update_display", "data": {"text/plain": "new"}, "metadata": {},
                   "display_id": "d"}, stream("c"))
    assert [one.text for one in result.outputs] == ["b", "new", "c"] and result.stdout == "abc"
    assert fold(stream("a"), {"type": "clear", "wait": False}).outputs == []
    assert [one.text for one in fold(stream("a"), {"type": "clear", "wait": True}).outputs] == ["a"]


def test_members_that_are_unknown_or_missing_do_no_harm():
    result = fold({"type": "later", "x": 1}, {"type": "error"}, {"type": "display"},
                  {"type": "result", "data": {"image/png": "no base64 \0"}})
    assert result.error.name == "" and result.images == [] and result.result == ""
    assert Result().error.name == "Died" and Result().state == "gone"


def test_as_outputs_of_a_notebook():
    outputs = [one.to_notebook() for one in fold(
        stream("a"), {"type": "result", "data": {"text/plain": "1"}, "metadata": {},
                      "execution_count": 4},
        {"type": "error", "ename": "E", "evalue": "v", "traceback": ["t"]}).outputs]
    assert outputs == [
        {"output_type": "stream", "name": "stdout", "text": "a"},
        {"output_type": "execute_result", "data": {"text/plain": "1"}, "metadata": {},
         "execution_count": 4},
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["t"]}]


def test_the_html_runs_nothing():
    shown = fold(stream(BAD), stream("\x1b[31m" + BAD, "stderr"),
                 {"type": "display", "data": {"text/plain": "t", "text/html": BAD}},
                 {"type": "display", "data": {"text/plain": BAD}},
                 {"type": "display", "data": {"image/svg+xml": "<svg onload='alert(1)'>"}},
                 {"type": "error", "ename": BAD, "evalue": BAD, "traceback": [BAD]},
                 )._repr_html_()
    assert "<script" not in shown and "<svg" not in shown and "onerror=alert" not in shown.replace(
        "&lt;img src=x onerror=alert(1)&gt;", "")
    assert '<iframe sandbox=""' in shown and "default-src" in shown and "\x1b" not in shown
    assert "data:image/svg+xml;base64," in shown


@pytest.mark.parametrize("mime", ["image/png", "image/jpeg", 'x" onload="alert(1)'])
def test_an_image_is_data(mime):
    shown = html.image(mime, b'"><script>')
    assert shown.count('"') == 6 and "<script" not in shown


def test_what_is_long_is_cut_for_html_only():
    shown = html.text("x" * 1_000_000)
    assert len(shown) < 101_000 and "900000 characters are not shown" in shown
    assert "(no output)" in Result(status="ok")._repr_html_()
    assert "Died" not in Result(status="ok")._repr_html_()
    assert "the interpreter died" in Result(reason="r")._repr_html_()


def test_values_that_came_apart_are_put_together():
    event = Event({"type": "result", "data": {
        "text/plain": {"$blob": "a" * 64, "bytes": 3}, "image/png": {"$blob": "b" * 64, "bytes": 2},
        "application/json": {"$blob": "c" * 64, "bytes": 7}}})
    assert len(blobs_of(event)) == 3
    made = with_blobs(event, {"a" * 64: "é!".encode(), "b" * 64: b"\xff\x00", "c" * 64: b'{"a":1}'})
    assert made["data"] == {"text/plain": "é!", "image/png": "/wA=", "application/json": {"a": 1}}


def test_images_have_a_form_for_notebooks():
    png = Output("display", data={"image/png": PNG}).images[0]
    assert png._repr_mimebundle_() == {"image/png": PNG} and "bytes" in repr(png)
    svg = Output("display", data={"image/svg+xml": "<svg/>"}).images[0]
    assert list(svg._repr_mimebundle_()) == ["text/html"]
    both = Output("display", data={"image/png": PNG, "image/svg+xml": "<svg/>"})
    assert [image.mime for image in both.images] == ["image/png"]


def test_the_version_is_that_of_fumehood():
    import fumehood_kit

    text = (fumehood_kit.ROOT / "meson.build").read_text()
    assert "version: '%s'" % fumehood.__version__ in text
    project = (fumehood_kit.ROOT / "sdk" / "python" / "pyproject.toml").read_text()
    assert 'version = "%s"' % fumehood.__version__ in project
