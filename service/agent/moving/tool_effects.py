"""What tools have done for a message: what cannot be taken back is not told as if it had been."""

from __future__ import annotations

from service.agent.moving.moved_rounds import Round
from service.domain.errors import ConflictError
from service.tools.registry import ToolRegistry


def has_side_effects(gone: Round, tools: ToolRegistry) -> bool:
    """Whether a tool that may have changed something has begun since the messages were heard."""
    return bool(_with_side_effects(gone, tools))


def check_can_be_taken_back(gone: Round, tools: ToolRegistry) -> None:
    """See that nothing was done upon an answer that would stay done without it.

    Raises:
        ConflictError: a tool with side effects has begun.
    """
    names = _with_side_effects(gone, tools)
    if names:
        told = ", ".join(f"`{name}`" for name in names)
        raise ConflictError(
            f"message {gone.message_ids[-1]} was the answer to what run loop {gone.state.id} had"
            f" asked, and {told} has run upon it since, which cannot be taken back",
            advice="Send the words anew to where they belong; or move the message before, and all"
            " that followed goes with it.",
        )


def _with_side_effects(gone: Round, tools: ToolRegistry) -> list[str]:
    """The names of such tools; one that is offered no more may have had any effect."""
    return [
        name
        for name in sorted(gone.tools_begun)
        if (tool := tools.get(name)) is None or tool.effect not in ("read_only", "idempotent")
    ]
