"""Questions about the variables, between cells: complete, inspect, variables (GUEST_ASK).

Answering runs code of the session: a `__getattr__`, a property, a `__dir__`, a `__repr__`. It may
print, raise, or never return. So each answer is collected step by step into an object that can be
sent as it stands: when the keeper interrupts after two seconds, what has been found so far goes out
with "partial": true. Nothing here touches `_`, Out, the history or the count of cells.

The modules behind it are loaded with the first question in a cold guest; the zygote has them.
"""
__builtins__ = dict(__builtins__)

import json

from fumehood_guest import _guest, asyncio_support, wire

PARTIAL = "partial"


def _complete(shell, question, answer):
    from fumehood_guest import completion
    code = question["code"]
    cursor = _cursor(question, code)
    answer.update(matches=[], cursor_start=cursor, cursor_end=cursor, metadata={})
    completion.complete(shell, code, cursor, answer)


def _inspect(shell, question, answer):
    from fumehood_guest import inspection
    code = question["code"]
    answer.update(found=False, data={}, metadata={})
    detail = question.get("detail_level", 0)
    inspection.inspect(shell, code, _cursor(question, code), detail, answer)


def _variables(shell, question, answer):
    from fumehood_guest import variables
    answer.update(variables=[], total=0, truncated=False)
    variables.collect(shell, question.get("pattern"), question.get("max", 200), answer)


# What must be in each answer, also when an interrupt came before anything else.
_EMPTY = {
    "complete": {"matches": [], "cursor_start": 0, "cursor_end": 0, "metadata": {}},
    "inspect": {"found": False, "data": {}, "metadata": {}},
    "variables": {"variables": [], "total": 0, "truncated": False},
}
_KINDS = {"complete": _complete, "inspect": _inspect, "variables": _variables}


def ask(shell, question):
    """Answers a question without a message: (answer, what ended it or None)."""
    found = {}
    try:
        asyncio_support.shared.run(_KINDS[question["op"]], shell, question, found)
    except BaseException as error:  # SystemExit out of a __getattr__ too
        return found, error
    return found, None


def _cursor(question, code):
    """The cursor in code points, inside the code."""
    return max(0, min(question.get("cursor_pos", len(code)), len(code)))


def answer(guest, number, body):
    """Answers one question; always sends exactly one message, if the process may speak."""
    found, error = {}, None
    question = json.loads(body)
    try:
        try:
            guest.interrupts.begin(number)
            found, error = ask(guest.shell, question)
        finally:
            guest.interrupts.armed = False
    except KeyboardInterrupt as interrupt:
        error = interrupt
    guest.leave_if_copy(error)
    found = dict(_EMPTY[question["op"]], **found)
    found[PARTIAL] = guest.interrupts.meant()
    text = wire.to_json(found)
    if len(text) > _guest.ANSWER_BYTES_MAX:
        text = b"{}"  # the keeper then says that there is no answer
    wire.emit(_guest.ANSWER, text, cell=number)
