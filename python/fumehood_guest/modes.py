"""os.chmod where chmod(2) is refused: tier degraded.

Landlock does not know modes, so without a mount namespace the filter must refuse every change of
one by name, or a session could open a person's files to others. By descriptor it is allowed, and
what can be opened at all is Landlock's business. So here a file is opened and its descriptor is
changed, and shutil.copy, tarfile, tempfile and the like go on working. Programs that a session
starts are told EPERM.
"""
__builtins__ = dict(__builtins__)

import os

OPENING = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def by_descriptor(path, mode, *, dir_fd=None, follow_symlinks=True):
    """As os.chmod, also in its errors."""
    if isinstance(path, int):
        return os.fchmod(path, mode)
    flags = OPENING if follow_symlinks else OPENING | os.O_NOFOLLOW
    try:
        fd = os.open(path, os.O_RDONLY | flags, dir_fd=dir_fd)
    except PermissionError:  # it may be one that can only be written
        fd = os.open(path, os.O_WRONLY | flags, dir_fd=dir_fd)
    try:
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def settle(workspace):
    """Takes the place of os.chmod if that is refused, even for what it does not change."""
    try:
        os.chmod(workspace, os.stat(workspace).st_mode & 0o7777)
    except PermissionError:
        by_descriptor.__name__ = by_descriptor.__qualname__ = "chmod"
        os.chmod = by_descriptor
        os.supports_dir_fd.add(by_descriptor)
        os.supports_follow_symlinks.add(by_descriptor)
        os.supports_fd.add(by_descriptor)
    except OSError:
        pass
