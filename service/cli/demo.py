"""`make demo`: a short tour on the real thing, which ends by itself.

A daemon of its own, on a free port and in a temporary folder, gets messages about two topics; the
tour shows where they go and why, completes both, finds them in memory again, and asks about one.
It relies on what the daemon does, not on the words that the model chooses.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from service.cli.chat.conversation import Conversation
from service.cli.chat.turn import Turn
from service.cli.daemon.daemon_client import Daemon, patiently
from service.cli.daemon.daemon_process import DaemonProcess, running_daemon
from service.cli.daemon.daemon_requests import loop_path
from service.cli.daemon.stream_items import read_as
from service.cli.terminal.download_bar import pull_with_progress
from service.cli.terminal.output import aside, out
from service.cli.views.loop_tables import loops_table
from service.cli.views.memory_views import print_context, print_hits
from service.cli.views.run_loop_ids import run_loops
from service.config import Settings, config_file, load_settings
from service.domain.anchors import ExpandedContext, SearchResult
from service.domain.errors import RondoError
from service.llm.model_descriptions import model_in_words
from service.models.machine import CANDIDATES, chosen
from service.models.weight_store import ModelStore
from service.wire.memory_bodies import Stats

TRIP = (
    "My daughter Mia and I are flying to Lisbon on 12 May. Mia is allergic to peanuts. "
    "What should we tell the airline before the flight?"
)
TOMATOES = "我想在阳台上种番茄。番茄喜欢阳光吗？"
FOLLOW_UP = "Before our flight to Lisbon: what should Mia and I tell the airline about the seats?"
QUERY = "What is Mia allergic to?"
LATER = "What is my daughter Mia allergic to?"

_REMEMBER_SECONDS = 120.0
_BRIEF = "Answer in at most two short sentences."


class DemoError(RondoError):
    """The tour did not show what it promises."""

    kind = "demo"
    title = "The tour failed"


def main() -> int:
    """Run the tour; its exit code."""
    began = time.monotonic()
    try:
        settings = load_settings()
        with tempfile.TemporaryDirectory(prefix="rondo-demo-") as folder:
            code = _tour(settings, Path(folder))
        if code != 0:
            raise DemoError(f"the daemon ended with exit code {code}")
    except RondoError as error:
        aside().print(f"\n{error.problem().in_words()}", style="red")
        return 1
    except KeyboardInterrupt:
        aside().print("\nThe tour was stopped.", style="dim")
        return 130
    aside().print(f"\nThat was the tour, in {time.monotonic() - began:.0f} s.", style="bold")
    aside().print("Your own daemon: make run. Then, in another terminal: rondo chat", style="dim")
    return 0


def _tour(settings: Settings, folder: Path) -> int:
    if settings.llm.effective_provider == "embedded":
        settings = _with_a_model_for_a_tour(settings)
        pull_with_progress(settings.models_dir, settings.llm.model, quiet=True)
    _heading("A daemon of its own", "on a free port, in a temporary folder")
    aside().print(f"Model: {model_in_words(settings)}.", style="dim")
    with running_daemon(settings, folder, environment=_environment(settings)) as daemon:
        _wait_for(daemon)
        with daemon.client() as client:
            loops = _send_messages(client)
            _complete(client, loops)
            _wait_until_remembered(client, settings, len(loops))
            _look_back(client)
            _ask_again(client)
        _heading("The daemon stops")
        return daemon.stop()


def _with_a_model_for_a_tour(settings: Settings) -> Settings:
    """What the daemon would take; a smaller one if only that is here: a tour waits for no other."""
    if settings.llm.model:
        return settings
    store = ModelStore(settings.models_dir)
    name = chosen().name
    if store.path(name) is None:
        smaller = store.smaller_here(name)
        name = smaller if smaller in CANDIDATES else name
    llm = settings.llm.model_copy(update={"model": name})
    return settings.model_copy(update={"llm": llm})


def _environment(settings: Settings) -> dict[str, str]:
    """The person's own settings, so that a configured endpoint is used; loops do not linger out."""
    environment = {"RONDO_AGENT__LINGER_SECONDS": "3600"}
    if not settings.agent.system_prompt:
        environment["RONDO_AGENT__SYSTEM_PROMPT"] = _BRIEF
    if file := config_file():
        environment["RONDO_CONFIG"] = str(file.resolve())
    if settings.llm.effective_provider == "embedded":
        environment["RONDO_LLM__MODEL"] = settings.llm.model
    return environment


