"""The check of `rondo doctor` that looks through the databases of the data folder."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from service.cli.doctor.findings import Finding
from service.config import Settings

_ADVICE = {
    "journal.sqlite3": "Stop the daemon, and restore journal.sqlite3 from a backup: it is the truth"
    " of which all else is made. What can still be read, `rondo memory export` writes.",
    "memory.sqlite3": "Stop the daemon, move memory.sqlite3* out of the data folder, and start it"
    " again: it is made anew from the journal.",
}


def check_databases(settings: Settings) -> Finding:
    """Whether the databases are whole, page by page; they may be in use meanwhile."""
    sound: list[str] = []
    for name, advice in _ADVICE.items():
        file = settings.data_dir / name
        if not file.exists():
            continue
        damage = _damage(file)
        if damage is not None:
            return Finding("broken", f"{name} is damaged: {damage}", advice)
        sound.append(f"{name} ({file.stat().st_size / 1e6:,.1f} MB)")
    if not sound:
        return Finding("ok", "none yet: they are made at the first start")
    return Finding("ok", f"whole: {', '.join(sound)}")


def _damage(file: Path) -> str | None:
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as db:
            found = [row[0] for row in db.execute("PRAGMA quick_check(1)")]
    except sqlite3.Error as error:
        return str(error)
    words = " ".join(" ".join(found).split())
    return None if words == "ok" else words[:200]
