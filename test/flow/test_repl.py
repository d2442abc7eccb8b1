"""fumehood repl on a terminal of its own, and from a pipe."""
import base64
import contextlib
import fcntl
import json
import os
import re
import signal
import stat
import struct
import termios
import time

import pytest

import fumehood_kit

CELL_FAILED, USAGE = 1, 2
UP, DOWN, TAB, CTRL_C, CTRL_D, CTRL_U = "\x1b[A", "\x1b[B", "\t", "\x03", "\x04", "\x15"
PASTE, PASTED = "\x1b[200~", "\x1b[201~"


class Repl:
    """A repl whose next prompt is In [n]."""

    def __init__(self, script, n):
        self.script, self.n = script, n
        self.prompt()

    def prompt(self):
        self.script.expect(r"In \[%d\]: " % self.n)

    def enter(self, text, expect=None, count=1):
        """Types a cell; waits for its output and the next prompt. Returns what was seen between."""
        at = self.script.at
        self.script.type(text + "\r")
        if expect:
            self.script.expect(expect)
        self.n += count
        self.prompt()
        return self.script.seen[at:self.script.at]

    def leave(self, text=CTRL_D):
        self.script.type(text)
        assert self.script.end() == 0, self.script.seen


@contextlib.contextmanager
def begin(house, *args, n=1, **environment):
    environment = {"NO_COLOR": "1", "FUMEHOOD_IMAGES": "path", **environment}
    with house.script("repl", *args, **environment) as script:
        yield Repl(script, n)


def test_greeting_results_and_the_end(house):
    with begin(house) as repl:
        repl.script.type("x = 6\r")
        repl.n += 1
        repl.prompt()
        repl.enter("x * 7", r"Out\[2\]: 42\n")
        repl.enter("'a\\n' * 2", r"Out\[3\]: 'a\\na\\n'\n")
        repl.enter("import numpy; numpy.eye(2)",
                   r"Out\[4\]: \narray\(\[\[1., 0.\],\n       \[0., 1.\]\]\)\n")
        repl.enter("print('no end', end='')", "no end\n")
        repl.enter("import sys; _ = sys.stderr.write('no end')", "no end\n")
        repl.enter("1/0", "ZeroDivisionError: division by zero\n")
        assert "Python 3." in repl.script.seen and "removed at the end" in repl.script.seen
        repl.leave("exit()\r")
    assert not house.sockets()


def test_colours_only_where_they_are_wanted(house):
    with house.script("repl", "-q", FUMEHOOD_IMAGES="path") as script:
        script.expect("\x1b\\[32mIn \\[1\\]:\x1b\\[0m ")
        script.type("1\r")
        script.expect("\x1b\\[31mOut\\[1\\]: \x1b\\[0m1\n")
        script.expect("\x1b\\[32mIn \\[2\\]:\x1b\\[0m ")
        script.type(CTRL_D)
        assert script.end() == 0
        assert "Python 3." not in script.seen


def test_blocks_indent_themselves(house):
    with begin(house) as repl:
        repl.script.type("def f(x):\r")
        repl.script.expect(r"   \.\.\.:     $")
        repl.script.type("if x:\r")
        repl.script.expect(r"   \.\.\.:         $")
        repl.script.type("return 1\r")
        repl.script.expect(r"   \.\.\.:     $")
        # Backspace takes the indentation back: this is outside of f.
        repl.script.type("\x7freturn 2\r")
        repl.n += 1
        repl.script.expect("SyntaxError: 'return' outside function")
        repl.prompt()
        repl.script.type("def f(x):\rreturn [\r1]\r\r")
        repl.script.expect("")
        repl.n += 1
        repl.prompt()
        repl.enter("f(0)", r"Out\[3\]: \[1\]|Error")
        repl.leave()


def test_a_cell_without_waiting_is_not_indented(house):
    """What comes faster than a prompt is a paste: it brings its own indentation."""
    with begin(house) as repl:
        repl.script.type("for i in range(2):\r    if i:\r        print('one')\r    else:\r"
                         "        print('none')\r\r")
        repl.script.expect("none\none\n")
        repl.n += 1
        repl.prompt()
        repl.leave()


