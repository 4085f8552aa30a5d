"""Ids that sort by time, are short enough to paste, and hold no look-alike letters.

The form is that of a ULID (https://github.com/ulid/spec), cut to 80 bits: 48 bits of milliseconds
and 32 bits of chance in Crockford's base 32, lower case, 16 characters.
"""

from __future__ import annotations

import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id() -> str:
    """A new 16-character id; ids made later sort later (to the millisecond).

    >>> len(new_id())
    16
    """
    number = (int(time.time() * 1000) << 32) | secrets.randbits(32)
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(75, -5, -5))
