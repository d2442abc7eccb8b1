"""Starts the llama.cpp server that is in the wheel xllamacpp, on a Unix socket.

usage: python -I server.py SITE MODEL SOCKET CONTEXT PARALLEL THREADS

SITE is the folder that holds the wheel's files; nothing else is on the path but the standard
library. The server is native code with threads of its own; this one waits for its end. Fields that
a version of the wheel does not have are left as they are: they make it faster, not possible.
"""
import os
import signal
import sys

CACHE_MIB = 512
VERBOSITY = 2  # errors and warnings
SPECULATION = "COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE"


def prefer(params, name, value):
    """Sets a field if there is one."""
    if hasattr(params, name):
        setattr(params, name, value)


def make_params(xllamacpp, model, socket, context, parallel, threads):
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = [socket]
    params.n_ctx = context
    params.n_parallel = parallel
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    prefer(params, "kv_unified", True)
    prefer(params, "cache_prompt", True)
    prefer(params, "cache_ram_mib", CACHE_MIB)
    prefer(params, "verbosity", VERBOSITY)
    prefer(params, "ui", False)
    prefer(params, "offline", True)
    kind = getattr(getattr(xllamacpp, "common_speculative_type", None), SPECULATION, None)
    if kind is not None:
        params.speculative.types = [kind]
    return params


def main(arguments):
    if len(arguments) != 6:
        return "usage: server.py SITE MODEL SOCKET CONTEXT PARALLEL THREADS"
    site, model, socket = arguments[:3]
    context, parallel, threads = map(int, arguments[3:])
    sys.path.insert(0, site)
    try:
        import xllamacpp
    except ImportError as error:
        return "%s; fumehood model engine installs it anew" % error
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        server = xllamacpp.Server(make_params(
            xllamacpp, model, socket, context, parallel, threads))
    except (RuntimeError, AttributeError) as error:
        return "the server did not start: %s" % error
    while server:
        signal.pause()
    return None


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    os.umask(0o077)
    sys.exit(main(sys.argv[1:]))
