"""SIGINT, and what it means (protocol.h, "the interrupt word").

The keeper writes the running cell's number into the word and signals the process group. So a signal
is for the running cell (or ask) when the word names it; it is the program's own when this process
sent it or the word has not changed since the last signal; all else is late and touches nothing, as
is a signal from PID 1 of the box, through which the keeper's come.

`armed` is true only while code of the cell, or for an ask, runs. An interrupt that comes before is
not lost: the word is looked at when the cell begins.
"""
__builtins__ = dict(__builtins__)

import signal

from fumehood_guest import _guest

_word = _guest.word
_own_signal = _guest.own_signal
_signal_of_init = _guest.signal_of_init


class Interrupts:
    def __init__(self):
        self.armed = False
        self.number = 0        # of the running cell or ask, else of the last one
        self.hit = False       # it was interrupted by the keeper
        self.seen = 0          # the word at the last signal
        self.on_wait = None    # asyncio_support: called instead of raising while the loop waits

    def install(self):
        """Sets the disposition explicitly: a launcher may have ignored SIGINT."""
        signal.signal(signal.SIGINT, self.on_signal)
        _guest.watch_signal()

    def on_signal(self, number, frame):
        word = _word()
        meant = word == self.number
        changed = word != self.seen
        self.seen = word
        if not self.armed:
            return
        if meant and not _own_signal():
            first = not self.hit
            self.hit = True
            if first and self.on_wait is not None and self.on_wait():
                return  # the cell waits in its loop: it is cancelled there, `finally` blocks run
            raise KeyboardInterrupt
        if _own_signal() or not (changed or _signal_of_init()):
            raise KeyboardInterrupt

    def meant(self):
        """Has the keeper asked the running cell to stop? Also when the program has its own
        handler."""
        return self.hit or self.number != 0 and _word() == self.number

    def forget(self):
        """In a copy that was woken: what has been signalled since it was made was not for it."""
        self.armed = self.hit = False
        self.number = 0
        self.seen = _word()
        self.on_wait = None

    def begin(self, number):
        """The code of the cell, or the work on the ask, with this number starts now. Raises at once
        if it was interrupted on its way here."""
        self.hit = False
        self.number = number
        self.armed = True
        if number and _word() == number:
            self.hit = True
            raise KeyboardInterrupt