def test_paste_in_brackets(house):
    code = "def f():\r    return 'a'\r\r    return 'b'\r\rprint(f())"
    with begin(house) as repl:
        repl.script.type(PASTE + code + PASTED)
        repl.script.expect(r"print\(f\(\)\)")
        repl.enter("", r"(?<!print\(f\(\)\))a\n")
        repl.enter("1", r"Out\[2\]: 1")
        repl.leave()


def test_history_is_kept_whole_and_private(house):
    with begin(house) as repl:
        repl.script.type("for i in range(2):\r    print('turn', i)\r\r")
        repl.script.expect("turn 0\nturn 1\n")
        repl.n += 1
        repl.prompt()
        repl.enter("y = 'é'")
        repl.leave()
    path = house.dir / "state" / "fumehood" / "repl_history"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert entries[-2:] == ["for i in range(2):\n    print('turn', i)", "y = 'é'"]
    with begin(house) as repl:
        repl.script.type(UP + UP)
        repl.script.expect(r"print\('turn', i\)")
        repl.enter("", "turn 0\nturn 1\n")
        # Up within the entry, to its first line, and an edit there.
        repl.script.type(UP)
        repl.script.expect(r"print\('turn', i\)")
        repl.script.type(UP + "\x05" + "\x7f\x7f\x7f\x7f" + "(1):")
        repl.enter("", "turn 0\n")
        repl.leave()


def test_completion(house):
    with begin(house) as repl:
        repl.enter("import os; unique_name = 1")
        repl.enter("os.getcw" + TAB + "()", r"Out\[2\]: '/workspace'")
        repl.enter("uniq" + TAB + " + 1", r"Out\[3\]: 2")
        repl.script.type("os.path.spl" + TAB + TAB)
        repl.script.expect(r"split +splitdrive +splitext")
        repl.prompt()
        repl.script.type(CTRL_U)
        # In a cell of several lines, and after characters of more than one byte.
        repl.script.type("é = [\r")
        repl.script.expect(r"\.\.\.:     $")
        repl.script.type("'ü', uniq" + TAB + "]; é\r")
        repl.script.expect(r"Out\[4\]: \['ü', 1\]")
        repl.n += 1
        repl.prompt()
        repl.leave()


def test_interrupts(house):
    with begin(house) as repl:
        repl.enter("x = 1")
        repl.script.type("print('begun'); import time; time.sleep(1000)\r")
        repl.script.expect("begun\n")
        repl.script.type(CTRL_C)
        repl.script.expect("KeyboardInterrupt\n")
        repl.n += 1
        repl.prompt()
        repl.script.type("half a line")
        repl.script.expect("half a line")
        repl.script.type(CTRL_C)
        repl.prompt()
        repl.script.type("if x:\r")
        repl.script.expect(r"\.\.\.:     $")
        repl.script.type(CTRL_C)
        repl.prompt()
        repl.enter("x", r"Out\[3\]: 1")
        # A cell that does not react: the second Ctrl-C kills it, and it only.
        repl.script.type("while True:\r    try:\r        while True: print('loop' 'ing')\r"
                         "    except BaseException: print('cau' 'ght')\r\r")
        repl.script.expect("looping")
        repl.script.type(CTRL_C)
        repl.script.expect("caught\n")
        repl.script.type(CTRL_C)
        repl.prompt()
        repl.enter("x", r"Out\[4\]: 1")
        repl.leave()