def _wait_for(daemon: DaemonProcess) -> None:
    began = time.monotonic()
    with aside().status("starting …", spinner="dots", spinner_style="dim"):
        daemon.wait_until(lambda readiness: readiness.agent.ready and readiness.memory.ready)
    seconds = time.monotonic() - began
    aside().print(f"It answers at {daemon.client().url}, after {seconds:.1f} s.", style="dim")


def _send_messages(client: Daemon) -> list[str]:
    """Three messages about two topics; the ids of their run loops."""
    _heading("Two topics", "nobody says which message belongs where: the router decides")
    trip = _send(client, TRIP)
    tomatoes = _send(client, TOMATOES)
    follow_up = _send(client, FOLLOW_UP)
    if follow_up.run_loop_id == trip.run_loop_id:
        _note("The third message found the run loop of the first.")
    else:
        _note("The third message went elsewhere than a person would have put it.")
    out().print()
    out().print(loops_table(list(run_loops(client, why=True))))
    turns = (trip, tomatoes, follow_up)
    return list(dict.fromkeys(turn.run_loop_id for turn in turns))


def _complete(client: Daemon, loops: list[str]) -> None:
    _heading("Both are completed", "what was said goes to long-term memory, word for word")
    for run_loop_id in loops:
        client.post(f"{loop_path(run_loop_id)}/complete")


def _wait_until_remembered(client: Daemon, settings: Settings, loops: int) -> None:
    embeds = settings.embedder.kind != "none"
    end = time.monotonic() + _REMEMBER_SECONDS
    with aside().status("segmenting, embedding, indexing …", spinner="dots", spinner_style="dim"):
        while True:
            stats = read_as(Stats, client.get("/v1/memory/stats"))
            archived = stats.run_loops == loops
            embedded = stats.embedded == stats.segments or not embeds
            if archived and (embedded or stats.problem):
                break
            if time.monotonic() > end:
                raise DemoError(f"memory was not complete after {_REMEMBER_SECONDS:.0f} s: {stats}")
            time.sleep(0.2)
    _note(
        f"{stats.run_loops} run loops in {stats.segments} segments, "
        f"{stats.embedded} of them with a vector."
    )
    if stats.problem:
        aside().print(stats.problem, style="yellow")


def _look_back(client: Daemon) -> None:
    _heading("Searching memory", f"“{QUERY}”")
    results = read_as(SearchResult, client.post("/v1/memory/search", {"query": QUERY, "limit": 3}))
    print_hits(results)
    if not results.hits:
        raise DemoError("the search found nothing of what was said just now")
    anchor = results.hits[0].anchor.text
    _heading("Reading around the first hit", anchor)
    context = client.post("/v1/memory/expand", {"anchor": anchor, "before": 1, "after": 2})
    print_context(read_as(ExpandedContext, context))


def _ask_again(client: Daemon) -> None:
    _heading("Later, a new message", "no run loop is active: the answer draws on memory")
    if _send(client, LATER).recalled == 0:
        raise DemoError("the new run loop was given nothing of what is remembered")


def _send(client: Daemon, text: str) -> Turn:
    out().print(f"\n› {text}", style="bold")
    conversation = Conversation(client, on_break=patiently())
    turn = conversation.send(text)
    if turn.outcome != "answered":
        raise DemoError(
            f"the message was not answered: it is {turn.outcome}",
            advice=turn.problem.in_words() if turn.problem else "",
        )
    return turn


def _heading(title: str, more: str = "") -> None:
    from rich.rule import Rule
    from rich.text import Text

    out().print()
    words = Text(title, style="bold cyan")
    if more:
        words.append(f"  {more}", style="not bold dim")
    out().print(Rule(words, align="left", style="dim", characters="─"))


def _note(words: str) -> None:
    out().print(words, style="green")


if __name__ == "__main__":
    sys.exit(main())
