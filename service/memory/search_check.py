"""Whether memory still finds what it found: a store is asked questions made from its own segments.

Benchmarks say how a version does on data of others. What an upgrade means for one's own store, in
one's own languages, only that store can say. So segments are drawn from it, and each is looked for
by a question that can be made from what is there:

- an *answer*, by what the person had asked, which shares few words with it;
- a *quote*, by a few words out of its middle.

The same segments are looked for at the next check, and what was found then is compared with what is
found now: a sign test over the questions whose outcome has changed (Dixon and Mood 1946, "The
statistical sign test") tells a loss from chance. Between checks only anchors are kept, no words.
"""

from __future__ import annotations

import math
import os
import random
import re
import tempfile
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from anyio import to_thread
from pydantic import BaseModel, ConfigDict, ValidationError

from service import __version__
from service.domain.anchors import AnchorRef, Segment
from service.domain.errors import InvalidInputError, StorageError
from service.domain.search_checks import (
    FIRST,
    MOST_QUESTIONS,
    QUESTIONS,
    QuestionKind,
    SearchCheck,
    SearchComparison,
)
from service.memory.memory import Memory

_CHANCE = 0.05
_NAMED = 10
_LEAST_CHARACTERS = 12
_QUOTED_WORDS = 6
_WORD = re.compile(r"[㐀-鿿豈-﫿]|[^\W_㐀-鿿豈-﫿]+")
"""A word, or a single Chinese character."""


class Question(NamedTuple):
    """What is asked, and the segment that is to be found."""

    text: str
    target: AnchorRef
    kind: QuestionKind


class EarlierCheck(BaseModel):
    """What is kept of a check until the next one."""

    model_config = ConfigDict(frozen=True)

    at: datetime
    version: str
    embedder: str | None
    asked: dict[str, bool]
    """By anchor: whether it was found."""


class SearchChecker:
    """Checks the memory of one owner."""

    def __init__(self, memory: Memory, *, owner: str) -> None:
        self._memory = memory
        self._owner = owner
        name = f"search-check-{zlib.crc32(owner.encode()):08x}.json"
        self._path = memory.folder / name

    async def check(self, questions: int = QUESTIONS, *, seed: int = 0) -> SearchCheck:
        """Ask, compare with the last check, and keep this one in its place.

        Args:
            questions: at most so many.
            seed: draws the segments that no earlier check has asked for.

        Raises:
            InvalidInputError: there is nothing to ask for, or `questions` is out of range.
            StorageError: memory cannot be read, or the check cannot be kept.
        """
        if not 1 <= questions <= MOST_QUESTIONS:
            raise InvalidInputError(
                f"{questions} questions cannot be asked", advice=f"Ask 1 to {MOST_QUESTIONS}."
            )
        earlier = await to_thread.run_sync(self._earlier)
        asked = await self._questions(questions, seed, earlier)
        if not asked:
            raise InvalidInputError(
                "memory holds nothing yet that could be asked for",
                advice="Come back when some run loops are finished.",
            )
        outcome_of = {str(each.target): await self._finds(each) for each in asked}
        stats = await self._memory.long_term.stats()
        this = EarlierCheck(
            at=datetime.now(UTC), version=__version__, embedder=stats.embedder, asked=outcome_of
        )
        await to_thread.run_sync(self._keep, this)
        kinds: dict[QuestionKind, tuple[int, int]] = {}
        for kind in ("answer", "quote"):
            outcomes = [outcome_of[str(each.target)] for each in asked if each.kind == kind]
            kinds[kind] = (sum(outcomes), len(outcomes))
        return SearchCheck(
            at=this.at,
            version=this.version,
            embedder=this.embedder,
            asked=len(outcome_of),
            found=sum(outcome_of.values()),
            by_kind=kinds,
            earlier=compared(earlier, outcome_of) if earlier else None,
        )

    async def _questions(
        self, count: int, seed: int, earlier: EarlierCheck | None
    ) -> list[Question]:
        """Those of the earlier check that can still be asked, and new ones up to the count."""
        refs = [AnchorRef.parse(each) for each in earlier.asked] if earlier else []
        segments = await self._memory.long_term.segments(refs[:count], owner=self._owner)
        if len(segments) < count:
            drawn = await self._memory.long_term.sample(
                2 * count, owner=self._owner, types=("user_message", "response"), seed=seed
            )
            random.Random(seed).shuffle(drawn)
            segments += drawn
        questions: dict[AnchorRef, Question] = {}
        for segment in segments:
            if len(questions) >= count:
                break
            question = await self._question(segment)
            if question is not None:
                questions.setdefault(question.target, question)
        return list(questions.values())

    async def _question(self, segment: Segment) -> Question | None:
        """A question for a segment, the same one at each check; None: it says too little."""
        ref = segment.anchor.ref
        if segment.anchor.segment_type == "response":
            context = await self._memory.long_term.expand(
                ref, owner=self._owner, before=1, after=0, unit="iterations"
            )
            for before in reversed(context.before):
                if before.anchor.segment_type == "user_message" and _says_enough(before.content):
                    return Question(before.content, ref, "answer")
        quote = quoted_words(segment.content)
        return Question(quote, ref, "quote") if _says_enough(quote) else None

    async def _finds(self, question: Question) -> bool:
        result = await self._memory.long_term.search(question.text, owner=self._owner, limit=FIRST)
        return any(
            question.target in (hit.anchor.ref, *(each.ref for each in hit.duplicates))
            for hit in result.hits
        )

    def _earlier(self) -> EarlierCheck | None:
        try:
            return EarlierCheck.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError:
            return None  # of another version, or cut short: this check is a first one
        except OSError as error:
            raise _unusable(self._path, error) from error

    def _keep(self, check: EarlierCheck) -> None:
        new: Path | None = None
        try:
            descriptor, name = tempfile.mkstemp(prefix=f"{self._path.stem}-", dir=self._path.parent)
            new = Path(name)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(check.model_dump_json())
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            if new is not None:
                new.unlink(missing_ok=True)
            raise _unusable(self._path, error) from error


