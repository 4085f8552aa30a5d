"""Run loops as people see them in a terminal: a list, one whole, and events as lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from service.cli.daemon.stream_items import SeenEvent
from service.cli.terminal.output import one_line, plain, short_id, wrapped
from service.cli.views.phrases import (
    arguments_in_words,
    compaction_in_words,
    counted,
    hint,
    message_lines,
    not_whole_in_words,
    route_in_words,
    whys_at,
)
from service.domain.history import events, human_input
from service.domain.run_loops import Iteration, RunLoop, Status
from service.wire.run_loop_bodies import DecidedRoute, RunLoopLine

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_LONGEST_NAME = 16  # cells of an id in a list: as many as an id of our own has
_LABEL = 8  # cells before each line of a run loop's words
STYLES: dict[Status, str] = {
    "running": "bold cyan",
    "waiting_for_human_input": "bold yellow",
    "idle": "cyan",
    "completed": "green",
    "failed": "red",
    "cancelled": "dim",
}


def loops_table(loops: Sequence[RunLoopLine]) -> Table:
    """A list of run loops, a line each."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    ids = names_in_a_list([plain(loop.id) for loop in loops])
    # An id that is cut anywhere is of no use: it keeps its room, whatever else is cut.
    table.add_column("id", no_wrap=True, min_width=max(map(cell_len, ids), default=2))
    table.add_column("status", no_wrap=True)
    table.add_column("changed", no_wrap=True)
    table.add_column("turns", justify="right", no_wrap=True)
    # These two give way where the terminal is narrow.
    table.add_column("why")
    table.add_column("goal")
    for loop, name in zip(loops, ids, strict=True):
        table.add_row(
            name,
            Text(status_in_words(loop.status), style=STYLES[loop.status]),
            Text(when(loop.updated_at).partition(" ")[0], style="dim"),
            str(loop.iteration_count),
            Text(hint(loop), style="dim", no_wrap=True, overflow="ellipsis"),
            Text(one_line(loop.goal, 500), no_wrap=True, overflow="ellipsis"),
        )
    return table


def names_in_a_list(ids: Sequence[str]) -> list[str]:
    """Ids as a list shows them: of long ones (imported) a beginning that tells them apart.

    Commands take such a beginning, with or without the mark that it is one.

    >>> names_in_a_list(["01jd3v6k2m9x4q8w", "chatgpt-6a1f0e9c-1111-4222-8333-444455556666"])
    ['01jd3v6k2m9x4q8w', 'chatgpt-6a1f0e9…']
    """
    names = []
    for run_loop_id in ids:
        length = _LONGEST_NAME - 1
        while length < len(run_loop_id) and any(
            other != run_loop_id and other.startswith(run_loop_id[:length]) for other in ids
        ):
            length += 1
        is_cut = len(run_loop_id) > max(_LONGEST_NAME, length + 1)
        names.append(f"{run_loop_id[:length]}…" if is_cut else run_loop_id)
    return names


def loop_text(
    loop: RunLoop,
    *,
    forked_from: events.ForkPoint | None = None,
    whys: Sequence[DecidedRoute] = (),
    width: int = 500,
) -> Text:
    """A run loop, word for word, and why each message came to it.

    Args:
        loop: the loop.
        forked_from: for a fork: where.
        whys: of its messages.
        width: of the terminal, in cells: why a message came is wrapped to that.
    """
    from rich.text import Text

    text = Text()
    text.append(plain(loop.goal).strip() + "\n", style="bold")
    text.append(plain(loop.id), style="dim")
    text.append("  ")
    text.append(status_in_words(loop.status), style=STYLES[loop.status])
    text.append(f"  opened {when(loop.created_at)}", style="dim")
    if loop.completed_at is not None:
        text.append(f"  ended {when(loop.completed_at)}", style="dim")
    if forked_from is not None:
        words = f"  forked from {plain(forked_from.run_loop_id)} after event {forked_from.seq}"
        text.append(words, style="dim")
    elif loop.predecessor_id is not None:
        text.append(f"  after {plain(loop.predecessor_id)}", style="dim")
    text.append("\n")
    last = len(loop.iterations) - 1
    for index, iteration in enumerate(loop.iterations):
        here = whys_at(whys, index, is_last=index == last)
        lines = message_lines(here, loop.id)
        why = [each for line in lines for each in wrapped(line, width - _LABEL)]
        _append_iteration(text, index, iteration, why)
    return text


def event_line(event: SeenEvent) -> Text | None:
    """An event as a line, its number first; None for those that say nothing alone (deltas)."""
    from rich.text import Text

    words, style = _event_in_words(event)
    if event.seq is None and event.type != "error":
        return None
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{'' if event.seq is None else event.seq:>6}  ", style="dim")
    line.append(f"{when(datetime.fromisoformat(event.at))}  ", style="dim")
    line.append(f"{short_id(event.run_loop_id)}  ", style="dim")
    line.append(f"{event.type:<20} ", style=style)
    line.append(one_line(words, 500))
    return line


