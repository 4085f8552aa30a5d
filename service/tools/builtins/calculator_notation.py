"""From the notation of people and models to Python's: ×, ÷, full-width digits, 15%, 1,234; and
names as programs write them, `math.sqrt(16)` of Python, `Math.sqrt(16)` of JavaScript."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from simpleeval import InvalidExpression

from service.tools.model_text import did_you_mean
from service.tools.protocol import ToolFailure

_MODULES = ("math", "Math")


def without_modules(
    tree: ast.expr, functions: Collection[str], constants: Collection[str]
) -> ast.expr:
    """The expression with each `math.name` and `Math.name` as the name that the calculator has.

    Where one means something else there, it has it under both names, such as ``Math.round``.

    Raises:
        InvalidExpression: there is no such name, or it is used as what it is not; says what to
            write instead.
    """
    plain: ast.expr = _Plain(functions, constants).visit(tree)
    return plain


class _Plain(ast.NodeTransformer):
    def __init__(self, functions: Collection[str], constants: Collection[str]) -> None:
        self._functions = functions
        self._constants = constants

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Attribute):
            written = ast.unparse(node.func)
            name = self._name(node.func)
            if name not in self._functions:
                raise InvalidExpression(f"`{written}` is a number, not a function")
            node.func = ast.Name(name, ast.Load())
        node.args = [self.visit(each) for each in node.args]
        return node  # keywords are the evaluator's to refuse

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        name = self._name(node)
        if name not in self._constants:
            raise InvalidExpression(
                f"`{ast.unparse(node)}` is a function: give it its numbers, as in {node.attr}(...)"
            )
        return ast.Name(name, ast.Load())

    def _name(self, node: ast.Attribute) -> str:
        before, name = node.value, node.attr
        if isinstance(before, ast.Constant | ast.BinOp | ast.UnaryOp):
            raise InvalidExpression("write the number between the brackets, as in sqrt(16)")
        if not isinstance(before, ast.Name):
            raise InvalidExpression("only `math.` and `Math.` can stand before a name")
        names = (*self._functions, *self._constants)
        if before.id not in _MODULES:
            if name in names:
                raise InvalidExpression(
                    f"only `math.` and `Math.` can stand before a name: write {name}(16) without"
                    f" `{before.id}.`"
                    if name in self._functions
                    else f"write {name} without `{before.id}.`"
                )
            raise InvalidExpression("only `math.` and `Math.` can stand before a name")
        for each in (f"{before.id}.{name}", name, name.lower()):
            if each in names:
                return each
        meant = did_you_mean(name, [each for each in names if "." not in each])
        raise InvalidExpression(f"there is no `{before.id}.{name}` here.{meant}")


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
