"""The probes of test/data/probes: what a cell tries, and how it must end in each tier.

A file has blocks with an empty line between them:

    12 UDP over IPv6                              the number of its class, and a name
    each: 2 4 NAME=6                              a probe for each; @ is the word, @@ its value
    full=sent|ENETUNREACH degraded=EAFNOSUPPORT   what it may give; without `degraded` the same
    effect=udp                                    only this counts: has the service been reached?
    EPERM|ENOENT outside: reason                  what the control may give instead of "open"
        code                                      in the words of probe_inside.py

The code is an expression or the body of a function. It gives "open" when the thing could be done,
else a word for how it was refused. Outside of a session, as the same user, it must give "open", or
it would prove nothing; where that cannot be, the table has the reason.
"""
import collections
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "data" / "probes"

Probe = collections.namedtuple("Probe", "number name code full degraded blind effect")


def probes_of(block):
    """Those of one block."""
    title, *lines = block.split("\n")
    settings, blind, each, code = {}, {}, [], []
    for line in lines:
        if line.startswith("    "):
            code.append(line[4:])
        elif line.startswith("each: "):
            each += line.split()[1:]
        elif " outside: " in line:
            words, reason = line.split(" outside: ")
            blind.update(dict.fromkeys(words.split("|"), reason))
        else:
            settings.update(part.split("=") for part in line.split())
    assert code and not settings.keys() - {"full", "degraded", "effect"}, block
    if len(code) == 1 and not code[0].startswith(("return ", "with ")):
        code = ["return (%s)" % code[0]]
    for item in each or [""]:
        word, _, value = item.partition("=")

        def put(text):
            return text.replace("@@", value).replace("@", word)
        number, name = put(title).split(" ", 1)
        yield Probe(int(number), name, put("\n".join(code)), settings["full"].split("|"),
                    settings.get("degraded", settings["full"]).split("|"), blind,
                    settings.get("effect"))


def read_probes():
    found = []
    for path in sorted(FOLDER.glob("*.txt")):
        lines = [line for line in path.read_text().split("\n") if not line.startswith("#")]
        for block in "\n".join(lines).strip().split("\n\n"):
            found += probes_of(block.strip("\n"))
    return found


PROBES = read_probes()
