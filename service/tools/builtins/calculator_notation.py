"""From the notation of people and models to Python's: ×, ÷, full-width digits, 15%, 1,234."""

from __future__ import annotations

import re

from service.tools.protocol import ToolFailure

_FULL_WIDTH = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_SIGNS = str.maketrans(
    {
        **_FULL_WIDTH,
        **dict.fromkeys("×✕✖⋅·∙", "*"),
        **dict.fromkeys("÷∕⁄", "/"),
        **dict.fromkeys("−–—", "-"),
        **dict.fromkeys("[{【［｛", "("),
        **dict.fromkeys("]}】］｝", ")"),
        **dict.fromkeys("^＾", "**"),
        **{"　": " ", "、": ",", "≤": "<=", "≥": ">=", "≠": "!="},
        **{"²": "**2", "³": "**3", "π": "(pi)", "°": "*pi/180", "√": "sqrt"},
        **{"½": "(1/2)", "¼": "(1/4)", "¾": "(3/4)"},
    }
)
_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
# `%` is a percent sign unless an operand follows, which makes it the remainder
_PERCENT = re.compile(rf"({_NUMBER}|\))\s?%(?!\s?[\w.(])")
_PERCENT_OF = re.compile(rf"({_NUMBER}|\))\s?%\s?(?:of\b|的)\s?")
_ADDED_PERCENT = re.compile(rf"(?<=[\w.)])\s?[-+]\s?{_NUMBER}\s?%(?!\s?(?:of\b|的|[\w.(]))")
_FUNCTION = re.compile(r"[A-Za-z_]\w*\s?\(")
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")


def normalised(expression: str) -> str:
    """The expression in Python's notation.

    >>> normalised("１５％ of 80")
    '(15/100)*80'
    >>> normalised("3² × （1,200 ÷ 4） =")
    '3**2 * (1200 / 4)'

    Raises:
        ToolFailure: a percentage is added or taken off, which people mean in two ways.
    """
    text = " ".join(expression.translate(_SIGNS).split()).strip("=? ")
    if not _FUNCTION.search(text):  # else commas part the arguments
        text = _GROUPED.sub(lambda match: match[0].replace(",", ""), text)
    if _ADDED_PERCENT.search(text):
        raise ToolFailure(
            f"It is not clear what {expression!r} takes the percentage of. Write 80*(1+10/100) "
            "for 80 raised by 10%, or 80 + 10/100 for the plain sum."
        )
    text = _PERCENT_OF.sub(lambda match: f"{_hundredth(match[1])}*", text)
    text = _PERCENT.sub(lambda match: _hundredth(match[1]), text)
    text = re.sub(r"\bmod\b", "%", text)
    text = re.sub(rf"sqrt\s?({_NUMBER})", r"sqrt(\1)", text)
    return re.sub(r"(\d+)!(?!=)", r"factorial(\1)", text)


def _hundredth(operand: str) -> str:
    return ")/100" if operand == ")" else f"({operand}/100)"
