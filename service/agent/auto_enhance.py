"""Whether the model looks over its answers once more: a switch that each owner has."""

from __future__ import annotations


class AutoEnhance:
    """Asked for each answer, so that switching counts from the next one on.

    Switches last as long as the process; what is to last longer is the setting.
    """

    def __init__(self, *, default: bool) -> None:
        self._default = default
        self._chosen: dict[str, bool] = {}

    def is_on(self, owner: str) -> bool:
        """Whether the answers to an owner are looked over."""
        return self._chosen.get(owner, self._default)

    def switch(self, owner: str, *, on: bool) -> None:
        """Look over the answers to an owner from now on, or do not."""
        self._chosen[owner] = on
