"""What `rondo doctor` looks at: one function for each part of the setup, each giving one verdict.

A check never raises for what it checks: what it finds wrong is its result, with what to do.
`model_checks` has those that look at models.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from dataclasses import dataclass
from typing import Literal

from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.daemon_errors import BadTokenFileError, DaemonError, DaemonNotRunningError
from service.cli.daemon.daemon_requests import read_token
from service.cli.daemon.daemon_settings import daemon_settings, differing
from service.cli.daemon.stream_items import read_as
from service.cli.views.phrases import counted
from service.config import (
    Settings,
    SpendSettings,
    config_file,
    load_settings,
    unknown_variables,
    variable_like,
)
from service.domain.errors import ConfigurationError, StorageError
from service.memory.stores import ReaderLag, damage_of, journal_copies, reader_lag
from service.wire.daemon_bodies import ReadyPart, Tools
from service.wire.memory_bodies import Stats

Verdict = Literal["ok", "note", "broken"]
"""``note``: it works without, only less well; ``broken``: the assistant cannot do its work."""
_LITTLE_SPACE = 1_000_000_000
_NO_SPACE = 100_000_000
_ADVICE = {
    "journal.sqlite3": "Stop the daemon, and restore journal.sqlite3 from a backup: it is the truth"
    " of which all else is made. What can still be read, `rondo memory export` writes.",
    "memory.sqlite3": "Stop the daemon, move memory.sqlite3* out of the data folder, and start it"
    " again: it is made anew from the journal.",
}
_LONG_TERM = "long-term memory"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found."""

    verdict: Verdict
    words: str
    advice: str = ""


def check_tools(settings: Settings) -> Finding:
    """Whether the tools of one's own can be loaded."""
    from service.agent.agent_factory import agent_from_settings  # slow
    from service.agent.plugins import load_tools

    try:
        own = load_tools(settings.tools.modules, entry_points=settings.tools.entry_points)
        # What caps on spending lack is told where these are looked at.
        agent_from_settings(settings.model_copy(update={"spend": SpendSettings()}))
    except ConfigurationError as error:
        return Finding("broken", f"{error.detail}: the daemon does not start so", error.advice)
    if own.unavailable:
        words = "; ".join(own.unavailable.values())
        return Finding("note", f"tools of your own are not offered: {words}")
    number = len(own.tools)
    count = "none" if not number else f"{number}, and all can be loaded"
    return Finding("ok", f"of your own: {count}")


def check_tool_servers(settings: Settings) -> Finding:
    """Whether each MCP server of the settings is there, and says what was accepted."""
    if not settings.tools.mcp:
        return Finding("ok", "none in the settings")
    with Daemon(settings) as daemon:
        try:
            servers = read_as(Tools, daemon.get("/v1/tools")).servers
        except DaemonError:
            named = ", ".join(settings.tools.mcp)
            return Finding("note", f"{named}: only a daemon that runs can tell how they are")
    lines = [f"{each.name} ({each.where}): {each.words}" for each in servers]
    if all(each.is_there and not each.held for each in servers):
        return Finding("ok", "\n".join(lines))
    return Finding("note", "\n".join(lines), "Without its tools, the assistant does without.")


def check_sandbox(settings: Settings) -> Finding:
    """In what scripts run."""
    from service.tools.sandbox.levels import sandbox_for  # slow

    try:
        sandbox = sandbox_for(settings.tools.sandbox)
    except ConfigurationError as error:
        return Finding("broken", f"{error.detail}: the daemon does not start so", error.advice)
    if sandbox.level == "none":
        words = f"none: each run of a script asks you ({sandbox.problem})"
        return Finding("note" if settings.tools.scripts else "ok", words)
    but = "; ".join(f"{attack} ({reason})" for attack, reason in sandbox.not_covered.items())
    words = f"{sandbox.description}{f'; not covered: {but}' if but else ''}"
    words += f"; no better one works: {sandbox.problem}" if sandbox.problem else ""
    if isinstance(settings.tools.script_network, tuple) and not sandbox.leads_to_proxy:
        words += "; tools.script_network lists hosts, and it cannot keep a script to some"
        return Finding("note", words, "Scripts have no network here. Set it to true for all of it.")
    return Finding("ok", words)