def test_prompts_of_the_code(house):
    with begin(house) as repl:
        repl.script.type("name = input('wh' 'o? ')\r")
        repl.script.expect(r"who\? $")
        repl.script.type("Bob\r")
        repl.n += 1
        repl.prompt()
        repl.enter("name", r"Out\[2\]: 'Bob'")
        repl.script.type("import getpass; secret = getpass.getpass('sec' 'ret: ')\r")
        repl.script.expect(r"secret: $")
        assert not repl.script.echoes()
        repl.script.type("tiger\r")
        repl.n += 1
        repl.prompt()
        assert "tiger" not in repl.script.seen
        repl.enter("secret[::-1]", r"Out\[4\]: 'regit'")
        repl.script.type("input('mo' 're? ')\r")
        repl.script.expect(r"more\? $")
        repl.script.type(CTRL_D)
        repl.script.expect("EOFError")
        repl.n += 1
        repl.prompt()
        repl.leave()


def test_help_of_the_guest(house):
    with begin(house) as repl:
        repl.enter("def helpful(a):\r    '''Does it.'''\r    return a\r")
        repl.enter("helpful?", r"helpful\(a\)(.|\n)*Does it\.")
        repl.leave()


def test_late_output_is_shown_above_the_line(house):
    with begin(house) as repl:
        repl.enter("import threading; go = threading.Event()")
        repl.enter("late = lambda: (go.wait(), print('from the thread'))")
        repl.enter("threading.Thread(target=late).start()")
        repl.script.type("typed so far")
        repl.script.expect("typed so far")
        other = house.sockets()[0][:8]
        assert house.cli("run", "-s", other, "-c", "go.set()").status == 0
        repl.script.expect("from the thread\n")
        repl.script.expect(r"In \[5\]: typed so far")
        repl.script.type(CTRL_U)
        repl.leave()


def test_output_is_harmless(house):
    with begin(house) as repl:
        seen = repl.enter("print('\\x1b]0;title\\x07\\x1b[31mred\\x1b[0m\\x1b[2J')", "red")
        assert "\x1b]0;" not in seen and "\x1b[2J" not in seen and "\x1b[31mred" in seen
        # Names that TAB would offer, too.
        repl.enter("class Odd:\r    def __dir__(self):\r"
                   "        return ['a\\x1b[2J', 'a\\nb', 'alpha', 'alpine']\r")
        repl.enter("odd = Odd()")
        at = len(repl.script.seen)
        repl.script.type("odd.a" + TAB + TAB)
        repl.script.expect("alpha +alpine")
        assert "\x1b[2J" not in repl.script.seen[at:]
        repl.script.expect("odd.al")
        repl.script.type(CTRL_U)
        repl.leave()


PIXEL = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
         "rkJggg==")


def image_code():
    return ("class Pixel:\r    def _repr_png_(self):\r        import base64\r"
            "        return base64.b64decode('%s')\r" % PIXEL)


@pytest.mark.parametrize("how, sequence", [
    ("kitty", "\x1b_Ga=T,f=100,q=2,m=0;" + PIXEL + "\x1b\\"),
    ("iterm", "\x1b]1337;File=inline=1;size=%d:%s\x07" % (len(base64.b64decode(PIXEL)), PIXEL)),
    ("path", None)])
def test_images(house, how, sequence):
    with begin(house, FUMEHOOD_IMAGES=how) as repl:
        repl.enter(PASTE + image_code() + PASTED)
        seen = repl.enter("Pixel()", r"\[image/png: \S+/images/\S+-1\.png\]")
        path = seen.split("[image/png: ")[1].split("]")[0]
        assert os.path.getsize(path) == len(base64.b64decode(PIXEL))
        assert (PIXEL in seen) == (sequence is not None)
        assert sequence is None or sequence in seen
        repl.leave()


def test_the_terminal_is_asked(house):
    """It answers the question about kitty's protocol; what was typed meanwhile is not lost."""
    with house.script("repl", "-q", NO_COLOR="1", FUMEHOOD_IMAGES="") as script:
        script.expect("\x1b_Gi=31.*\x1b\\[c")
        script.type("4\x1b_Gi=31;OK\x1b\\0\x1b[?62;c")
        script.expect(r"In \[1\]: 40")
        script.type(" + 2\r")
        script.expect(r"Out\[1\]: 42")
        script.expect(r"In \[2\]: ")
        script.type(PASTE + image_code() + PASTED + "\rPixel()\r")
        script.expect("\x1b_Ga=T,f=100")
        script.expect(r"In \[4\]: ")
        script.type(CTRL_D)
        assert script.end() == 0


