"""Names as programs write them: `math.sqrt(16)` of Python, `Math.sqrt(16)` of JavaScript."""

from __future__ import annotations

import ast
from collections.abc import Collection

from simpleeval import InvalidExpression

from service.tools.model_text import did_you_mean

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
        known = (*self._functions, *self._constants)
        if before.id not in _MODULES:
            if name in known:
                raise InvalidExpression(
                    f"only `math.` and `Math.` can stand before a name: write {name}(16) without"
                    f" `{before.id}.`"
                    if name in self._functions
                    else f"write {name} without `{before.id}.`"
                )
            raise InvalidExpression("only `math.` and `Math.` can stand before a name")
        for each in (f"{before.id}.{name}", name, name.lower()):
            if each in known:
                return each
        meant = did_you_mean(name, [each for each in known if "." not in each])
        raise InvalidExpression(f"there is no `{before.id}.{name}` here.{meant}")