def check_scripts(settings: Settings) -> Finding:
    """Whether all skills have the form, and all scripts can be run."""
    from service.tools.skills.skill_catalogue import scripts_of
    from service.tools.skills.skill_settings import repository_of

    try:
        seen = repository_of(settings).look()
    except StorageError as error:
        return Finding("note", error.detail, error.advice)
    broken = [f"{each.name}: {each.reason}" for each in seen.unusable]
    scripts = [each for skill in seen.skills for each in scripts_of(skill)]
    broken += [f"{each.name}: {each.problem}" for each in scripts if each.problem]
    count = sum(each.kind == "skill" for each in seen.skills)
    words = f"{counted(count, 'skill')}, {counted(len(scripts), 'script')}"
    if not broken:
        return Finding("ok", words)
    advice = "`rondo scripts` lists them; the others are offered."
    return Finding("note", "\n".join((f"{words}; some cannot be used", *broken)), advice)


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


def check_settings(settings: Settings) -> Finding:
    """Whether the settings can be read, and from which file."""
    try:
        load_settings()
    except ConfigurationError as error:
        return Finding(
            "broken",
            f"broken settings\n{error.detail}",
            f"{error.advice} What follows was looked at without them.",
        )
    file = config_file()
    where = f"{file.resolve()} was read" if file else "there is no rondo.toml"
    unknown = unknown_variables()
    if unknown:
        words = f"{where}; nothing reads {', '.join(unknown)}"
        meant = [f"{like} for {name}" for name in unknown if (like := variable_like(name))]
        advice = f"Perhaps {', '.join(meant)} is meant." if meant else "Unset what is not needed."
        return Finding("note", words, f"{advice} `rondo config` shows all settings.")
    effective = daemon_settings(settings)
    if effective is not None and (others := differing(settings.shown(), effective.settings)):
        return Finding(
            "note",
            f"{where}; the daemon was started with other {', '.join(others)}",
            "What follows tells of the daemon. To have it work with the settings here, start it"
            " again from here; `rondo config --here` shows them.",
        )
    return Finding("ok", f"{where}; RONDO_* variables come before it")


def check_data_folder(settings: Settings) -> Finding:
    """Whether the data folder can be written, and how much room is left."""
    folder = settings.data_dir
    parent = folder
    while not parent.exists() and parent != parent.parent:
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        return Finding(
            "broken",
            f"{folder} cannot be written",
            "Correct its permissions, or choose another one with RONDO_DATA_DIR.",
        )
    free = shutil.disk_usage(parent).free
    words = f"{folder}, {free / 1e9:,.1f} GB free"
    if free < _NO_SPACE:
        return Finding("broken", words, "Free some space: nothing can be stored safely.")
    if free < _LITTLE_SPACE:
        return Finding("note", words, "Free some space before it runs out.")
    if not folder.exists():
        return Finding("ok", f"{words}; it is made at the first start")
    return Finding("ok", words)


def check_token(settings: Settings) -> Finding:
    """Whether the token is there, and is a secret."""
    file = settings.data_dir / "token"
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
        with file.open("rb"):
            token = read_token(file)
    except FileNotFoundError:
        return Finding("ok", "none yet: it is made at the first start")
    except OSError as error:
        return Finding("broken", f"{file} cannot be read: {error}", "Correct its permissions.")
    except BadTokenFileError as error:
        return Finding("broken", error.detail, error.advice)
    if token is None:
        return Finding("broken", f"{file} is empty", "Delete it: the next start makes a new one.")
    if mode & 0o077:
        advice = f"Make it yours alone: chmod 600 {file}"
        return Finding("note", f"others on this machine can read {file}", advice)
    return Finding("ok", f"{file}, readable by you alone")


