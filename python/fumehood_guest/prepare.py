"""What a new session's process looks like from inside: environment, argv, sys.path, random
numbers."""
__builtins__ = dict(__builtins__)

import os
import stat
import sys


MERSENNE_WORDS = 624  # the state of a Mersenne twister; seed() would go a much longer way to one


def environment(workspace):
    """A guest never sees the environment of whoever started it."""
    tmp = os.environ.get("TMPDIR", "/tmp")  # a cold guest is told where, a zygote is not
    folders = [os.path.dirname(sys.executable), "/usr/local/bin", "/usr/bin", "/bin"]
    variables = {
        "SHELL": "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh",  # of `!command`
        "HOME": workspace,
        "USER": "user",
        "LOGNAME": "user",
        "LANG": "C.UTF-8",
        "PATH": os.pathsep.join(dict.fromkeys(folder for folder in folders if folder)),
        "TMPDIR": tmp,
        "MPLCONFIGDIR": os.path.join(tmp, "matplotlib"),
        "MPLBACKEND": "Agg",
        # As in Jupyter; its other choice puts the whole of plotly.js into each notebook.
        "PLOTLY_RENDERER": "plotly_mimetype",
        # One thread each: a restored copy of a process with a native thread pool may hang.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        # Without a network pip should say so at once.
        "PIP_RETRIES": "1",
        "PIP_NO_INPUT": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }
    if is_forbidden("/etc/gitconfig"):
        variables["GIT_CONFIG_NOSYSTEM"] = "1"  # git gives up on one that it may not read
    return variables


def is_forbidden(path):
    """Whether a file is there and may not be read. Landlock is asked by opening only: access(2)
    knows nothing of it."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def apply():
    wanted = environment(os.getcwd())
    os.environ.clear()
    os.environ.update(wanted)
    sys.argv = [""]
    sys.path[:] = [""] + [entry for entry in sys.path if entry]
    sys.dont_write_bytecode = True
    reseed()


def open_files():
    """Regular files that modules keep open in the zygote (fonts): [(descriptor, path, offset)]."""
    files = []
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if fd > 3 and stat.S_ISREG(os.fstat(fd).st_mode):
                path = os.readlink("/proc/self/fd/" + name)
                files.append((fd, path, os.lseek(fd, 0, os.SEEK_CUR)))
        except OSError:
            pass  # the descriptor of the listing itself
    return files


def reopen(files):
    """A guest has closed all inherited descriptors: sharing an offset with other sessions would
    corrupt both. It opens the same files again under the same numbers; one that it cannot see
    becomes /dev/null, so that the number at least is nobody else's."""
    for number, path, offset in files:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            os.lseek(fd, offset, os.SEEK_SET)
        except OSError:
            fd = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        if fd != number:
            os.dup2(fd, number, inheritable=False)
            os.close(fd)


def reseed():
    """All guests are copies of one zygote. `random` reseeds itself after a fork, numpy does not."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is None:
        return
    numbers = sys.modules["numpy"].frombuffer(os.urandom(4 * MERSENNE_WORDS), dtype="uint32")
    numpy_random.set_state(("MT19937", numbers, MERSENNE_WORDS))
