"""Things that cost tens of milliseconds the first time, done once in the zygote.

Run through the guest's own shell, with streams and messages cut off, so that exactly the paths of a
real cell are warm. Afterwards nothing of it may be left: no variables, no loop, no count.
"""
__builtins__ = dict(__builtins__)

import gc
import io
import select
import sys

from fumehood_guest import _guest, asking, asyncio_support, display, traceback_text, wire

CELLS = (
    ("", "1/0"),
    ("", "import asyncio\nawait asyncio.sleep(0)"),
    ("", "x = [1, 2.5, 'text']\nx"),
    ("pandas", "import pandas as pd\n"
               "frame = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})\n"
               "str(frame.describe())\nframe"),
    ("matplotlib.pyplot", "import io, matplotlib.pyplot as plt\nfigure = plt.figure()\n"
                          "plt.plot([1, 2])\nplt.title('x')\n"
                          "figure.savefig(io.BytesIO(), format='png', bbox_inches='tight')\n"
                          "plt.close('all')"),
)
# Behind the last cell: `frame` is there if pandas is.
QUESTIONS = (
    {"op": "complete", "code": "x."},
    {"op": "complete", "code": "x["},
    {"op": "complete", "code": "frame.sh"},
    {"op": "complete", "code": "import "},
    {"op": "inspect", "code": "print("},
    {"op": "inspect", "code": "frame"},
    {"op": "variables"},
)

REHEARSE_AFTER_MS = 10
REHEARSAL = "import sys\nx = [1, 2.5, 'text']\nx"


def run(guest):
    """Runs the warm-up cells. Whatever fails is only colder."""
    shell = guest.shell
    names = set(shell.ns)
    streams = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = io.StringIO()
    try:
        for module, code in CELLS:
            if module and module not in sys.modules:
                continue
            try:
                shell.run(code)
            except BaseException as error:
                wire.to_json(traceback_text.describe(error))
        asyncio_support.shared.run(display.formatter[0], shell)
        for question in QUESTIONS:
            asking.ask(shell, question)
    finally:
        sys.stdout, sys.stderr = streams
        reset(guest, names)


def rehearse_unless_asked(guest):
    """Whoever starts a session has a cell for it at once, which would have to wait for the
    rehearsal; a spare session has none."""
    guest.loops.before_cell("")  # the session's loop is made while the cell is on its way
    asked = select.poll()
    asked.register(wire.CONTROL, select.POLLIN)
    if not asked.poll(REHEARSE_AFTER_MS):
        rehearse(guest)


def rehearse(guest):
    """In a new guest, once its hello is out. A fork shares its pages until they are written to, and
    the first cell writes to hundreds: so one goes the whole way before anybody waits for it."""
    shell, owner = guest.shell, wire.state.owner
    names = set(shell.ns)
    wire.state.owner = 0  # nothing of it is sent
    try:
        guest.look_round()
        _guest.restore_pipes()
        guest.streams.renew()
        guest.loops.before_cell("")  # the session's loop is made
        shell.run(REHEARSAL)
        _guest.flush_c()
        guest.loops.after_cell()
        guest.look_round()
    except BaseException:
        pass  # it is only slower then
    finally:
        forget(guest, names)
        wire.state.owner = owner


def reset(guest, names):
    """After the warm-up: the zygote is about to be copied."""
    forget(guest, names)
    loop = guest.loops.loop
    if loop is not None and not loop.is_closed():
        loop.close()
    guest.loops.loop = None
    fonts = getattr(sys.modules.get("matplotlib.font_manager"), "_get_font", None)
    if hasattr(fonts, "cache_clear"):
        fonts.cache_clear()  # matplotlib does so in each child: open files must not be shared
    gc.collect()
    gc.freeze()  # what is here is shared by all guests: the collector must not touch its pages
    _guest.large_pages()  # a fork copies a table entry for each page


def forget(guest, names):
    """Nobody shall see that a cell has run."""
    shell = guest.shell
    for name in set(shell.ns) - names:
        del shell.ns[name]
    del shell.inputs[1:]
    shell.outputs.clear()
    shell.count = 0
    shell.last_input = ""
    shell.renew_namespace()
    if shell.ipython is not None:
        del shell.ipython.ip.history_manager.input_hist_raw[1:]
        shell.ipython.ip.history_manager.output_hist_reprs.clear()
    linecache = sys.modules["linecache"]
    for name in [name for name in linecache.cache if name.startswith(traceback_text.CELL)]:
        del linecache.cache[name]
    for name in ("last_type", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
