"""References: where words stand that an event tells again, so that they are kept once.

An event that quotes, such as ``memory.recalled``, is kept with a hole for each text that stands
elsewhere, and says behind the rest of its body what belongs into it:

>>> kept = with_holes(
...     {"type": "tool.finished", "content": "> Hi.\\n\\nThat is all."},
...     [
...         Quotation(
...             field="content",
...             words=(
...                 Quote(words=(Reference(event=7, field="goal", start=0, end=3),)),
...                 "\\n\\nThat is all.",
...             ),
...         )
...     ],
... )
>>> kept["content"], kept["references"][0]["field"]
('', 'content')
>>> quotations_in(kept)[0].words[0]
Quote(words=(Reference(event=7, field='goal', start=0, end=3),))

Whoever reads the journal renders them: `service.memory.journal.kept_words`. All here is pure.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

from service.domain.forgetting_terms import FORGOTTEN, FORGOTTEN_ARGUMENTS
from service.domain.text import quoted

KEY = "references"
"""Under which a kept body says where its words stand. No event has a field of this name."""

Json = Mapping[str, Any]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Reference(_Part):
    """A stretch of a text in another event of the same owner."""

    event: int
    """The event's number."""
    field: str
    """Where in its body the text stands: ``message.content.0.text``, ``goal``."""
    start: int
    end: int
    """In characters of the text: from the first one to before the last one."""


class Goal(_Part):
    """What a run loop of the same owner is about, as it is now, see `goal_as_named`."""

    goal_of: str
    """The run loop's id."""


class Quote(_Part):
    """Words with the mark of quotes before each of their lines, see `quoted`."""

    words: tuple[str | Reference | Goal, ...]


Words = tuple[str | Reference | Goal | Quote, ...]
"""A text: what is said here, and what stands elsewhere, in order."""


class Quotation(_Part):
    """A text of an event, and what it is made of."""

    field: str
    """Where in the event's own body it stands."""
    words: Words


_TOLD: TypeAdapter[tuple[Quotation, ...]] = TypeAdapter(tuple[Quotation, ...])

Resolve = Callable[[Reference | Goal], str | None]
"""Gives the words that are referred to; None where they are gone."""


def text_at(body: Json, field: str) -> str | None:
    """The text in a body's JSON at a path; None where there is none.

    >>> text_at({"message": {"content": [{"text": "Hi."}]}}, "message.content.0.text")
    'Hi.'
    """
    place: Any = body
    for name in field.split("."):
        if isinstance(place, Mapping):
            place = place.get(name)
        elif isinstance(place, list) and name.isdigit() and int(name) < len(place):
            place = place[int(name)]
        else:
            return None
    return place if isinstance(place, str) else None


def stretch(body: Json, reference: Reference) -> str | None:
    """The words of a reference in the body that it names; None where they are gone.

    >>> stretch({"goal": "Buy milk."}, Reference(event=7, field="goal", start=4, end=8))
    'milk'
    """
    text = text_at(body, reference.field)
    if text is None or reference.end > len(text) or text in (FORGOTTEN, FORGOTTEN_ARGUMENTS):
        return None
    return text[reference.start : reference.end]


