"""The check of `rondo doctor` that looks at consolidation."""

from __future__ import annotations

from service.cli.doctor.findings import Finding
from service.config import Settings


def check_notes(settings: Settings) -> Finding:
    """Whether notes are written, and by a model that may."""
    chosen = settings.memory.consolidation
    if not chosen.enabled:
        return Finding("ok", "none are written (memory.consolidation.enabled is false)")
    if settings.llm.effective_provider == "embedded":
        return Finding(
            "broken",
            "memory.consolidation.enabled is set, but the embedded model would invent what it notes"
            " down: the daemon does not start so",
            "Set llm.base_url and llm.api_key to a model at an endpoint, or"
            " memory.consolidation.enabled = false.",
        )
    return Finding(
        "ok",
        f"written after {chosen.idle_seconds:g} idle seconds, with at most"
        f" {chosen.max_tokens_per_day:,} tokens a day",
    )
