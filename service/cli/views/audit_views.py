"""The audit trail in a terminal: a few lines for each call of a tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.cli.terminal.output import aside, one_line, out, plain, short_id
from service.cli.views.phrases import arguments_in_words
from service.domain.audit import AuditEntry, AuditGrant, AuditOutcome, AuditPage

if TYPE_CHECKING:
    from rich.text import Text

_LONGEST = 400
_OUTCOMES: dict[AuditOutcome, tuple[str, str]] = {
    "done": ("done", "green"),
    "failed": ("failed", "red"),
    "unknown": ("interrupted: whether it did its work is unknown", "yellow"),
    "running": ("running", "cyan"),
}


def print_audit(page: AuditPage, *, options: str = "") -> None:
    """Calls, newest first: what ran and what came of it, by whose leave, and for which run loop.

    Args:
        page: the calls.
        options: what was given to choose them, as it is typed; asks for the next page, too.
    """
    if not page.entries:
        aside().print("No tool has done anything that fits.", style="dim")
        return
    for each in page.entries:
        out().print(_entry(each), soft_wrap=True)
    if page.next is not None:
        command = f"rondo audit {options}".rstrip()
        aside().print(
            f"There is more: {plain(command)} --before {page.next}", style="dim", soft_wrap=True
        )


def _entry(entry: AuditEntry) -> Text:
    from rich.text import Text

    outcome, style = _OUTCOMES[entry.outcome]
    call = f"{entry.tool}({arguments_in_words(entry.arguments)})"
    lines = Text(f"{entry.at.astimezone():%Y-%m-%d %H:%M:%S}  ", style="dim")
    lines.append(one_line(call, _LONGEST), style="bold").append("  ").append(outcome, style=style)
    about = [grant_in_words(entry.grant), *([plain(entry.about)] if entry.about else [])]
    lines.append(f"\n  {' · '.join(about)}", style="dim")
    goal = f" “{one_line(entry.goal, 60)}”" if entry.goal else ""
    lines.append(f"\n  for {short_id(entry.run_loop_id)}{goal}", style="dim")
    if entry.result is not None:
        lines.append(f"\n  → {one_line(entry.result, _LONGEST)}")
    return lines


def grant_in_words(grant: AuditGrant | None) -> str:
    """By whose leave a call ran.

    >>> grant_in_words(AuditGrant(kind="always"))
    'you have allowed it for good'
    >>> grant_in_words(None)
    'by whose leave is not known: an older version ran it'
    """
    match grant:
        case None:
            return "by whose leave is not known: an older version ran it"
        case AuditGrant(kind="asked", given_at=given_at):
            when = "" if given_at is None else f", {given_at.astimezone():%Y-%m-%d %H:%M:%S}"
            return f"you were asked, and said yes{when}"
        case AuditGrant(kind="run_loop"):
            return f"you have allowed it in this run loop{_narrowed(grant)}"
        case AuditGrant(kind="always"):
            return f"you have allowed it for good{_narrowed(grant)}"
    return "it needs nobody's yes"


def _narrowed(grant: AuditGrant) -> str:
    return "" if grant.narrowed is None else f": {plain(grant.rule or '')}"
