"""How the router decides: what the settings say of it."""

from __future__ import annotations

from dataclasses import dataclass

from service.agent.tuned import ROUTER_SURE_ABOVE


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
    split_matters: bool = False
    """Whether a message with several matters is taken apart."""
