"""The check of `rondo doctor` that looks through the databases of the data folder."""

from __future__ import annotations

from service.cli.doctor.findings import Finding
from service.config import Settings
from service.memory.stores import damage_of, journal_copies

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