# ---------------------------------------------------------------------------------- sixels

SIXEL_HELPER = os.path.join(os.path.dirname(fumehood_kit.FUMEHOOD), "fumehood-sixel")
needs_sixels = pytest.mark.skipif(not os.path.exists(SIXEL_HELPER),
                                  reason="missing optional component: fumehood-sixel")
# A PNG by hand: red on the left, blue on the right, in the size that is asked for.
PAINT = """\
import struct, zlib
class Paint:
    def __init__(self, w, h, rows=None, cut=None):
        self.w, self.h, self.rows, self.cut = w, h, rows, cut
    def _repr_png_(self):
        def chunk(kind, data):
            return (struct.pack('>I', len(data)) + kind + data
                    + struct.pack('>I', zlib.crc32(kind + data)))
        row = b'\\0' + b'\\xff\\0\\0' * (self.w // 2) + b'\\0\\0\\xff' * (self.w - self.w // 2)
        data = (b'\\x89PNG\\r\\n\\x1a\\n'
                + chunk(b'IHDR', struct.pack('>IIBBBBB', self.w, self.h, 8, 2, 0, 0, 0))
                + chunk(b'IDAT', zlib.compress(row * (self.h if self.rows is None else self.rows)))
                + chunk(b'IEND', b''))
        return data[:self.cut]
"""


def read_sixels(seen):
    """The sixel picture in what a terminal got: (width, height, {colour: pixels})."""
    data = re.search(r"\x1bP[\d;]*q([^\x1b]*)\x1b\\", seen).group(1)
    size = re.match(r'"\d+;\d+;(\d+);(\d+)', data)
    width, height = map(int, size.groups())
    palette, counts, colour = {}, {}, None
    for part in re.finditer(r"#(\d+);2;(\d+);(\d+);(\d+)|#(\d+)|!(\d+)([?-~])|([?-~])",
                            data[size.end():]):
        number, red, green, blue, chosen, repeat, repeated, once = part.groups()
        if number:
            palette[number] = int(red), int(green), int(blue)
        elif chosen:
            colour = palette[chosen]
        else:
            bits = bin(ord(repeated or once) - 63).count("1") * int(repeat or 1)
            counts[colour] = counts.get(colour, 0) + bits
    return width, height, counts


@needs_sixels
def test_sixels_by_detection(house):
    """The terminal says 4 in its attributes; what is typed meanwhile is not lost."""
    with house.script("repl", "-q", NO_COLOR="1", FUMEHOOD_IMAGES="") as script:
        fcntl.ioctl(script.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 400, 480))
        script.expect("\x1b_Gi=31.*\x1b\\[c")
        script.type("4\x1b[?62;4;22c0")
        script.expect(r"In \[1\]: 40")
        script.type(" + 2\r")
        script.expect(r"Out\[1\]: 42")
        script.expect(r"In \[2\]: ")
        script.type(PASTE + PAINT.replace("\n", "\r") + PASTED + "\rPaint(60, 41)\r")
        script.expect(r"\[image/png: \S+\]")
        assert read_sixels(script.seen) == (60, 41, {(100, 0, 0): 1230, (0, 0, 100): 1230})
        script.expect(r"In \[4\]: ")
        # Wider than the terminal: made smaller.
        at = len(script.seen)
        script.type("Paint(1000, 50)\r")
        script.expect(r"\[image/png: \S+\]")
        width, height, counts = read_sixels(script.seen[at:])
        assert (width, height, sum(counts.values())) == (400, 20, 8000)
        assert counts[100, 0, 0] + counts[0, 0, 100] > 7800  # the seam is a mixture
        script.expect(r"In \[5\]: ")
        script.type(CTRL_D)
        assert script.end() == 0


