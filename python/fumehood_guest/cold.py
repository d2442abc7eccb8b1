"""A guest without a zygote: `python -I cold.py cold`, started by the box's init.

Descriptors: 0 /dev/null, 1 and 2 the pipes, 3 the control socket, 4 the interrupt word; the working
directory is the workspace. Nothing is imported in advance: a bare interpreter is ready in some 30
ms, and the session imports what it uses. In tier `none` and for environments that a session may
write, this is the only way.
"""
import os
import sys


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.dirname(here))
    try:
        from fumehood_guest import _guest, ipython, modes, prepare
        from fumehood_guest.guest import Guest
    finally:
        del sys.path[0]
    os.set_inheritable(3, False)
    _guest.map_word(4)
    prepare.apply()
    modes.settle(os.getcwd())
    guest = Guest()
    ipython.offer(guest.shell)
    guest.settle_in()
    guest.main()


if __name__ == "__main__":
    main()
