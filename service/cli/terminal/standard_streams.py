"""Standard streams that are not as one would wish: no UTF-8, a full disk, a reader that left."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EPIPE)


@contextmanager
def output_in_words() -> Iterator[None]:
    """Within ``with``, no character is too much for the terminal, and output fails in words.

    What the terminal's encoding lacks is written as an escape: that something cannot be shown is
    no reason to fail after it was done.

    Raises:
        SystemExit: 1, when standard output cannot be written.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # `as_utf8` says what is wrong with it
    try:
        try:
            yield
        finally:
            # Here an error can still be told; at the end of Python it cannot.
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.flush()
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # what is left over goes there at the end
        if error.errno != errno.EPIPE:
            print(f"The output cannot be written: {error.strerror}.", file=sys.stderr)
        raise SystemExit(1) from None


def as_utf8(text: str, encoding: str) -> str:
    r"""Text that Python read in another encoding, where that left bytes which it could not read.

    Args:
        text: as Python gives it: such bytes are there as surrogates (PEP 383).
        encoding: by which it was read.

    Raises:
        UnicodeError: it is no UTF-8 either.

    >>> as_utf8("\udce4\udcbd\udca0", "ascii"), as_utf8("é", "latin-1")
    ('你', 'é')
    """
    if text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return text.encode(encoding, "surrogateescape").decode("utf-8")


def read_line(prompt: str = "") -> str:
    """A line that a person typed; one that is not UTF-8 is refused in words, and the next read.

    Raises:
        EOFError: there is no more.
        KeyboardInterrupt: Ctrl-C.
    """
    while True:
        line = input(prompt)
        try:
            return as_utf8(line, sys.stdin.encoding)
        except UnicodeError:
            print("This text is not UTF-8; it was not taken.", file=sys.stderr)
