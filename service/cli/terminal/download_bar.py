"""Fetching a model with a progress bar."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from service.cli.terminal.output import aside
from service.models.catalog import Source, known_model
from service.models.fetch import PullProgress
from service.models.weight_store import ModelStore


def pull_with_progress(
    models_dir: Path, name: str, *, sources: Sequence[Source] | None = None, quiet: bool = False
) -> Path:
    """Make a model ready, and show how far it has come.

    Args:
        models_dir: where models are kept.
        name: of the catalogue.
        sources: where to look instead of the catalogue's own sources.
        quiet: say nothing when it is here already.

    Raises:
        NotFoundError: no model of that name is known.
        ModelStoreError: it could not be fetched; says why and what to do.
    """
    store = ModelStore(models_dir)
    model = known_model(name)
    existing = store.path(name)
    if existing is not None:
        if not quiet:
            aside().print(f"{name} is here and verified.", style="dim")
        return existing
    aside().print(
        f"Fetching {name} ({model.size / 1e6:,.0f} MB, {model.licence}); it is used only if its "
        "SHA-256 is the known one. What was fetched is kept when this is interrupted.",
        style="dim",
    )
    if not aside().is_terminal:
        return store.pull(name, progress=_LinePrinter().report, sources=sources)
    return _pull_with_bar(store, name, sources)


class _LinePrinter:
    """Progress for logs: a line for every tenth."""

    def __init__(self) -> None:
        self._told: tuple[str, int] | None = None

    def report(self, progress: PullProgress) -> None:
        step = (progress.stage, progress.percent // 10)
        if step != self._told:
            self._told = step
            aside().print(progress.in_words())


def _pull_with_bar(store: ModelStore, name: str, sources: Sequence[Source] | None) -> Path:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=aside(),
        transient=True,
    )
    with bar:
        task = bar.add_task("downloading", total=None)

        def report(progress: PullProgress) -> None:
            bar.update(
                task,
                description=f"{progress.stage}, {progress.source}",
                completed=progress.done_bytes,
                total=progress.total_bytes,
            )

        return store.pull(name, progress=report, sources=sources)
