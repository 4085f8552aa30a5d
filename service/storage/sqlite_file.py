"""One SQLite file: how Rondo opens, writes and reads it, and what it says when it cannot."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from service.domain.errors import ConflictError, Problem, StorageError
from service.domain.json_values import writable

log = logging.getLogger(__name__)


class Where:
    """A WHERE clause; conditions without a value are left out."""

    def __init__(self, condition: str = "true", *values: Any) -> None:
        self._conditions = [condition]
        self.values: list[Any] = [*values]

    def add(self, condition: str, *values: Any) -> None:
        """One more condition, and the values of its question marks; None leaves it out."""
        if values != (None,):
            self._conditions.append(condition)
            self.values.extend(values)

    def __str__(self) -> str:
        return f"WHERE {' AND '.join(self._conditions)}"


CHECKPOINT_BYTES = 4_000_000
"""How long the write-ahead log gets before it is taken into the file."""
_PATIENCE = 10_000  # milliseconds
_PATIENCE_WITH_STRANGERS = 500
_DAMAGED = (
    "malformed",
    "not a database",
    "vtable constructor failed",
    "invalid fts5 file format",
    "Could not decode to UTF-8",
)
_DAMAGED_TITLE = "A file of the data folder is damaged"
Row = tuple[Any, ...]


class SqliteFile:
    """A file in WAL mode with a writing and a reading connection, and one that tidies up.

    The methods block. `transaction` is for one thread at a time: callers hold a lock of their own;
    `select` may be called from any thread.
    """

    def __init__(
        self,
        path: Path,
        schema: str,
        *,
        when_damaged: str,
        version: int = 1,
        upgrades: Mapping[int, str] | None = None,
        checkpoint_bytes: int = CHECKPOINT_BYTES,
    ) -> None:
        """Name the file.

        Args:
            path: where it is.
            schema: SQL that creates what is not there yet.
            when_damaged: tells a person what to do when it is.
            version: of the schema, kept in the file (``user_version``); raised when it changes in
                a way that creating what is missing does not bring about.
            upgrades: SQL that makes a file of one version one of the next, by the former.
            checkpoint_bytes: how long the write-ahead log gets before `checkpoint` moves it.
        """
        self.path = path
        """Where it is."""
        self._schema = schema
        self._version = version
        self._upgrades = upgrades or {}
        self._checkpoint_bytes = checkpoint_bytes
        self._when_damaged = when_damaged
        self._writer: sqlite3.Connection | None = None
        self._durable: bool | None = None
        """How the writer's last transaction was committed; None: it has had none."""
        self._reader: sqlite3.Connection | None = None
        self._reading = threading.Lock()
        self._keeper: sqlite3.Connection | None = None
        self._keeping = threading.Lock()
        self.damage: Problem | None = None
        """What first proved damaged since the file was named; None as long as nothing did."""

    def open(self) -> None:
        """Open the file, and create what the schema asks for.

        Raises:
            StorageError: the file cannot be opened, is damaged, or was written by a newer version.
        """
        _make_private(self.path)
        with self._errors():
            self._writer = _connect(self.path, self._checkpoint_bytes)
            self._durable = None
            self._bring_up_to_date(self._writer)
            self._reader = _connect(self.path, self._checkpoint_bytes)
            self._reader.execute("PRAGMA query_only = ON")
            self._keeper = _connect(self.path, self._checkpoint_bytes)

    def _bring_up_to_date(self, db: sqlite3.Connection) -> None:
        """Upgrade an older file and create what is missing, all of it or nothing."""
        current = db.execute("PRAGMA user_version").fetchone()[0]
        if current > self._version:
            raise StorageError(
                f"{self.path.name} was written by a newer version of Rondo",
                advice="Use that version, or start with another data folder.",
            )
        # A file without a version is new: there is nothing to upgrade.
        older = range(current, self._version) if current else ()
        steps = [self._upgrades.get(version, "") for version in older]
        stamp = f"PRAGMA user_version = {self._version};"
        try:
            db.executescript(
                "\n".join(("BEGIN IMMEDIATE;", *steps, self._schema, stamp, "COMMIT;"))
            )
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the file."""
        with self._keeping:
            for connection in (self._keeper, self._reader, self._writer):
                if connection is not None:
                    connection.close()
            self._keeper = self._reader = self._writer = None

    @contextmanager
    def transaction(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        """Write all or nothing.

        Args:
            durable: whether the commit must survive power loss (``synchronous=FULL``), and not
                only the process being killed (``NORMAL``).

        Raises:
            StorageError: the disk refuses; nothing was written.
        """
        db = _opened(self._writer, self.path)
        try:
            if durable is not self._durable:
                db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._durable = durable
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")
        except BaseException as error:
            with self._errors():
                if db.in_transaction:
                    db.execute("ROLLBACK")
                if isinstance(error, sqlite3.DatabaseError):
                    raise
            raise

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file, once it has grown past a few megabytes.

        SQLite would do so inside whichever commit fills the log, on the event loop's thread too;
        calling this from a worker thread keeps that from happening. Others can write meanwhile,
        but the log starts anew only when nobody has: so a second call, while nobody does, has
        little left to do and ends it. It is mere housekeeping: what was committed is safe in the
        log, so a failure is logged, and tried again later.
        """
        try:
            if self.log_is_long():
                with self._keeping:
                    _opened(self._keeper, self.path).execute("PRAGMA wal_checkpoint(PASSIVE)")
        except (sqlite3.DatabaseError, OSError) as error:
            log.warning("the log of %s cannot be taken in yet: %s", self.path.name, error)

    def scrub(self) -> bool:
        """Write the file anew, so that nothing is left in it of what was deleted; empty its log.

        For the one that may write. SQLite overwrites what is deleted (``secure_delete``), but not
        the places that rows which still were there then had moved away from; FTS5 keeps deleted
        words until its parts are merged (https://sqlite.org/fts5.html#the_optimize_command).

        Returns:
            Whether the log could be emptied: not while another process reads the file.

        Raises:
            StorageError: the disk refuses; nothing is lost, but what was deleted may be there.
        """
        with self._keeping, self._errors():
            db = _opened(self._writer, self.path)
            for (name,) in db.execute(
                "SELECT name FROM sqlite_master WHERE sql LIKE '%USING fts5(%'"
            ).fetchall():
                db.execute(f"INSERT INTO {name}({name}) VALUES ('optimize')")
            # The copy that is made on the way may be large.
            db.execute("PRAGMA temp_store = FILE")
            try:
                db.execute("VACUUM")
            finally:
                db.execute("PRAGMA temp_store = MEMORY")
            with self._reading:  # our own reader shall not keep the log; strangers may, for a while
                db.execute(f"PRAGMA busy_timeout = {_PATIENCE_WITH_STRANGERS}")
                try:
                    busy, *_ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                finally:
                    db.execute(f"PRAGMA busy_timeout = {_PATIENCE}")
            return not busy

    def log_is_long(self) -> bool:
        """Whether it is time for a `checkpoint`."""
        try:
            wal = self.path.with_name(self.path.name + "-wal")
            return wal.stat().st_size > self._checkpoint_bytes
        except OSError:
            return False

    def select(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        """All rows of a query.

        Raises:
            StorageError: the file cannot be read.
        """
        with self._reading, self._errors():
            return _opened(self._reader, self.path).execute(query, values).fetchall()

    def note_damage(self, error: StorageError) -> None:
        """Keep in mind that something in the file cannot be read."""
        self.damage = self.damage or error.problem()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with storage_errors(self.path, when_damaged=self._when_damaged):
                yield
        except StorageError as error:
            if error.title == _DAMAGED_TITLE:
                self.note_damage(error)
            raise


@contextmanager
def looking_into(path: Path) -> Iterator[sqlite3.Connection]:
    """Read a file that others may be at work on; it is neither made nor brought up to date.

    Raises:
        StorageError: it cannot be read.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
            yield db
    except sqlite3.Error as error:
        raise StorageError(str(error)) from error


def insert(db: sqlite3.Connection, statement: str, rows: Sequence[Row]) -> None:
    """Insert rows; a single one in two thirds of the time that `executemany` takes."""
    if len(rows) == 1:
        db.execute(statement, rows[0])
    else:
        db.executemany(statement, rows)


def _make_private(path: Path) -> None:
    """Create a file, or close the one that is there, to other users; SQLite gives the same rights
    to the files that it puts beside it.

    Raises:
        StorageError: it cannot be created, or is a folder.
    """
    try:
        if path.is_dir():
            raise StorageError(
                f"{path} is a folder, not a database file",
                title="A file of the data folder cannot be used",
                advice="Move it out of the way; where there was a file before, restore that from a"
                " backup.",
            )
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            status = path.stat()
            if status.st_mode & 0o077 and status.st_uid == os.geteuid():
                path.chmod(0o600)
    except OSError as error:
        raise StorageError(
            f"{path}: {error.strerror or error}",
            advice=f"Give this user the right to write in {path.parent}.",
        ) from error


def _connect(path: Path, checkpoint_bytes: int) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path,
        timeout=_PATIENCE / 1000,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=64,
    )
    connection.create_function("writable_json", 1, _writable_json, deterministic=True)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 10000")  # a back stop for `checkpoint`
    # Once it is taken in, the log shrinks to this, so that its size tells what is new in it.
    connection.execute(f"PRAGMA journal_size_limit = {checkpoint_bytes // 4}")
    connection.execute("PRAGMA secure_delete = ON")  # what is forgotten is overwritten
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def _writable_json(text: str) -> str:
    """JSON that SQLite reads, of what Python's writer made of numbers that JSON cannot hold."""
    try:
        return json.dumps(writable(json.loads(text)), ensure_ascii=False, sort_keys=True)
    except (ValueError, RecursionError):
        return "null"


def _opened(connection: sqlite3.Connection | None, path: Path) -> sqlite3.Connection:
    if connection is None:
        raise ConflictError(f"{path.name} is closed", advice="The daemon is stopping; start it.")
    return connection


@contextmanager
def storage_errors(path: Path, *, when_damaged: str) -> Iterator[None]:
    """Turn SQLite's errors into `StorageError`s that say what to do.

    Raises:
        StorageError: the disk is full, read-only or broken, or the file is damaged.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        words, title = str(error), None
        if "disk is full" in words:
            advice = f"Free some space on the disk that holds {path.parent}, then try again."
        elif "readonly" in words or "unable to open" in words:
            advice = f"Give this user the right to write in {path.parent}."
        elif any(sign in words for sign in _DAMAGED):
            advice, title = when_damaged, _DAMAGED_TITLE
        else:
            advice = f"Check the disk that holds {path.parent}; `rondo doctor` says more."
        raise StorageError(f"{path.name}: {words}", advice=advice, title=title) from error
