"""Freed memory of this process, which libraries may write to disk.

The vector index writes the room that it has set aside for vectors to come as it got it from the
allocator, without clearing it: whatever stood there before, such as words of a message, is then in
its files.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import sys

_log = logging.getLogger(__name__)

_PERTURB = -6  # M_PERTURB of glibc's malloc.h
_FILLING = 0x5A


def clear_freed_memory() -> None:
    """Let nothing be left in memory that is free now, or will be freed from now on.

    With glibc: free pages go back to the system, and for the rest of the process's life memory is
    overwritten when it is freed and when it is given out (https://man7.org/linux/man-pages/man3/
    mallopt.3.html, M_PERTURB), which makes large allocations a little slower. Elsewhere nothing is
    done. Blocks for some milliseconds; from any thread.
    """
    if not sys.platform.startswith("linux"):
        return
    gc.collect()
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(ctypes.c_int(_PERTURB), ctypes.c_int(_FILLING))
        libc.malloc_trim(ctypes.c_size_t(0))
    except (AttributeError, OSError) as error:
        _log.info("freed memory is not overwritten here: %s", error)
