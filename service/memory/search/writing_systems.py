"""Which script a text is in, as far as cosines care: those of Chinese lie closer together."""

from __future__ import annotations

import re
from typing import Literal

Script = Literal["han", "other"]

_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_LETTER = re.compile(r"[^\W\d_]")
_LETTERS_OF_A_CHARACTER = 4


def script_of(text: str) -> Script:
    """The script that says more of a text: a Chinese character says as much as some letters.

    >>> script_of("ImportError 怎么解决？"), script_of("What does 茶 mean?"), script_of("42")
    ('han', 'other', 'other')
    """
    han = len(_HAN.findall(text))
    letters = len(_LETTER.findall(text)) - han
    return "han" if han and han * _LETTERS_OF_A_CHARACTER >= letters else "other"
