"""WHERE clauses of conditions that may or may not be asked for."""

from __future__ import annotations

from typing import Any


class Where:
    """A WHERE clause; conditions without a value are left out."""

    def __init__(self, condition: str, value: Any) -> None:
        self._conditions = [condition]
        self.values: list[Any] = [value]

    def add(self, condition: str, *values: Any) -> None:
        """One more condition, and the values of its question marks; None leaves it out."""
        if values != (None,):
            self._conditions.append(condition)
            self.values.extend(values)

    def __str__(self) -> str:
        return f"WHERE {' AND '.join(self._conditions)}"