def check_daemon(settings: Settings) -> Finding:
    """Whether the daemon answers, knows our token, and is ready."""
    with Daemon(settings) as daemon:
        try:
            readiness = daemon.readiness()
            daemon.get("/v1/run-loops", {"limit": 1})
        except DaemonNotRunningError:
            words = f"not running at {daemon.url}"
            return Finding("note", words, "Start it with `rondo serve` or `make run`.")
        except DaemonError as error:
            return Finding("broken", f"{error.title}: {error.detail}", error.advice)
    if readiness.ready:
        return Finding("ok", f"running at {daemon.url}, ready")
    waiting = [
        f"{name}: {part.detail}"
        for name, part in readiness
        if isinstance(part, ReadyPart) and not part.ready
    ]
    words = f"running at {daemon.url}, not ready yet ({'; '.join(waiting)})"
    return Finding("note", words, "Messages are accepted, and answered when it is ready.")


def check_databases(settings: Settings) -> Finding:
    """Whether the databases are whole, page by page; they may be in use meanwhile."""
    sound: list[str] = []
    for name, advice in _ADVICE.items():
        file = settings.data_dir / name
        if not file.exists():
            continue
        damage = damage_of(settings.data_dir, name)
        if damage is not None:
            return Finding("broken", f"{name} is damaged: {damage}", advice)
        sound.append(f"{name} ({file.stat().st_size / 1e6:,.1f} MB)")
    if not sound:
        return Finding("ok", "none yet: they are made at the first start")
    words = f"whole: {', '.join(sound)}"
    if kept := journal_copies(settings.data_dir):
        named = ", ".join(f"{each} ({each.stat().st_size / 1e6:,.1f} MB)" for each in kept)
        return Finding(
            "note",
            f"{words}\n{named}: the journal as it was before its form changed, kept in case you"
            " want to go back to the version before",
            "Delete it once you do not: it holds all that was said until then. The first"
            " forgetting deletes it, too.",
        )
    return Finding("ok", words)


def check_readers(settings: Settings) -> Finding:
    """Whether all that was journaled is archived, and nobody in the daemon is stuck."""
    try:
        lag = reader_lag(settings.data_dir)
    except StorageError as error:
        advice = "The next start of the daemon brings the files up to date."
        return Finding("note", f"how far memory is behind cannot be read: {error.detail}", advice)
    if lag is None:
        return Finding("ok", "nothing was journaled yet")
    words = [_in_words(lag)]
    behind = {name: count for name, count in _in_daemon(settings).items() if count}
    behind.pop(_LONG_TERM, None)  # by the files, which also tell what a stopped daemon has left
    words += [f"{name} is {_changes(count)} behind" for name, count in behind.items()]
    if lag.problem is not None:
        words.append(f"one cannot be archived: {lag.problem}")
        return Finding("note", "; ".join(words), "It is tried again; the other ones go on.")
    return Finding("ok", "; ".join(words))


def _in_words(lag: ReaderLag) -> str:
    if not (lag.changes or lag.waiting):
        return f"{_LONG_TERM} has read all changes"
    clauses = []
    if lag.changes:
        age = "" if lag.since is None else f", for {_duration(time.time() - lag.since)}"
        clauses.append(f"is {_changes(lag.changes)} behind the journal{age}")
    if lag.waiting:
        clauses.append(f"has {lag.waiting} run loop{'' if lag.waiting == 1 else 's'} to archive")
    return f"{_LONG_TERM} {' and '.join(clauses)}"


def _changes(count: int) -> str:
    return f"{count:,} change{'' if count == 1 else 's'}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"


def _in_daemon(settings: Settings) -> dict[str, int]:
    """By how many changes each reader in the daemon is behind; nothing where there is none."""
    with Daemon(settings) as daemon:
        try:
            return read_as(Stats, daemon.get("/v1/memory/stats")).readers
        except DaemonError:
            return {}  # the check of the daemon tells
