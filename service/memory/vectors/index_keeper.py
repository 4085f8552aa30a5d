"""Keeps the vector index: opens its generations, checks them, replaces those that are lost.

What shall be stands in the ledger (`generations`); `sync` makes it so. A generation that cannot be
opened, or has lost vectors, is set aside, and another is built from the vectors in the ledger.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from service.domain.errors import IndexDamagedError, StorageError
from service.memory.memory_tuning import (
    PROBED_AMONG,
    PROBED_SAME,
    PROBED_VECTORS,
    PROBED_VECTORS_LOST,
)
from service.memory.vectors.embedding_store import EmbeddingStore, Generation, Purpose
from service.memory.vectors.protocol import IndexEntry, IndexPlace, VectorIndex, as_matrix

log = logging.getLogger(__name__)


@dataclass(slots=True)
class OpenGeneration:
    """A generation that is open."""

    row: Generation
    index: VectorIndex
    identity: str
    """Which file it is in, see `IndexPlace.identity`."""
    done_up_to: int = 0
    """All vectors up to this number are in it."""
    complete_up_to: dict[str, int] = field(default_factory=dict)
    """All segments of an owner up to this number are in it, or refused; those of owners who have
    searched since it was opened."""


class IndexKeeper:
    """The open generations. One thread at a time calls the methods that change anything."""

    def __init__(
        self,
        states: EmbeddingStore,
        places: Sequence[IndexPlace],
    ) -> None:
        """Name the parts; nothing is opened.

        Args:
            states: the vectors, and the rows of generations.
            places: where generations are; after it, where older ones may be left.
        """
        self.states = states
        self.place = places[0]
        self._places = {place.name: place for place in places}
        self.active: OpenGeneration | None = None
        """The one that is searched."""
        self.building: OpenGeneration | None = None
        """The one that is to take its place."""
        self.built_by: int | None = None
        """Whose vectors the index holds, when that is not the embedder that is configured."""
        self._rows = states.generations
        self._contents, self._scrubs = states.contents, states.scrubs
        self._configured: int | None = None
        self._coding: int | None = None
        self._stale = True
        self._tidy = False
        self._damaged: dict[int, tuple[OpenGeneration, str]] = {}
        self._noting = threading.Lock()

    @property
    def has_work(self) -> bool:
        """Whether `sync` or `tidy` would do anything."""
        return self._stale or not self._tidy

    @property
    def damaged(self) -> bool:
        """Whether a generation proved damaged in use, and is not replaced yet."""
        return bool(self._damaged)

    def wake(self) -> None:
        """Have the next `sync` look at the rows again: they have changed."""
        self._stale = True
        self._tidy = False

    def report(self, generation: OpenGeneration, error: IndexDamagedError) -> None:
        """Note that a generation proved damaged in use. From any thread."""
        with self._noting:
            self._damaged.setdefault(generation.row.id, (generation, error.detail))
            if self.active is generation:
                self.active = None
            self._stale = True

    def check_there(self, generation: OpenGeneration) -> None:
        """See to it that the files of a generation are those that were opened. From any thread.

        Chroma does not notice that they are gone: it goes on reading what it has in memory, and
        writing into files that nobody will find again.

        Raises:
            IndexDamagedError: they were deleted, moved or exchanged.
            StorageError: the disk refuses.
        """
        if self.place.identity(generation.row.id) != generation.identity:
            raise IndexDamagedError(
                f"generation {generation.row.id} of the vector index is gone from where it was",
                advice="It is built anew from the ledger; search goes by words meanwhile.",
            )

    def sync(self, configured: int | None, *, coding: int | None = None) -> None:
        """Make what is open what the rows say.

        Args:
            configured: the embedder in use; None without one: then nothing is opened.
            coding: under which number the codes of its tokens are kept; None: there are none.

        Raises:
            IndexUnreachableError: the server does not answer.
            StorageError: the disk refuses; all stays as it was.
        """
        if not self._stale and configured == self._configured:
            return
        self._configured = configured
        self._coding = coding
        self._stale = False
        try:
            self._replace_damaged()
            self._settle()
            self._open_live()
        except BaseException:
            self._stale = True
            raise

    def swap(self) -> None:
        """Search the generation that was built from now on."""
        built = self.building
        assert built is not None
        self._rows.swap(built.row.id)
        before = self.active
        built.row = built.row._replace(state="active")
        self.active, self.building, self.built_by = built, None, None
        self._tidy = False
        log.info("the vector index was replaced by generation %d", built.row.id)
        if before is not None:
            before.index.close()

    def tidy(self) -> bool:
        """Delete some of what is not needed any more; whether there may be more."""
        if self._tidy:
            return False
        request = self._scrubs.newest()
        rows = self._rows.all()
        for row in rows:
            if row.state == "retired":
                if row.place in self._places:
                    self._places[row.place].remove(row.id)
                else:
                    log.warning("generation %d is left in %s: delete it there", row.id, row.place)
                while self._rows.purge(row.id):
                    pass
                return True
        needed = {row.embedder for row in rows} | {self._configured or 0, self._coding or 0}
        if self._configured is not None and self.states.drop_vectors_of_others(needed):
            return True
        clean = self._scrubs.is_pending() and all(row.scrub >= request for row in rows)
        for place in self._places.values():
            generations = {row.id for row in rows if row.place == place.name}
            place.remove_leftovers(generations, damaged=clean)
        if clean:
            self._scrubs.settle(request)
        self._tidy = True
        return False

    def close(self) -> None:
        """Close what is open."""
        opened = [each for each in (self.active, self.building) if each is not None]
        self.active = self.building = None
        self._stale = True
        for each in opened:
            self._close(each)

    def _replace_damaged(self) -> None:
        with self._noting:
            damaged = dict(self._damaged)
        for row in self._rows.all():
            if row.id in damaged and row.state != "retired":
                opened, why = damaged[row.id]
                _close_damaged(opened)
                self._give_up(row, why)
        with self._noting:
            for number in damaged:
                del self._damaged[number]

    def _settle(self) -> None:
        """Bring the rows in line with what is configured."""
        active, building = self._rows.live()
        self.built_by = None
        configured = self._configured
        present = active or building
        if (
            configured is not None
            and present is not None
            and present.embedder != configured
            and not self.states.count_vectors(present.embedder)
        ):
            for row in filter(None, (active, building)):  # an empty index is anybody's
                self._retire(row)
            active = building = None
        for row in filter(None, (active, building)):
            if row.embedder == configured and row.place != self.place.name:
                self._rows.replace(row.id, row.embedder, self.place.name, "rebuilding")
                self._settle()
                return
        if configured is None:
            self._scrub_unused(active, building)
        elif active is not None and active.embedder == configured:
            if building is not None and building.embedder != configured:
                self._retire(building)
        elif building is not None and building.embedder == configured:
            self.built_by = active.embedder if active else None
        elif active is not None or building is not None:
            self.built_by = (active or building).embedder  # type: ignore[union-attr]
            self._scrub_unused(active, building)
        else:
            stored_vectors = self.states.count_vectors(configured)
            self._rows.create(
                configured,
                self.place.name,
                "building" if stored_vectors else "active",
                "rebuilding" if stored_vectors else "embedding",
            )

    def _scrub_unused(self, *rows: Generation | None) -> None:
        """Without its embedder an index is of no use: it goes, and is built when that is back."""
        request = self._scrubs.newest()
        for row in rows:
            if row is not None and row.scrub < request:
                self._rows.replace(row.id, row.embedder, row.place, "rebuilding")

    def _open_live(self) -> None:
        active, building = self._rows.live()
        rows = self._rows
        for row in (active, building):
            opened = self.active if row is active else self.building
            usable = row is not None and row.embedder == self._configured
            if opened is not None and (not usable or row is None or opened.row.id != row.id):
                self._close(opened)
                opened = None
            if usable and row is not None and opened is None:
                opened = self._open(row)
                if opened is None:  # it was given up, and another row stands for it
                    return self._open_live()
            if row is active:
                self.active = opened
            if row is building:
                self.building = opened
        if self.active is not None and self.building is None:
            request = self._scrubs.newest()
            if self.active.row.scrub < request:
                rows.create(self.active.row.embedder, self.place.name, "building", "scrubbing")
                return self._open_live()
        return None

    def _open(self, row: Generation) -> OpenGeneration | None:
        """Open one; None when it is damaged, and was given up."""
        held = self._contents.count_held(row.id)
        there = self.place.exists(row.id)
        try:
            if held and not there:
                raise IndexDamagedError(f"generation {row.id} of the vector index is gone")
            if wrong := self._damage(row):
                raise IndexDamagedError(
                    f"generation {row.id} of the vector index is damaged: {wrong}"
                )
            return self._open_checked(row, held)
        except IndexDamagedError as error:
            if not held and not there:  # another new one would fare no better
                raise StorageError(error.detail, advice="Check the installation.") from error
            self._give_up(row, error.detail)
            return None

    def _damage(self, row: Generation) -> str | None:
        """What is wrong with files that are not as they were left: a crash may have come."""
        if row.closed_as == self.place.fingerprint(row.id):
            return None
        return self.place.damage(row.id)

    def _open_checked(self, row: Generation, held: int) -> OpenGeneration:
        self._rows.set_closed(row.id, "")
        index = self.place.open(row.id)
        try:
            self._check(row, index, held)
        except BaseException:
            index.close()
            raise
        return OpenGeneration(row, index, self.place.identity(row.id))

    def _close(self, opened: OpenGeneration) -> None:
        opened.index.close()
        self._rows.set_closed(opened.row.id, self.place.fingerprint(opened.row.id))

    def _check(self, row: Generation, index: VectorIndex, held: int) -> None:
        """Compare what an index holds with what the ledger believes, and bring them together."""
        count = index.count()
        if count < held and not count:
            raise IndexDamagedError(f"generation {row.id} of the vector index has become empty")
        if count != held:
            self._compare(row, index)
        sample = self.states.sample(row.id, row.embedder, PROBED_VECTORS)
        lost = sum(not _finds(index, entry) for entry in sample)
        if lost > PROBED_VECTORS_LOST * len(sample):
            raise IndexDamagedError(
                f"generation {row.id} of the vector index finds {lost} of {len(sample)} of its"
                " vectors no more"
            )

    def _compare(self, row: Generation, index: VectorIndex) -> None:
        """After a crash: what is missing is put in again, what nothing stands behind goes."""
        there, believed = index.numbers(), self._contents.indexed(row.id)
        log.info(
            "the vector index lacks %d vectors and holds %d too many",
            len(believed - there),
            len(there - believed),
        )
        self._contents.unmark_indexed(row.id, sorted(believed - there))
        index.delete(sorted(there - believed), owner=None)

    def _give_up(self, row: Generation, why: str) -> None:
        """Set a generation aside and have another built from the vectors in the ledger."""
        if self.active is not None and self.active.row.id == row.id:
            self.active = None
        if self.building is not None and self.building.row.id == row.id:
            self.building = None
        where = self.place.set_aside(row.id)
        log.warning("%s; %s. It is built anew from the vectors in the ledger.", why, where)
        purpose: Purpose = "rebuilding" if row.state == "active" else row.purpose
        self._rows.replace(row.id, row.embedder, self.place.name, purpose)
        self._tidy = False

    def _retire(self, row: Generation) -> None:
        self._rows.retire(row.id)
        self._tidy = False


def _finds(index: VectorIndex, entry: IndexEntry) -> bool:
    """Whether a search for a vector finds it: a graph that is lost finds none.

    One that is whole but crowded may miss it at first, and finds it when it looks further.
    """
    vector = as_matrix([entry.vector])
    for limit in (1, PROBED_AMONG):
        (nearest,) = index.search(vector, owner=entry.owner, limit=limit)
        if nearest and 1.0 - nearest[0].cosine < PROBED_SAME:
            return True
    return False


def _close_damaged(opened: OpenGeneration) -> None:
    try:
        opened.index.close()
    except StorageError as error:  # it is given up in any case
        log.debug("generation %d: %s", opened.row.id, error.detail)