def when(at: datetime) -> str:
    """A moment in local time: the clock for today, the date before.

    >>> when(datetime.fromisoformat("2001-02-03T04:05:06+00:00"))[:8]
    '2001-02-'
    """
    local = at.astimezone()
    if local.date() == datetime.now().astimezone().date():
        return local.strftime("%H:%M:%S")
    return local.strftime("%Y-%m-%d %H:%M")


def status_in_words(status: Status) -> str:
    """A status as people say it."""
    return "waits for you" if status == "waiting_for_human_input" else status


def _append_iteration(text: Text, index: int, iteration: Iteration, why: Sequence[str]) -> None:
    text.append(f"\n{index}  {when(iteration.timestamp)}\n", style="dim")
    if iteration.moved_to is not None:
        _append_block(text, "moved", f"to {plain(iteration.moved_to)}", "dim")
        return
    if why:
        _append_block(text, "why", "\n".join(why), "dim")
    results = {result.id: result for result in iteration.tool_results}
    for label, words, style in (
        ("you", iteration.user_message, "bold"),
        ("thought", iteration.reasoning, "dim italic"),
        ("rondo", iteration.response, ""),
    ):
        if words:
            _append_block(text, label, words, style)
    if iteration.finish_reason is not None:
        _append_block(text, "", not_whole_in_words(iteration.finish_reason), "dim")
    for call in iteration.tool_calls:
        words = f"{call.name}({arguments_in_words(call.arguments)})"
        _append_block(text, "tool", words, "cyan")
        if call.id in results:
            result = results[call.id]
            style = "red" if result.is_error else "dim"
            label = "outside" if result.outside else "result"
            _append_block(text, "error" if result.is_error else label, result.content, style)


def _append_block(text: Text, label: str, words: str, style: str) -> None:
    for number, line in enumerate(plain(words).strip().splitlines()):
        text.append(f"{label if number == 0 else '':<{_LABEL}}", style="dim")
        text.append(f"{line}\n", style=style)


def _event_in_words(event: SeenEvent) -> tuple[str, str]:
    match event.body:
        case events.RunLoopStarted(goal=goal):
            return goal, "bold"
        case events.RunLoopImported(run_loop=run_loop, source=source):
            turns = counted(len(run_loop.iterations), "turn")
            return f"{run_loop.goal} ({turns}, from {source})", "bold"
        case events.MessageReceived(message=message, mode=mode):
            return f"{'' if mode == 'steer' else f'({mode}) '}{message.words}", "bold"
        case events.RouteDecided(route=route):
            return route_in_words(route, event.run_loop_id), "dim"
        case events.MessageMoved(message_ids=ids, to_run_loop_id=to):
            return f"{counted(len(ids), 'message')} → {short_id(to)}", "dim"
        case events.MemoryRecalled(recollections=recollections):
            return counted(len(recollections), "piece"), "dim"
        case events.IterationStarted() as started:
            return _iteration_in_words(started), "dim"
        case events.MessageCompleted(message=message, cut=cut, finish_reason=reason):
            calls = ", ".join(call.name for call in message.tool_calls)
            ended = "(stopped here)" if cut else f"({not_whole_in_words(reason)})" if reason else ""
            parts = (message.text, f"→ {calls}" if calls else "", ended)
            return " ".join(filter(None, parts)), "cyan"
        case events.LLMRetry(attempt=attempt, problem=problem):
            return f"attempt {attempt}: {problem.in_words()}", "yellow"
        case events.LLMFallback() as fallback:
            return fallback.in_words(), "yellow"
        case events.ToolStarted(name=name, arguments=arguments):
            return f"{name}({arguments_in_words(arguments)})", "cyan"
        case events.ToolFinished(name=name, content=content, is_error=is_error, outside=outside):
            source = " (from outside)" if outside else ""
            return f"{name}{source}: {content}", "red" if is_error else "green"
        case human_input.InputRequired(prompt=prompt):
            return prompt, "bold yellow"
        case human_input.InputReceived(approved=approved, text=text):
            said = "" if approved is None else ("yes" if approved else "no")
            return " ".join(filter(None, (said, text))), "yellow"
        case events.CompactionStarted(tokens=tokens, limit=limit):
            return f"{tokens:,} tokens of {limit:,}", "dim"
        case events.CompactionFinished() as compaction:
            return compaction_in_words(compaction), "dim"
        case events.Usage() as usage:
            used = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
            return f"{usage.model}: {used}", "dim"
        case events.RunLoopFailed(problem=problem) | events.ErrorOccurred(problem=problem):
            return problem.in_words(), "red"
        case events.RunLoopCompleted(reason=reason) | events.RunLoopCancelled(reason=reason):
            return reason, "green" if event.type.endswith("completed") else "dim"
        case _:
            return "", "dim"


def _iteration_in_words(started: events.IterationStarted) -> str:
    seen = len(started.message_ids or ())
    words = f"iteration {started.index}"
    if started.continues:
        return f"{words}: goes on with its answer"
    if started.nudge is not None:
        return f"{words}: looks over its answer"
    return f"{words}: {counted(seen, 'message')} seen" if seen else words