def quoted_words(text: str) -> str:
    """A few words out of the middle of a text, as they stand there.

    >>> quoted_words("The code of the padlock on the shed in the garden is 4711.")
    'the padlock on the shed in'
    >>> quoted_words("院子里棚屋挂锁的密码是四七一一")
    '里棚屋挂锁的密码是四七'
    """
    words = list(_WORD.finditer(text))
    count = min(len(words), _QUOTED_WORDS)
    if words and words[len(words) // 2][0] > "㐀":
        count = min(len(words), 2 * _QUOTED_WORDS - 1)
    first = (len(words) - count) // 2
    return text[words[first].start() : words[first + count - 1].end()] if count else ""


def compared(earlier: EarlierCheck, outcome_of: dict[str, bool]) -> SearchComparison:
    """This check's outcomes beside an earlier one's."""
    both = [anchor for anchor in outcome_of if anchor in earlier.asked]
    lost = [anchor for anchor in both if earlier.asked[anchor] and not outcome_of[anchor]]
    gained = sum(outcome_of[anchor] and not earlier.asked[anchor] for anchor in both)
    return SearchComparison(
        at=earlier.at,
        version=earlier.version,
        embedder=earlier.embedder,
        asked=len(both),
        gained=gained,
        lost=len(lost),
        lost_anchors=tuple(lost[:_NAMED]),
        finds_less=chance_of(len(lost), gained) < _CHANCE,
    )


def chance_of(lost: int, gained: int) -> float:
    """How likely a fair coin would lose at least so many of `lost` + `gained`: one-sided.

    >>> chance_of(5, 0), chance_of(3, 3)
    (0.03125, 0.65625)
    """
    changed = lost + gained
    return float(sum(math.comb(changed, k) for k in range(lost, changed + 1)) / 2**changed)


def _says_enough(text: str) -> bool:
    return sum(2 if char > "㐀" else 1 for char in text if char.isalnum()) >= _LEAST_CHARACTERS


def _unusable(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{path} cannot be used: {error.strerror or error}",
        advice="Make room, or see to the rights of the data folder; then check again.",
    )
