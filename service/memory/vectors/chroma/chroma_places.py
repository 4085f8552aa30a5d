"""Where the index lives: an embedded Chroma, a Chroma server, or Chroma Cloud.

Embedded, each generation has a folder of its own, so that its files can be set aside or deleted
whole: Chroma overwrites nothing that is deleted. Elsewhere a generation is a set of collections
whose names begin with its prefix. Only one process may open a folder: two corrupt it (see
`data_folder`).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from service.config import MemorySettings
from service.domain.errors import IndexDamagedError, IndexUnreachableError, RondoError, StorageError
from service.memory.vectors.chroma.chroma_graph import damage_in_graphs
from service.memory.vectors.chroma.chroma_index import ChromaIndex, collection_names
from service.memory.vectors.protocol import IndexPlace, VectorIndex

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.config import Settings


_DATABASE = "chroma.sqlite3"
_FULL = ("disk is full", "no space left")
_REFUSED = (*_FULL, "readonly", "read-only", "permission denied")
_REFUSED_TO_OPEN = "unable to open database file"


def chroma_places(
    settings: MemorySettings, folder: Path, instance: Callable[[], str]
) -> list[IndexPlace]:
    """The place that the settings name; after it, where an index may be left from before.

    Args:
        settings: which form, and how to reach it.
        folder: of the embedded form.
        instance: names this memory among those that share a server.
    """
    embedded = EmbeddedPlace(folder)
    if settings.chroma == "embedded":
        return [embedded]
    return [RemotePlace(settings, instance), embedded]


class EmbeddedPlace:
    """An `IndexPlace` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.name = "embedded"
        self._folder = folder

    def open(self, generation: int) -> VectorIndex:
        """See `IndexPlace.open`. The first call imports Chroma, which takes a second."""
        with self.errors("opened"):
            import chromadb

            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            client = chromadb.PersistentClient(self._path(generation), settings=_settings())
        return ChromaIndex(client, "segments-", self.errors)

    def exists(self, generation: int) -> bool:
        """See `IndexPlace.exists`."""
        return (self._path(generation) / _DATABASE).is_file()

    def identity(self, generation: int) -> str:
        """See `IndexPlace.identity`."""
        with self.errors("read"):
            try:
                stat = (self._path(generation) / _DATABASE).stat()
            except (FileNotFoundError, NotADirectoryError):
                return ""
            return f"{stat.st_dev} {stat.st_ino}"

    def fingerprint(self, generation: int) -> str:
        """See `IndexPlace.fingerprint`: names, sizes and times, not what is in them."""
        path = self._path(generation)
        digest = hashlib.sha256()
        for file in sorted(path.rglob("*")):
            stat = file.stat()
            if not file.is_dir():
                line = f"{file.relative_to(path)} {stat.st_size} {stat.st_mtime_ns}\n"
                digest.update(line.encode())
        return digest.hexdigest()

    def damage(self, generation: int) -> str | None:
        """See `IndexPlace.damage`. A damaged graph can end the process that opens it."""
        with self.errors("read"):
            return damage_in_graphs(self._path(generation))

    def remove(self, generation: int) -> None:
        """See `IndexPlace.remove`."""
        _remove(self._path(generation))

    def set_aside(self, generation: int) -> str:
        """See `IndexPlace.set_aside`. The name tells when."""
        path = self._path(generation)
        if not path.exists():
            return "nothing is left of it"
        stem = f"{generation}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S}"
        aside = self._folder / stem
        count = 1
        while aside.exists():
            count += 1
            aside = self._folder / f"{stem}-{count}"
        with self.errors("set aside"):
            path.replace(aside)
        return f"it was set aside as {aside}"

    def set_aside_before(self) -> list[str]:
        """See `IndexPlace.set_aside_before`."""
        return sorted(path.name for path in self._folder.glob("*.damaged-*"))

    def remove_leftovers(self, generations: set[int], *, damaged: bool) -> None:
        """See `IndexPlace.remove_leftovers`. What another Rondo left here goes too."""
        if not self._folder.is_dir():
            return
        with self.errors("tidied up"):
            for path in self._folder.iterdir():
                if path.name.isdecimal() and int(path.name) in generations:
                    continue
                if damaged or not re.fullmatch(r"\d+\.damaged-.*", path.name):
                    _remove(path)

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Turn Chroma's errors into ours; `what` says what failed."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit, GeneratorExit, RondoError):
            raise
        # Chroma raises errors of many kinds; a panic in its native part is no `Exception` at all.
        except BaseException as error:
            words = str(error)
            if isinstance(error, OSError) or self._is_refused(words.lower()):
                raise StorageError(
                    f"the vector index in {self._folder} cannot be {what}: {words}",
                    advice=f"Free some space on the disk that holds {self._folder}."
                    if any(sign in words.lower() for sign in _FULL)
                    else f"Check the disk that holds {self._folder}, and who may write there.",
                ) from error
            raise IndexDamagedError(
                f"the vector index in {self._folder} cannot be {what}: {words}",
                advice="It is built anew from the ledger; search goes by words meanwhile.",
            ) from error

    def _is_refused(self, words: str) -> bool:
        if any(sign in words for sign in _REFUSED):
            return True
        return _REFUSED_TO_OPEN in words and not os.access(self._folder, os.W_OK | os.X_OK)

    def _path(self, generation: int) -> Path:
        return self._folder / str(generation)


