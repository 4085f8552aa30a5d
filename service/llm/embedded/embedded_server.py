"""The child process that holds an embedded model and serves it on the loopback interface.

Protocol with the parent: one JSON line comes in on standard input (``{"api_key": …}``), one goes
out on standard output when the model is loaded (``{"address": …}``). Standard input then stays
open: its end means that the parent is gone, and the process ends. On Linux the kernel ends it too.

Run as ``python -m service.llm.embedded.embedded_server --model FILE``.
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
_NICENESS = 5
_MOST_THREADS = 8
SLOTS = 6
"""How many prompts the server keeps at a time: the choice of a tool, and conversations."""


def main() -> NoReturn:
    """Load the model, say where it listens, and serve until the parent goes."""
    parser = argparse.ArgumentParser(description="Serve an embedded language model.")
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--context", type=int, default=8192, help="tokens of a call")
    parser.add_argument("--states", type=Path, help="a folder for what it has read of prompts")
    parser.add_argument("--parent", type=int, required=True, help="process id of the parent")
    options = parser.parse_args()
    _end_with_parent(options.parent)
    api_key = str(json.loads(sys.stdin.readline())["api_key"])
    # llama.cpp may print: only our one line goes to the parent.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    server, address = _serve(options.model, options.context, options.states, api_key)
    print(json.dumps({"address": address}), file=answer, flush=True)
    while sys.stdin.read(4096):
        pass
    del server
    os._exit(0)  # its threads would be waited for otherwise


def _serve(model: Path, context: int, states: Path | None, api_key: str) -> tuple[object, str]:
    # Threads that wait for each other by spinning collapse under any other load. Those that sleep
    # cost little, and then reading is fastest with all cores, and writing with one.
    os.environ["OMP_WAIT_POLICY"] = "passive"  # read when the library is loaded
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = min(_cores(), _MOST_THREADS)
    # Slots share the memory: one call at a time fits, and what others have read as far as it does.
    parameters.n_parallel = SLOTS
    parameters.kv_unified = True
    parameters.kv_unified_per_slot = context
    parameters.n_ctx = 2 * context
    parameters.cache_ram_mib = 0  # it knows of no slot that is asked for by its number
    parameters.cache_idle_slots = False
    if states is not None:
        parameters.slot_save_path = f"{_private(states)}{os.sep}"
    parameters.verbosity = 1
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [api_key]
    parameters.ui = False
    server = xllamacpp.Server(parameters)
    return server, str(server.listening_address)


def _cores() -> int:
    """How many the process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux has it
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def _private(folder: Path) -> Path:
    os.umask(0o077)
    with contextlib.suppress(OSError):  # saving a state will fail, and be told
        folder.mkdir(parents=True, exist_ok=True)
    return folder


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
