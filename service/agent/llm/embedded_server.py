"""The child process that holds an embedded model and serves it on the loopback interface.

Protocol with the parent: one JSON line comes in on standard input (``{"api_key": …}``), one goes
out on standard output when the model is loaded (``{"address": …}``). Standard input then stays
open: its end means that the parent is gone, and the process ends. On Linux the kernel ends it too.

Run as ``python -m service.agent.llm.embedded_server --model FILE``.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PROMPT_CACHE_MIB = 512
_NICENESS = 5


def main() -> NoReturn:
    """Load the model, say where it listens, and serve until the parent goes."""
    parser = argparse.ArgumentParser(description="Serve an embedded language model.")
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--context", type=int, default=8192, help="tokens of a call")
    parser.add_argument("--parent", type=int, required=True, help="process id of the parent")
    options = parser.parse_args()
    _end_with_parent(options.parent)
    api_key = str(json.loads(sys.stdin.readline())["api_key"])
    # llama.cpp may print: only our one line goes to the parent.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    server, address = _serve(options.model, options.context, api_key)
    print(json.dumps({"address": address}), file=answer, flush=True)
    while sys.stdin.read(4096):
        pass
    del server
    os._exit(0)  # its threads would be waited for otherwise


def _serve(model: Path, context: int, api_key: str) -> tuple[object, str]:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.n_ctx = context
    parameters.n_parallel = 1
    # Two threads wait for each other by spinning, and collapse under any other load.
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.cache_ram_mib = _PROMPT_CACHE_MIB
    parameters.verbosity = 1
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [api_key]
    parameters.ui = False
    server = xllamacpp.Server(parameters)
    return server, str(server.listening_address)


def _end_with_parent(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    if hasattr(os, "nice"):
        os.nice(_NICENESS)  # writing an answer must not keep the daemon from answering others
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # a libc without prctl: stdin is enough
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


if __name__ == "__main__":
    main()
