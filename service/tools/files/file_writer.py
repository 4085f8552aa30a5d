"""Changing files in granted folders: what a change would be, carrying it out, and taking it back.

A change is planned first, from what the file holds now. It is carried out only as long as the file
holds just that, and so is taking it back.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from service.domain.errors import RondoError
from service.domain.ids import new_id
from service.memory.file_changes import FileChange, FileChanges
from service.tools.files.atomic_replace import ChangedMeanwhile, hash_of, remove, replace, tidy
from service.tools.files.difference import difference
from service.tools.files.granted_folders import GrantedFolders, Place, open_entry
from service.tools.files.text_form import TextForm, read_form
from service.tools.protocol import ToolFailure

MOST_BYTES = 5_000_000
"""How large a file may be, before and after a change."""

ChangeState = Literal["written", "undone", "changed", "out_of_reach"]
"""How a file stands to a change of it: as the change left it; as it was before; otherwise, or gone;
or where it is, nothing may be written."""


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """What a file holds, and what it is to hold."""

    path: str
    before: bytes | None
    """None: there is no file."""
    after: bytes
    old_text: str | None
    new_text: str

    @property
    def scope(self) -> str:
        """Names exactly this change: the file, what it holds, and what it is to hold."""
        digest = hashlib.sha256()
        for part in (digest_of(self.before) or "", digest_of(self.after) or ""):
            digest.update(part.encode())
        return f"{self.path} sha256:{digest.hexdigest()}"

    def difference(self) -> str:
        """What changes, for people; bounded."""
        return difference(self.old_text, self.new_text, self.path)


@dataclass(frozen=True, slots=True)
class Caller:
    """For whom a file is changed, and by which call."""

    owner: str
    run_loop_id: str
    call_key: str


Rewrite = Callable[[str | None, TextForm], str]
"""From the plain text of a file (None: there is none) and its form to what it is to hold.

