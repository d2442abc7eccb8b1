"""Figures: plt.show() displays them, and what a cell leaves open is shown at its end.

The backend is Agg, by its own name, so a child process of the session finds it too and
matplotlib.use("Agg") changes nothing. What makes figures visible is FigureManagerBase.show, which
for backends without windows only complains: here it displays the figure and closes it.
"""
__builtins__ = dict(__builtins__)

import io
import sys

from fumehood_guest import display, fonts, imports

_shown = []  # figures displayed as a value in this cell; the end of the cell closes them silently


def png_of(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=figure.dpi, bbox_inches="tight")
    return buffer.getvalue()


def show_figure(figure):
    """In the form that the session has chosen (`%config InlineBackend.figure_format`), else as a
    PNG."""
    data, metadata = display.shown(figure)
    display.publish(dict({"text/plain": repr(figure)}, **data), metadata)


def _show(manager):
    """FigureManagerBase.show for a session."""
    figure = manager.canvas.figure
    try:
        show_figure(figure)
    finally:
        _managers().destroy(manager)


def _managers():
    return sys.modules["matplotlib._pylab_helpers"].Gcf


def figure_as_value(value):
    """For display.special: a figure that is a cell's value or an argument of display()."""
    if not note_shown(value):
        return None
    return {"image/png": png_of(value)}


def note_shown(value):
    """True for a figure, which is then not shown again at the end of the cell."""
    figure = getattr(sys.modules.get("matplotlib.figure"), "Figure", None)
    if figure is None or not isinstance(value, figure):
        return False
    _shown.append(value)
    return True


def in_use():
    return "matplotlib._pylab_helpers" in sys.modules


def show_open_figures():
    """At the end of a cell. A figure that cannot be drawn is reported on stderr and closed like the
    others."""
    gcf = _managers()
    managers = gcf.get_all_fig_managers()
    try:
        for manager in managers:
            figure = manager.canvas.figure
            empty = not (figure.axes or figure.lines or figure.texts)
            if not empty and not any(shown is figure for shown in _shown):
                try:
                    show_figure(figure)
                except Exception as error:
                    display.report(error)
    finally:
        _shown.clear()
        if managers:
            gcf.destroy_all()


def _patch(backend_bases):
    backend_bases.FigureManagerBase.show = _show


def install():
    """Before the session's code imports matplotlib, or after the zygote has."""
    imports.when_imported("matplotlib.backend_bases", _patch)
    fonts.install()
    if figure_as_value not in display.special:
        display.special.append(figure_as_value)
