"""Run loops as people see them in a terminal: a list, one whole, and events as lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from service.cli.output import one_line, plain, short_id
from service.cli.wire import SeenEvent
from service.cli.words import (
    arguments_in_words,
    compaction_in_words,
    counted,
    route_in_words,
)
from service.domain.events import (
    CompactionFinished,
    CompactionStarted,
    ErrorOccurred,
    ForkPoint,
    InputReceived,
    InputRequired,
    IterationStarted,
    LLMRetry,
    MemoryRecalled,
    MessageCompleted,
    MessageReceived,
    RouteDecided,
    RunLoopCancelled,
    RunLoopCompleted,
    RunLoopFailed,
    RunLoopImported,
    RunLoopStarted,
    ToolFinished,
    ToolStarted,
    Usage,
)
from service.domain.run_loops import Iteration, RunLoop, RunLoopSummary, Status

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

STYLES: dict[Status, str] = {
    "running": "bold cyan",
    "waiting_for_human_input": "bold yellow",
    "idle": "cyan",
    "completed": "green",
    "failed": "red",
    "cancelled": "dim",
}


def loops_table(loops: Sequence[RunLoopSummary]) -> Table:
    """A list of run loops, a line each."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    # An id that is cut is of no use: it keeps its room, whatever else is cut.
    table.add_column(
        "id", no_wrap=True, min_width=max((cell_len(plain(loop.id)) for loop in loops), default=2)
    )
    table.add_column("status", no_wrap=True)
    table.add_column("changed", no_wrap=True)
    table.add_column("turns", justify="right", no_wrap=True)
    table.add_column("goal")  # the only column that gives way where the terminal is narrow
    for loop in loops:
        table.add_row(
            plain(loop.id),
            Text(status_in_words(loop.status), style=STYLES[loop.status]),
            Text(when(loop.updated_at), style="dim"),
            str(loop.iteration_count),
            Text(one_line(loop.goal, 500), no_wrap=True, overflow="ellipsis"),
        )
    return table


def loop_text(loop: RunLoop, *, forked_from: ForkPoint | None = None) -> Text:
    """A run loop, word for word."""
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
    for index, iteration in enumerate(loop.iterations):
        _append_iteration(text, index, iteration)
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


def _append_iteration(text: Text, index: int, iteration: Iteration) -> None:
    text.append(f"\n{index}  {when(iteration.timestamp)}\n", style="dim")
    results = {result.id: result for result in iteration.tool_results}
    for label, words, style in (
        ("you", iteration.user_message, "bold"),
        ("thought", iteration.reasoning, "dim italic"),
        ("rondo", iteration.response, ""),
    ):
        if words:
            _append_block(text, label, words, style)
    for call in iteration.tool_calls:
        words = f"{call.name}({arguments_in_words(call.arguments)})"
        _append_block(text, "tool", words, "cyan")
        if call.id in results:
            result = results[call.id]
            style = "red" if result.is_error else "dim"
            _append_block(text, "error" if result.is_error else "result", result.content, style)


def _append_block(text: Text, label: str, words: str, style: str) -> None:
    for number, line in enumerate(plain(words).strip().splitlines()):
        text.append(f"{label if number == 0 else '':<8}", style="dim")
        text.append(f"{line}\n", style=style)


def _event_in_words(event: SeenEvent) -> tuple[str, str]:
    match event.body:
        case RunLoopStarted(goal=goal):
            return goal, "bold"
        case RunLoopImported(run_loop=run_loop, source=source):
            turns = counted(len(run_loop.iterations), "turn")
            return f"{run_loop.goal} ({turns}, from {source})", "bold"
        case MessageReceived(message=message, mode=mode):
            return f"{'' if mode == 'steer' else f'({mode}) '}{message.text}", "bold"
        case RouteDecided(route=route):
            return route_in_words(route, event.run_loop_id), "dim"
        case MemoryRecalled(recollections=recollections):
            return counted(len(recollections), "piece"), "dim"
        case IterationStarted() as started:
            return _iteration_in_words(started), "dim"
        case MessageCompleted(message=message, cut=cut):
            calls = ", ".join(call.name for call in message.tool_calls)
            parts = (message.text, f"→ {calls}" if calls else "", "(stopped here)" if cut else "")
            return " ".join(filter(None, parts)), "cyan"
        case LLMRetry(attempt=attempt, problem=problem):
            return f"attempt {attempt}: {problem.in_words()}", "yellow"
        case ToolStarted(name=name, arguments=arguments):
            return f"{name}({arguments_in_words(arguments)})", "cyan"
        case ToolFinished(name=name, content=content, is_error=is_error):
            return f"{name}: {content}", "red" if is_error else "green"
        case InputRequired(prompt=prompt):
            return prompt, "bold yellow"
        case InputReceived(approved=approved, text=text):
            said = "" if approved is None else ("yes" if approved else "no")
            return " ".join(filter(None, (said, text))), "yellow"
        case CompactionStarted(tokens=tokens, limit=limit):
            return f"{tokens:,} tokens of {limit:,}", "dim"
        case CompactionFinished() as compaction:
            return compaction_in_words(compaction), "dim"
        case Usage() as usage:
            used = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
            return f"{usage.model}: {used}", "dim"
        case RunLoopFailed(problem=problem) | ErrorOccurred(problem=problem):
            return problem.in_words(), "red"
        case RunLoopCompleted(reason=reason) | RunLoopCancelled(reason=reason):
            return reason, "green" if event.type.endswith("completed") else "dim"
        case _:
            return "", "dim"


def _iteration_in_words(started: IterationStarted) -> str:
    seen = len(started.message_ids or ())
    words = f"iteration {started.index}"
    if started.nudge is not None:
        return f"{words}: looks over its answer"
    return f"{words}: {counted(seen, 'message')} seen" if seen else words