Raises `ToolFailure` where it cannot be changed so."""


class FileWriter:
    """Changes files, and keeps what they held."""

    def __init__(
        self, granted: GrantedFolders, changes: FileChanges, *, most_bytes: int = MOST_BYTES
    ) -> None:
        """Name what it works with.

        Args:
            granted: where files may be changed.
            changes: keeps what they held.
            most_bytes: how large a file may be.
        """
        self._granted = granted
        self._changes = changes
        self.most_bytes = most_bytes
        self._is_tidy = False

    def plan(self, written: str, rewrite: Rewrite) -> PlannedChange:
        """What a change would be now.

        Raises:
            ToolFailure: it cannot be made; says why.
        """
        with self._granted.place(written) as place:
            before = self._content(place, written)
            old_text, form = (None, TextForm()) if before is None else read_form(before, written)
            new_text = rewrite(old_text, form)
            try:
                after = form.written(new_text)
            except UnicodeEncodeError as error:
                character = new_text[error.start : error.start + 1]
                raise ToolFailure(
                    f"{written[:200]} is written in {form.encoding}, which has no {character!r}:"
                    " leave it out, or write another file."
                ) from error
            if len(after) > self.most_bytes:
                raise ToolFailure(
                    f"It would have {len(after):,} bytes; at most {self.most_bytes:,} are"
                    " written. Write less, or several files."
                )
            if after == before:
                raise ToolFailure(f"{written[:200]} holds exactly that already.")
            return PlannedChange(str(place.path), before, after, old_text, new_text)

    def carry_out(self, change: PlannedChange, caller: Caller) -> FileChange:
        """Make a planned change, if the file still is what it was.

        Raises:
            ToolFailure: it is not, or it cannot be written; nothing was changed.
        """
        before = digest_of(change.before)
        record = FileChange(
            id=new_id(),
            owner=caller.owner,
            run_loop_id=caller.run_loop_id,
            call_key=caller.call_key,
            path=change.path,
            at=datetime.now(UTC),
            before=before,
            after=digest_of(change.after) or "",
        )
        self._tidy()
        with self._granted.place(change.path) as place, self._changes.writing:
            if str(place.path) != change.path:
                raise ToolFailure(_CHANGED.format(path=change.path))
            try:
                self._changes.keep(record, change.before or b"")
            except RondoError as error:
                raise ToolFailure(f"Not written: {error.problem().in_words()}") from error
            try:
                self._replace(place, change.after, before, _temporary(record))
            except ChangedMeanwhile as error:
                self._changes.remove(record.id)
                raise ToolFailure(_CHANGED.format(path=change.path)) from error
            except OSError as error:
                self._changes.remove(record.id)
                raise ToolFailure(_refused(change.path, error)) from error
        return record

    def state_of(self, change: FileChange) -> ChangeState:
        """How the file stands to a change of it."""
        try:
            with self._granted.place(change.path) as place:
                now = hash_of(place.folder, place.name)
                is_free = now is None and not _is_taken(place)
        except ToolFailure:
            return "out_of_reach"
        if now == change.after:
            return "written"
        if (change.before is None and is_free) or (now is not None and now == change.before):
            return "undone"
        return "changed"

    def undo_difference(self, change: FileChange, content: bytes) -> str:
        """What taking a change back would change now, for people; bounded.

        Raises:
            ToolFailure: the file cannot be read as text.
        """
        with self._granted.place(change.path) as place:
            now = self._content(place, change.path)
        former = None if change.before is None else content
        old, new = (
            None if each is None else read_form(each, change.path)[0] for each in (now, former)
        )
        return difference(old, new, change.path)

    def undo(self, change: FileChange, content: bytes) -> None:
        """Let a file hold again what it held before a change, which then is kept no longer.

        Raises:
            ToolFailure: it was changed since, or cannot be written; nothing was changed.
        """
        changed = (
            f"{change.path} has been changed, moved or deleted since; taking the change back would"
            " undo that, too. Nothing was changed."
        )
        with self._granted.place(change.path) as place, self._changes.writing:
            try:
                if self.state_of(change) == "undone":
                    pass  # it is as it was; a crash has left the record
                elif change.before is None:
                    remove(
                        place.folder,
                        place.name,
                        expected=change.after,
                        temporary=_temporary(change),
                    )
                else:
                    self._replace(place, content, change.after, _temporary(change))
            except ChangedMeanwhile as error:
                raise ToolFailure(changed) from error
            except OSError as error:
                raise ToolFailure(_refused(change.path, error)) from error
            self._changes.remove(change.id)

    def _tidy(self) -> None:
        """Once: delete what a crash has left beside files that were being changed."""
        if self._is_tidy:
            return
        self._is_tidy = True
        for change in self._changes.all():
            with (
                suppress(ToolFailure, OSError),
                self._granted.place(change.path) as place,
                self._changes.writing,
            ):
                tidy(place.folder, _temporary(change), (change.before, change.after))

    def _replace(self, place: Place, data: bytes, expected: str | None, temporary: str) -> None:
        like = None if expected is None else _opened(place)
        try:
            replace(
                place.folder,
                place.name,
                data,
                expected=expected,
                temporary=temporary,
                like=like,
            )
        finally:
            if like is not None:
                os.close(like)

    def _content(self, place: Place, written: str) -> bytes | None:
        """What a file holds; None where there is none.

        Raises:
            ToolFailure: it is no file that can be changed.
        """
        name = written[:200]
        try:
            opened = open_entry(place.folder, place.name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ToolFailure(_refused(name, error)) from error
        try:
            _check_kind(place, os.fstat(opened), name)
            with os.fdopen(opened, "rb", closefd=False) as file:
                data = file.read(self.most_bytes + 1)
        finally:
            os.close(opened)
        if len(data) > self.most_bytes:
            raise ToolFailure(f"{name} is larger than {self.most_bytes:,} bytes.")
        return data


_CHANGED = (
    "Not written: {path} is not what it was when the person was shown the difference. Call it"
    " again, and they are asked anew."
)


def digest_of(content: bytes | None) -> str | None:
    """The SHA-256 of what a file holds; None where there is none."""
    return None if content is None else hashlib.sha256(content).hexdigest()


def _check_kind(place: Place, status: os.stat_result, name: str) -> None:
    """See to it that what lies at a place can be changed.

    Raises:
        ToolFailure: it is no file, or no file that is the person's alone to change.
    """
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailure(f"{name} is a folder: name a file in it.")
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailure(f"{name} is a pipe, a socket or a device, not a file.")
    if status.st_nlink > 1:
        raise ToolFailure(
            f"{name} has other names, too (hard links), from which a change would part it."
            " Tell the user."
        )
    if status.st_uid != os.geteuid() != 0:
        raise ToolFailure(f"{name} belongs to another user of this machine. Tell the user.")
    effective = os.access in os.supports_effective_ids
    if not os.access(place.name, os.W_OK, dir_fd=place.folder, effective_ids=effective):
        raise ToolFailure(f"{name} is set to be read only. Tell the user.")


def _opened(place: Place) -> int:
    try:
        return open_entry(place.folder, place.name)
    except OSError as error:
        raise ChangedMeanwhile from error


def _is_taken(place: Place) -> bool:
    try:
        os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _temporary(change: FileChange) -> str:
    return f".rondo-{change.id}"


def _refused(name: str, error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return f"{name} is a link. Name the file that it leads to, if that is granted."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{name} was not written: the disk is full. Tell the user."
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return (
            f"{name} was not written: this is not allowed there ({error.strerror}). Tell the user."
        )
    return f"{name} was not written: {error.strerror}."
