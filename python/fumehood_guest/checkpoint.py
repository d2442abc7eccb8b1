"""Checkpoints: the guest makes a sleeping copy of itself, and wakes from one.

The copying itself is in C (src/guest/copy.c says how). Here is what Python has to do around it:
what has to be known before the copy is made, and what of a copy that has been woken is not as it
was. What is particular to a library is in restore.py.

`random` seeds itself anew in each child of a fork, but a copy is no child: it is the session,
later. So its state is kept. (numpy's is not touched by a fork.)
"""
__builtins__ = dict(__builtins__)

import errno
import os
import sys

from fumehood_guest import _guest, restore, wire
from fumehood_guest.wire import state

_getpid = os.getpid


def obey(guest, number, fds):
    """GUEST_COPY. Returns in the guest, and again in each copy of it that is woken."""
    if not fds:
        return
    try:
        if not hasattr(_guest, "copy"):
            raise OSError(errno.EOPNOTSUPP, "a free-threaded Python cannot be copied")
        guest.streams.flush()
        _guest.flush_c()
        lacks = restore.before_copy(guest)
        threads = bool(lacks.get("threads"))
        body = wire.to_json(lacks)
        random = sys.modules.get("random")
        dice = random.getstate() if random is not None else None
        plugged = _guest.copy(fds[0], number, body)  # closes it, but not when it fails
    except Exception as error:
        refuse(fds[0], number, error)
        return
    if plugged is None:
        practise(guest)
    else:
        wake(guest, plugged, random, dice, threads)


def practise(guest):
    """After a copy every page is shared with it, and who writes to one first waits for a page of
    its own: a millisecond in all for the smallest cell. So an empty cell runs from end to end while
    nobody waits, over the pages that every cell writes to."""
    try:
        guest.practise()
    except Exception:
        pass  # the next cell is only slower


def refuse(control, number, error):
    """There is no copy: said in its name, so that it is heard before the end of its socket."""
    body = {"errno": getattr(error, "errno", None) or 0, "message": str(error)}
    try:
        _guest.send(control, _guest.COPY_FAILED, 0, number, wire.to_json(body))
    finally:
        os.close(control)


def wake(guest, plugged, random, dice, threads):
    """This process is the guest from now on."""
    state.owner = _getpid()
    guest.interrupts.forget()
    if threads:
        guest.streams.replace()
    if dice is not None:
        random.setstate(dice)
    guest.hello(restore.after_wake(guest, plugged))
