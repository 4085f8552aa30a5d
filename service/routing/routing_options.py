"""How the router decides: what the settings say of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from service.domain.errors import ConfigurationError
from service.tuning import ROUTER_SURE_ABOVE, ROUTER_UNSURE_BELOW


@dataclass(frozen=True, slots=True)
class RouterOptions:
    """What a router does where it is not sure."""

    use_llm: bool = True
    """Whether the language model is asked then."""
    llm_timeout_seconds: float = 15
    """How long it may take to answer."""
    sure_above: float = ROUTER_SURE_ABOVE
    """The confidence from which on the trained model decides by itself. 0: always."""
    ask_below: float = 0.0
    """The confidence below which a person is asked where the message belongs. 0: never."""
    unsure_below: float = ROUTER_UNSURE_BELOW
    """The confidence below which a route tells what else it could have been. 0: none does."""
    split_matters: bool = False
    """Whether a message with several requests is taken apart."""

    def __post_init__(self) -> None:
        """See that all can be.

        Raises:
            ConfigurationError: a number is out of its range.
        """
        for name in ("sure_above", "ask_below", "unsure_below"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigurationError(
                    f"router.{name} must be a number from 0 to 1", advice="It is a probability."
                )
        if not 0 < self.llm_timeout_seconds < math.inf:
            raise ConfigurationError(
                "router.llm_timeout_seconds must be a number above 0",
                advice="Give it in seconds; `use_llm` off has the model not asked at all.",
            )
