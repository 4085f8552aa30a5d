"""What `rondo doctor` looks at: one function for each part of the setup, each giving one verdict.

A check never raises for what it checks: what it finds wrong is its result, with what to do.
"""

from __future__ import annotations

import os
import shutil
import stat

from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.daemon_errors import BadTokenFileError, DaemonError, DaemonNotRunningError
from service.cli.daemon.daemon_settings import daemon_settings, differing
from service.cli.daemon.token_auth import read_token
from service.cli.doctor.findings import Finding
from service.config import Settings, config_file, load_settings, unknown_variables, variable_like
from service.domain.errors import ConfigurationError
from service.wire.daemon_bodies import ReadyPart

_LITTLE_SPACE = 1_000_000_000
_NO_SPACE = 100_000_000


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