def texts_in(body: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """All texts in a body's JSON, each after its path; but none behind a name with a dot in it."""
    match body:
        case str():
            yield field, body
        case Mapping():
            for name, each in body.items():
                if "." not in name:
                    yield from texts_in(each, f"{field}.{name}" if field else name)
        case list():
            for index, each in enumerate(body):
                yield from texts_in(each, f"{field}.{index}")


def quotations_in(kept: Json) -> tuple[Quotation, ...]:
    """What a kept body says of its words."""
    return _TOLD.validate_python(kept.get(KEY, ()))


def references_in(origins: Iterable[Quotation]) -> Iterator[Reference]:
    """All references, in order."""
    for each in origins:
        for part in each.words:
            parts = part.words if isinstance(part, Quote) else (part,)
            yield from (each for each in parts if isinstance(each, Reference))


def goals_in(origins: Iterable[Quotation]) -> Iterator[str]:
    """The run loops whose goals are told."""
    return (part.goal_of for each in origins for part in each.words if isinstance(part, Goal))


def with_holes(body: Json, origins: Sequence[Quotation]) -> dict[str, Any]:
    """A body's JSON as it is kept: without the words that stand elsewhere."""
    kept = copy.deepcopy(dict(body))
    for each in origins:
        _put(kept, each.field, "")
    return {**kept, KEY: [each.model_dump(mode="json") for each in origins]}


def rendered(kept: Json, resolve: Resolve) -> dict[str, Any]:
    """A kept body with all its words; the mark stands for those that are gone.

    A piece of memory of which words are gone is left out: a mark tells a model nothing.
    """
    body = {name: copy.deepcopy(each) for name, each in kept.items() if name != KEY}
    origins = quotations_in(kept)
    for each in origins:
        _put(body, each.field, in_words(each.words, resolve)[0])
    if broken := _broken(origins, resolve):
        pieces = enumerate(body["recollections"])
        body["recollections"] = [piece for index, piece in pieces if index not in broken]
    return body


def quotations_as_rendered(kept: Json, resolve: Resolve) -> tuple[Quotation, ...]:
    """What the texts of a kept body are made of as it is `rendered`: pieces may be left out."""
    origins = quotations_in(kept)
    broken = _broken(origins, resolve)
    left = list[Quotation]()
    for each in origins:
        index = _piece(each)
        if index is None:
            left.append(each)
        elif index not in broken:
            place = index - sum(other < index for other in broken)
            left.append(each.model_copy(update={"field": f"recollections.{place}.content"}))
    return tuple(left)


def _broken(origins: Iterable[Quotation], resolve: Resolve) -> set[int]:
    """Which pieces of memory words are gone of."""
    pieces = ((each, _piece(each)) for each in origins)
    return {
        index
        for each, index in pieces
        if index is not None and not in_words(each.words, resolve)[1]
    }


def _piece(origin: Quotation) -> int | None:
    """Which piece of memory a text is that of, if it is one."""
    name, _, rest = origin.field.partition(".")
    return int(rest.partition(".")[0]) if name == "recollections" else None


def carried(origins: Iterable[Quotation], before: Json, after: Json) -> tuple[Quotation, ...]:
    """What a body is still made of that has lost some of its words.

    Args:
        origins: what it was made of.
        before: its JSON, with all words.
        after: the same, without some texts; pieces of memory may be gone.

    >>> origins = (Quotation(field="recollections.1.content", words=("Hi.",)),)
    >>> pieces = [{"content": "Bye."}, {"content": "Hi."}]
    >>> left = carried(origins, {"recollections": pieces}, {"recollections": pieces[1:]})
    >>> left[0].field
    'recollections.0.content'
    """
    places, left = dict[str, str](), list(after.get("recollections", ()))
    for index, piece in enumerate(before.get("recollections", ())):
        if piece in left:
            at = len(after["recollections"]) - len(left) + left.index(piece)
            places[f"recollections.{index}.content"] = f"recollections.{at}.content"
            left = left[left.index(piece) + 1 :]
        else:
            places[f"recollections.{index}.content"] = ""
    moved = ((each, places.get(each.field, each.field)) for each in origins)
    return tuple(
        each.model_copy(update={"field": field})
        for each, field in moved
        if field and text_at(before, each.field) == text_at(after, field)
    )


def in_words(words: Words, resolve: Resolve) -> tuple[str, bool]:
    """A text, and whether nothing of it is gone.

    >>> in_words(("He said: ", Reference(event=7, field="goal", start=0, end=4)), lambda _: None)
    ('He said: [forgotten]', False)
    """
    text, is_whole = "", True
    for part in words:
        match part:
            case str():
                text += part
            case Quote():
                inner, inner_is_whole = in_words(part.words, resolve)
                text += quoted(inner)
                is_whole &= inner_is_whole
            case Reference() | Goal():
                resolved = resolve(part)
                text += FORGOTTEN if resolved is None else resolved
                is_whole &= resolved is not None
    return text, is_whole


def _put(body: dict[str, Any], field: str, text: str) -> None:
    *way, last = field.split(".")
    place: Any = body
    for name in way:
        place = place[int(name)] if isinstance(place, list) else place[name]
    if isinstance(place, list):
        place[int(last)] = text
    else:
        place[last] = text
