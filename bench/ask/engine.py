"""A llama.cpp server for the benchmark: engine.py MODEL.gguf PORT SLOTS CONTEXT.

xllamacpp's server in a process of its own; it ends with its parent.
"""

import ctypes
import signal
import sys

import xllamacpp

_PR_SET_PDEATHSIG = 1


def main(model, port, slots, context):
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = slots
    params.n_ctx = slots * context
    params.kv_unified = False
    server = xllamacpp.Server(params)
    print("ready", flush=True)
    signal.pause()
    del server


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