@needs_sixels
def test_images_that_are_no_good_are_paths(house):
    """Cut off, too large by what they say and by what is in them: the repl goes on."""
    with begin(house, FUMEHOOD_IMAGES="sixel") as repl:
        repl.enter(PASTE + PAINT.replace("\n", "\r") + PASTED)
        for call in ("Paint(60, 40, cut=80)", "Paint(60, 40, rows=9)", "Paint(9000, 9000, rows=20)",
                     "Paint(60000, 60000, rows=0)"):
            seen = repl.enter(call, r"\[image/png: \S+\]")
            assert "\x1bP" not in seen, call
        assert "\x1bP" in repl.enter("Paint(60, 40)", r"\[image/png: \S+\]")
        repl.leave()


def test_without_the_helper_sixels_are_paths(house):
    """Found out by asking it is passed over; asked for by name it is an error."""
    libexec = house.folder()
    for name in ("fumehood-keeper", "fumehood-pool", "python"):
        (libexec / name).symlink_to(os.path.join(os.path.dirname(fumehood_kit.FUMEHOOD), name))
    with house.script("repl", "-q", NO_COLOR="1", FUMEHOOD_IMAGES="",
                      FUMEHOOD_LIBEXEC=str(libexec)) as script:
        script.expect("\x1b\\[c")
        script.type("\x1b[?62;4c")
        script.expect(r"In \[1\]: ")
        script.type(PASTE + image_code() + PASTED + "\rPixel()\r")
        script.expect(r"\[image/png: \S+\]")
        script.expect(r"In \[3\]: ")
        script.type(CTRL_D)
        assert script.end() == 0 and "\x1bP" not in script.seen
    with house.script("repl", FUMEHOOD_IMAGES="sixel", FUMEHOOD_LIBEXEC=str(libexec)) as script:
        assert script.end() not in (0, CELL_FAILED)
        assert "libsixel-dev" in script.seen


def test_wrong_use(house):
    with house.script("repl", FUMEHOOD_IMAGES="tektronix") as script:
        assert script.end() not in (0, CELL_FAILED)
        assert "FUMEHOOD_IMAGES" in script.seen
    result = house.cli("repl", "file.py")
    assert result.status == USAGE and "repl" in result.err


def test_a_living_session(house):
    assert house.cli("run", "-s", "lab", "-c", "x = 40").status == 0
    with begin(house, "-s", "lab", n=2) as repl:
        repl.enter("x + 2", r"Out\[2\]: 42")
        # Cells of others count, their output is not shown.
        assert house.cli("run", "-s", "lab", "-c", "print('of another'); x = 1").status == 0
        repl.script.type("x\r")
        repl.script.expect(r"Out\[4\]: 1")
        repl.n = 5
        repl.prompt()
        assert "of another" not in repl.script.seen
        repl.leave()
    assert house.cli("run", "-s", "lab", "-c", "print(x)").out == "1\n"
    # The next one counts on from what the journal says.
    with begin(house, "-s", "lab", n=6) as repl:
        repl.leave()


def test_the_session_stops_meanwhile(house):
    with begin(house, "-s", "short") as repl:
        repl.enter("1")
        assert house.cli("stop", "short").status == 0
        assert repl.script.end() not in (0, CELL_FAILED)
        assert "stopped" in repl.script.seen


def test_the_interpreter_dies_between_cells(house):
    """What was there stays, but for the thread; the count goes on as in the one that woke."""
    with begin(house) as repl:
        repl.enter("import threading, os; x = 5")
        repl.enter("threading.Timer(0.5, os._exit, [3]).start()")
        repl.script.expect("the interpreter died: exit status 3; the variables are as they were")
        repl.script.expect("not restored: thread")
        repl.prompt()
        repl.enter("x", r"Out\[3\]: 5")
        repl.leave()


def held(house, name):
    """Until the present state is held."""
    until = time.monotonic() + fumehood_kit.WAIT_S
    while not json.loads(house.cli("checkpoints", name, "--json").out)["protected"]:
        assert time.monotonic() < until


