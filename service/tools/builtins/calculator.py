"""The calculator: exact arithmetic within bounds.

Numbers are rationals (`fractions.Fraction`) as long as only ``+ - * / // % **`` touch them, so
``0.1 + 0.2`` is 0.3 and ``round(2.675, 2)`` is 2.68. `simpleeval` walks the parsed expression; it
is given arithmetic only, and every intermediate number is bounded.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from fractions import Fraction
from typing import Annotated

from pydantic import Field
from simpleeval import InvalidExpression, SimpleEval

from service.tools.builtins.calculator_notation import normalised, without_modules
from service.tools.decorator import tool
from service.tools.protocol import ToolFailure

_LONGEST = 500  # characters of an expression
_MOST_BITS = 13_000  # of a number: about 3,900 digits, less than Python refuses to print
_HIGHEST_FACTORIAL = 1_000
_EXACT_DIGITS = 30  # a decimal that ends is shown whole up to this length
_SHOWN_DIGITS = 15  # significant digits of all others: what a float really knows

Number = int | float | Fraction


class _TooLargeError(ArithmeticError):
    """A number passed the bounds."""


def _bounded(value: object) -> Number:
    if isinstance(value, complex):
        raise ArithmeticError("it has no real value")
    if not isinstance(value, int | float | Fraction):
        raise InvalidExpression("only numbers can be calculated with")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _TooLargeError
        return value
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MOST_BITS:
        raise _TooLargeError
    return value


def _checked(function: Callable[..., object]) -> Callable[..., Number]:
    return lambda *numbers: _bounded(function(*(_bounded(number) for number in numbers)))


def _named(name: str, function: Callable[..., object]) -> Callable[..., Number]:
    least, most = _TAKES.get(name, (1, 1))
    bounded = _checked(function)

    def call(*numbers: Number) -> Number:
        if len(numbers) < least or (most is not None and len(numbers) > most):
            expected = _counted(least) if least == most else f"{least} to {most} numbers"
            expected = f"{_counted(least)} or more" if most is None else expected
            given = str(len(numbers)) if numbers else "none"
            raise InvalidExpression(f"{name}(...) takes {expected}, and was given {given}")
        try:
            return bounded(*numbers)
        except ValueError as error:  # Python's words tell of its own functions
            given = ", ".join(_shown(number) for number in numbers)
            raise InvalidExpression(f"{name}({given}) has no value") from error

    return call


def _counted(count: int) -> str:
    return "1 number" if count == 1 else f"{count} numbers"


def _whole(number: Number, *, highest: int | None = None) -> int:
    if number != int(number):
        raise ArithmeticError("it needs whole numbers")
    if highest is not None and not -highest <= number <= highest:
        raise ArithmeticError(f"it takes numbers up to {highest}")
    return int(number)


def _power(base: Number, exponent: Number) -> object:
    if isinstance(base, float) or isinstance(exponent, float) or exponent.denominator != 1:
        return float(base) ** float(exponent)
    times = int(exponent)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if base not in (-1, 0, 1) and bits * abs(times) > 2 * _MOST_BITS:  # before it is calculated
        raise _TooLargeError
    return Fraction(base) ** times


def _round(number: Number, digits: Number = 0) -> Number:
    """Half away from zero, as people round."""
    scale = Fraction(10) ** _whole(digits, highest=_EXACT_DIGITS)
    # repr gives the digits that a float stands for: 2.675, not the binary number next to it
    exact = Fraction(repr(number)) if isinstance(number, float) else Fraction(number)
    if exact < 0:
        return -_round(-exact, digits)
    return math.floor(exact * scale + Fraction(1, 2)) / scale


def _factorial(number: Number) -> int:
    return math.factorial(_whole(number, highest=_HIGHEST_FACTORIAL))


def _combinations(of: Number, choose: Number) -> int:
    return math.comb(_whole(of, highest=_HIGHEST_FACTORIAL), _whole(choose))


def _sqrt(number: Number) -> Number:
    if not isinstance(number, float) and number >= 0:
        root = Fraction(math.isqrt(number.numerator), math.isqrt(number.denominator))
        if root * root == number:
            return root
    return math.sqrt(number)


def _permutations(of: Number, choose: Number) -> int:
    return math.perm(_whole(of, highest=_HIGHEST_FACTORIAL), _whole(choose))


def _sign(number: Number) -> int:
    return (number > 0) - (number < 0)


def _half_up(number: Number) -> int:
    """As JavaScript rounds: -2.5 to -2."""
    return math.floor(number + Fraction(1, 2))


def _rounded(function: Callable[..., float]) -> Callable[..., float]:
    # sin(pi) is 0 to the digits that a float has
    return lambda *numbers: round(function(*numbers), _SHOWN_DIGITS)


def _constant(node: ast.Constant) -> Number:
    value = _bounded(node.value)
    return Fraction(repr(value)) if isinstance(value, float) else value


_OPERATORS: Mapping[type[ast.AST], Callable[..., Number]] = {
    kind: _checked(function)
    for kind, function in (
        (ast.Add, operator.add),
        (ast.Sub, operator.sub),
        (ast.Mult, operator.mul),
        (ast.Div, lambda a, b: a / b if isinstance(a, float) else Fraction(a) / b),
        (ast.FloorDiv, operator.floordiv),
        (ast.Mod, operator.mod),
        (ast.Pow, _power),
        (ast.USub, operator.neg),
        (ast.UAdd, operator.pos),
        (ast.Eq, operator.eq),
        (ast.NotEq, operator.ne),
        (ast.Lt, operator.lt),
        (ast.LtE, operator.le),
        (ast.Gt, operator.gt),
        (ast.GtE, operator.ge),
    )
}
_TAKES: Mapping[str, tuple[int, int | None]] = {
    "round": (1, 2),
    "log": (1, 2),
    "pow": (2, 2),
    "comb": (2, 2),
    "perm": (2, 2),
    "atan2": (2, 2),
    **dict.fromkeys(("min", "max", "gcd", "lcm", "hypot"), (1, None)),
}
"""How many numbers a function takes, from and to; the others take one."""
_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    name: _named(name, function)
    for name, function in (
        ("abs", abs),
        ("math.fabs", abs),
        ("ceil", math.ceil),
        ("floor", math.floor),
        ("trunc", math.trunc),
        ("round", _round),
        ("Math.round", _half_up),
        ("sign", _sign),
        ("min", lambda *numbers: min(numbers)),
        ("max", lambda *numbers: max(numbers)),
        ("sqrt", _sqrt),
        ("cbrt", lambda number: math.copysign(round(abs(number) ** (1 / 3), 14), number)),
        ("math.isqrt", lambda number: math.isqrt(_whole(number))),
        ("pow", _power),
        ("exp", math.exp),
        ("log", math.log),
        ("ln", math.log),
        ("log2", math.log2),
        ("log10", math.log10),
        ("hypot", math.hypot),
        ("factorial", _factorial),
        ("comb", _combinations),
        ("perm", _permutations),
        ("gcd", lambda *numbers: math.gcd(*(_whole(number) for number in numbers))),
        ("lcm", lambda *numbers: math.lcm(*(_whole(number) for number in numbers))),
        ("sin", _rounded(math.sin)),
        ("cos", _rounded(math.cos)),
        ("tan", _rounded(math.tan)),
        ("asin", _rounded(math.asin)),
        ("acos", _rounded(math.acos)),
        ("atan", _rounded(math.atan)),
        ("atan2", _rounded(math.atan2)),
        ("sinh", _rounded(math.sinh)),
        ("cosh", _rounded(math.cosh)),
        ("tanh", _rounded(math.tanh)),
        ("degrees", _rounded(math.degrees)),
        ("radians", _rounded(math.radians)),
    )
}
_CONSTANTS: Mapping[str, float] = {
    "pi": math.pi,
    "e": math.e,
    "tau": math.tau,
    "Math.LN2": math.log(2),
    "Math.LN10": math.log(10),
    "Math.LOG2E": 1 / math.log(2),
    "Math.LOG10E": 1 / math.log(10),
    "Math.SQRT2": math.sqrt(2),
    "Math.SQRT1_2": math.sqrt(0.5),
}
_NODES = (ast.UnaryOp, ast.BinOp, ast.Compare, ast.Call, ast.Name, ast.Constant)


def _plain(names: Mapping[str, object]) -> str:
    return ", ".join(name for name in names if "." not in name)


_HELP = (
    f"There are the operators + - * / // % ^, comparisons, {_plain(_CONSTANTS)}, and the "
    f"functions {_plain(_FUNCTIONS)}."
)


def evaluate(expression: str) -> str:
    """The value of an expression, in digits (``true`` or ``false`` for a comparison).

    >>> evaluate("2 + 3 * 4"), evaluate("0.1 + 0.2"), evaluate("2^100"), evaluate("1/3")
    ('14', '0.3', '1267650600228229401496703205376', '0.333333333333333')

    Raises:
        ToolFailure: it is not an expression, or has no value, or one that is too large.
    """
    if not expression.strip():
        raise ToolFailure("The expression is empty. Give one such as 3 * (4 + 5).")
    if len(expression) > _LONGEST:
        raise ToolFailure(
            f"The expression has {len(expression)} characters; at most {_LONGEST} are taken. "
            "Calculate it in parts."
        )
    text = normalised(expression)
    try:
        tree = ast.parse(text, mode="eval").body
        tree = without_modules(tree, _FUNCTIONS, _CONSTANTS)
        return _shown(_evaluator().eval(text, previously_parsed=tree))
    except (_TooLargeError, OverflowError) as error:
        raise ToolFailure(
            f"{expression!r} leads to a number that is too large: up to about 3,900 digits are "
            "kept, and about 300 in functions and roots."
        ) from error
    except ZeroDivisionError as error:
        raise ToolFailure(f"{expression!r} divides by zero.") from error
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ToolFailure(
            f"{expression!r} cannot be read as an expression. Write one such as 3 * (4 + 5), "
            "with an operator between all numbers."
        ) from error
    except (InvalidExpression, ArithmeticError, TypeError, ValueError) as error:
        reason = str(error).rstrip(".").lstrip("_")
        end = "" if reason.endswith("?") else "."
        raise ToolFailure(f"{expression!r} cannot be calculated: {reason}{end} {_HELP}") from error


def _evaluator() -> SimpleEval:
    evaluator = SimpleEval(
        operators=dict(_OPERATORS), functions=dict(_FUNCTIONS), names=dict(_CONSTANTS)
    )
    call = evaluator.nodes[ast.Call]

    def call_by_name(node: ast.Call) -> object:
        if not isinstance(node.func, ast.Name):
            raise InvalidExpression("write * between a number and what it multiplies")
        if node.keywords:
            raise InvalidExpression("numbers are given without names, as in round(2.345, 2)")
        return call(node)

    evaluator.nodes = {
        **{node: evaluator.nodes[node] for node in _NODES},
        ast.Constant: _constant,
        ast.Call: call_by_name,
    }
    return evaluator


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    number = _bounded(value)
    if isinstance(number, float):
        return f"{number:.{_SHOWN_DIGITS}g}"
    if number.denominator == 1:
        return str(number.numerator)
    decimal = Context(prec=_EXACT_DIGITS).divide(
        Decimal(number.numerator), Decimal(number.denominator)
    )
    if decimal.adjusted() > -_EXACT_DIGITS and Fraction(decimal) == number:
        return f"{decimal:f}"
    return f"{decimal.normalize(Context(prec=_SHOWN_DIGITS)):g}"


@tool(effect="read_only", timeout_seconds=5)
def calculator(
    expression: Annotated[
        str,
        Field(
            description="Such as (3 + 4) * 2^10, 15% of 80, sqrt(2), round(10/3, 2), 9.11 > 9.9. "
            "log is the natural one; angles are in radians."
        ),
    ],
) -> str:
    """Calculate an arithmetic expression exactly. Use it for every calculation."""
    return evaluate(expression)