class RemotePlace:
    """An `IndexPlace` on a server or in the cloud."""

    def __init__(self, settings: MemorySettings, instance: Callable[[], str]) -> None:
        where = "/".join(filter(None, (settings.chroma_tenant, settings.chroma_database)))
        if settings.chroma == "cloud":
            self.name = f"cloud {where}".strip()
        else:
            scheme = "https" if settings.chroma_ssl else "http"
            address = f"{scheme}://{settings.chroma_host}:{settings.chroma_port}"
            self.name = f"server {address} {where}".strip()
        self._of_settings = settings
        self._instance = instance

    def open(self, generation: int) -> VectorIndex:
        """See `IndexPlace.open`."""
        return ChromaIndex(self.client(), self._prefix(generation), self.errors)

    def exists(self, generation: int) -> bool:
        """See `IndexPlace.exists`. Only asking for what it holds can tell."""
        return True

    def identity(self, generation: int) -> str:
        """See `IndexPlace.identity`."""
        return ""

    def fingerprint(self, generation: int) -> str:
        """See `IndexPlace.fingerprint`."""
        return ""

    def damage(self, generation: int) -> str | None:
        """See `IndexPlace.damage`. What ends a server does not end us."""
        return None

    def remove(self, generation: int) -> None:
        """See `IndexPlace.remove`."""
        self._remove(lambda name: name.startswith(self._prefix(generation)))

    def set_aside(self, generation: int) -> str:
        """See `IndexPlace.set_aside`. Collections cannot be renamed out of harm: they go."""
        self.remove(generation)
        return "its collections were deleted"

    def set_aside_before(self) -> list[str]:
        """See `IndexPlace.set_aside_before`."""
        return []

    def remove_leftovers(self, generations: set[int], *, damaged: bool) -> None:
        """See `IndexPlace.remove_leftovers`. Other people's collections stay."""
        ours, kept = f"rondo-{self._instance()}-", tuple(map(self._prefix, generations))
        self._remove(lambda name: name.startswith(ours) and not name.startswith(kept))

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Turn Chroma's errors into ours; `what` says what failed."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit, GeneratorExit, RondoError):
            raise
        except BaseException as error:
            if type(error).__name__ == "NotFoundError":  # somebody deleted a collection of ours
                raise IndexDamagedError(
                    f"{self.name}: the vector index cannot be {what}: {error}",
                    advice="It is built anew from the ledger; search goes by words meanwhile.",
                ) from error
            raise IndexUnreachableError(
                f"{self.name}: the vector index cannot be {what}: {error or repr(error)}",
                advice="Start the server, or correct the settings memory.chroma_*. Search goes by"
                " words meanwhile, and nothing is lost.",
            ) from error

    def _prefix(self, generation: int) -> str:
        return f"rondo-{self._instance()}-{generation}-"

    def client(self) -> ClientAPI:
        """A client of the server or the cloud.

        Raises:
            IndexUnreachableError: it does not answer, or refuses us.
        """
        import chromadb

        given = self._of_settings
        tenant, database = given.chroma_tenant or None, given.chroma_database or None
        with self.errors("opened"):
            if given.chroma == "cloud":
                return chromadb.CloudClient(
                    tenant=tenant,
                    database=database,
                    api_key=given.chroma_api_key.get_secret_value(),
                    settings=_settings(),
                )
            return chromadb.HttpClient(
                host=given.chroma_host,
                port=given.chroma_port,
                ssl=given.chroma_ssl,
                headers=_headers(given),
                settings=_settings(),
                tenant=tenant or chromadb.DEFAULT_TENANT,
                database=database or chromadb.DEFAULT_DATABASE,
            )

    def _remove(self, condemned: Callable[[str], bool]) -> None:
        client = self.client()
        with self.errors("tidied up"):
            try:
                for name in collection_names(client):
                    if condemned(name):
                        client.delete_collection(name)
            finally:
                client.close()


def _settings() -> Settings:
    from chromadb.config import Settings

    return Settings(anonymized_telemetry=False, allow_reset=False)


def _headers(given: MemorySettings) -> dict[str, str]:
    headers = {name: value.get_secret_value() for name, value in given.chroma_headers.items()}
    if token := given.chroma_token.get_secret_value():
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