def test_someone_goes_back_meanwhile(house):
    with begin(house, "-s", "back") as repl:
        for code in ("x = 1", "x = 2", "x = 3"):
            repl.enter(code)
            held(house, "back")
        assert house.cli("rollback", "back", "c2").status == 0
        repl.script.expect("rolled back: c2, c3")
        repl.n = 2
        repl.prompt()
        repl.enter("x", r"Out\[2\]: 1")
        held(house, "back")
        repl.leave()
    # The next one counts on from there.
    with begin(house, "-s", "back", n=3) as repl:
        assert house.cli("rollback", "back").status == 0
        repl.script.expect("rolled back: c4")
        repl.n = 2
        repl.prompt()
        repl.leave()
    assert house.cli("run", "-s", "back", "-c", "print(x)").out == "1\n"
    house.cli("stop", "back")
    house.cli("gc", "back")


def test_a_signal_ends_it(house):
    with begin(house) as repl:
        repl.enter("1")
        repl.script.process.send_signal(signal.SIGTERM)
        assert repl.script.end() == -signal.SIGTERM
    assert not house.sockets()


def test_the_terminal_goes(house):
    with begin(house) as repl:
        repl.enter("1")
        repl.script.process.send_signal(signal.SIGHUP)
        assert repl.script.end() == -signal.SIGHUP


# ---------------------------------------------------------------------------- not on a terminal

def test_from_a_pipe(house):
    code = ("x = 1\nx + 1\nfor i in range(2):\n    print('turn', i)\n\n"
            "if x:\n    print('no empty line')\nx\n"
            "'''a\n\nb'''\ninput('? ')\nan answer\n1/0\nprint('goes on')\ndef f():\n    return 3")
    result = house.cli("repl", stdin=code)
    assert result.status == 0, result
    assert result.out == ("2\nturn 0\nturn 1\nno empty line\n1\n'a\\n\\nb'\n? \n'an answer'\n"
                          "goes on\n"), result
    assert "ZeroDivisionError" in result.err


def test_exit_in_a_pipe(house):
    result = house.cli("repl", stdin="import sys\nsys.exit(3)\nprint('not seen')\n")
    assert (result.status, result.out) == (CELL_FAILED, "")
    result = house.cli("repl", stdin="import sys\nsys.exit()\nprint('not seen')\n")
    assert (result.status, result.out) == (0, "")
    result = house.cli("repl", stdin="exit\nprint('not seen')\n")
    assert (result.status, result.out) == (0, "")


def test_bytes_that_are_no_text(house):
    result = house.cli("repl", stdin=b"x = '\xff'\nlen(x)\n")
    assert (result.status, result.out) == (0, "1\n")


def test_plain_on_a_dumb_terminal(house):
    with house.script("repl", TERM="dumb") as script:
        script.expect(r"In \[1\]: ")
        script.type("if 1:\n")
        script.expect(r"   \.\.\.: ")
        script.type("    print('plain')\n")
        script.expect(r"   \.\.\.: ")
        script.type("\n")
        script.expect("\nplain\n")
        script.expect(r"In \[2\]: ")
        script.type(CTRL_C)
        script.expect(r"\^C")
        script.expect(r"In \[2\]: ")
        script.type("6 * 7\n")
        script.expect(r"Out\[2\]: 42\n")
        script.expect(r"In \[3\]: ")
        script.type(CTRL_D)
        assert script.end() == 0


def test_the_prompt_of_a_fresh_branch(house):
    """It counts on where its parent was, before it has a cell of its own."""
    for code in ("x = 1", "x += 1", "x += 1"):
        assert house.cli("run", "-s", "of-a-branch", "-c", code).status == 0
    forked = house.cli("fork", "of-a-branch", "the-branch")
    assert forked.status == 0, forked
    with begin(house, "-s", "the-branch", n=4) as repl:
        repl.enter("x", r"Out\[4\]: 3\n")
        repl.leave()
    for name in ("the-branch", "of-a-branch"):
        assert house.cli("stop", name).status == 0
