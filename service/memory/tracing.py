"""Finds where the words stand that memory gives: they are kept there, and referred to from here.

What memory puts before a model, and what its tools give, names its pieces by anchors. An anchor
says which iteration of which run loop the words are of; in the events of that, they are looked for.
What is not found there word for word, such as a note that a model wrote, is kept in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from service.domain.anchors import AnchorRef, SegmentType
from service.domain.conversation.tool_definitions import MEMORY_TOOLS, QUOTING_TOOLS
from service.domain.errors import BadAnchorError, StorageError
from service.domain.history.events import (
    Event,
    EventBody,
    MemoryRecalled,
    MessageCompleted,
    MessageReceived,
    RunLoopImported,
    RunLoopStarted,
    ToolFinished,
)
from service.domain.history.human_input import InputReceived
from service.domain.history.references import Goal, Quotation, Quote, Reference, Words, texts_in
from service.domain.text import MARK, quoted
from service.memory.forgetting.histories import History, history_of
from service.memory.journal.event_reader import EventReader
from service.memory.journal.kept_words import json_of
from service.memory.ledger.segmenter import segments_of

PIECE = re.compile(r"^\[(\S{1,400}?:\d{1,9}\.\d{1,9})\] ", re.MULTILINE)
"""Where a piece begins in a result of memory's tools; notes name anchors at the ends of lines."""
_QUOTE = re.compile(rf"^{MARK}.*(?:\n{MARK}.*)*", re.MULTILINE)
_MARK = re.compile(rf"^{MARK}", re.MULTILINE)
_PAGE = re.compile(r"\[Characters [\d,]+ to [\d,]+ of [\d,]+ of the result (?P<call_id>.+)\]\n\n")
"""The beginning of what `read_result` gives."""
_FIELDS: Mapping[SegmentType, Mapping[type, re.Pattern[str]]] = {
    "user_message": {
        MessageReceived: re.compile(r"message\.content\.\d+\.text"),
        InputReceived: re.compile(r"text|choices\.\d+"),
    },
    "reasoning": {MessageCompleted: re.compile(r"message\.content\.\d+\.think")},
    "response": {MessageCompleted: re.compile(r"message\.content\.\d+\.text")},
    "tool_call": {MessageCompleted: re.compile(r"message\.tool_calls\.\d+\.arguments")},
    "tool_result": {ToolFinished: re.compile(r"whole|content")},
}
"""Where in which events words of a segment's type stand."""
_IMPORTED: Mapping[SegmentType, str] = {
    "user_message": r"user_message",
    "reasoning": r"reasoning",
    "response": r"response",
    "tool_call": r"tool_calls\.\d+\.arguments",
    "tool_result": r"tool_results\.\d+\.content",
}
"""The same in an iteration of a run loop that was imported."""
_BETWEEN = ("\n\n", "", "\n", " ")
"""What stands between the parts of a message, and between several messages of an iteration."""
_LEAST_TELLING = 16
"""Bytes of a text that, standing in one event alone, is taken to be of that event."""


class _Stretch(NamedTuple):
    """Words that stand in an event; or, without its number, those between such."""

    text: str
    event: int | None = None
    field: str = ""


def trace(
    bodies: Sequence[EventBody], run_loop_id: str, owner: str, journal: EventReader
) -> dict[int, tuple[Quotation, ...]]:
    """By their places: what those of a run loop's events that quote are made of. Blocks."""
    tracer = Tracer(journal, owner)
    quotations = {
        index: tracer.quotations_of(body, run_loop_id) for index, body in enumerate(bodies)
    }
    return {index: each for index, each in quotations.items() if each}


class Tracer:
    """Reads each run loop once. Blocks."""

    def __init__(self, journal: EventReader, owner: str) -> None:
        """Nothing is read yet; the words are an owner's."""
        self._journal = journal
        self._owner = owner
        self._histories: dict[str, History | None] = {}
        self._holders: dict[tuple[str, str], list[Event]] = {}

    def quotations_of(self, body: EventBody, run_loop_id: str) -> tuple[Quotation, ...]:
        """Of the texts of a run loop's event that are told again: what each is made of."""
        if isinstance(body, MemoryRecalled):
            pieces = enumerate(body.recollections)
            traced = [
                (index, self._piece(p.anchor.ref, p.anchor.segment_type, p.content))
                for index, p in pieces
            ]
            return tuple(
                Quotation(field=f"recollections.{index}.content", words=words)
                for index, words in traced
                if words
            )
        if not isinstance(body, ToolFinished) or body.name not in QUOTING_TOOLS:
            return ()
        made_of = self._result if body.name in MEMORY_TOOLS else partial(self._page, run_loop_id)
        texts = {"content": body.content, "whole": body.whole or ""}
        traced_texts = ((field, made_of(text)) for field, text in texts.items())
        return tuple(Quotation(field=field, words=words) for field, words in traced_texts if words)

    def _page(self, run_loop_id: str, text: str) -> Words | None:
        """What a page of a long result is made of, which the same run loop reads on in."""
        head, history = _PAGE.match(text), self._history(run_loop_id)
        if head is None or history is None:
            return None
        begin, end = head.end(), text.rfind("\n\n[")
        for event in reversed(history.events):
            body = event.body
            if isinstance(body, ToolFinished) and body.call_id == head["call_id"]:
                field = "content" if body.whole is None else "whole"
                whole = _Stretch(body.whole or body.content, event.seq, field)
                if text[begin:end] in whole.text:
                    return (text[:begin], *_cut([whole], text[begin:end]), text[end:])
        return None

    # --- a piece

    def _piece(self, ref: AnchorRef, kind: SegmentType, content: str) -> Words | None:
        """What a piece is made of; None where its words do not stand there."""
        if not content.strip():
            return None
        return self._only_place(ref, (kind,), content) or self._in_iteration(ref, kind, content)

    def _only_place(
        self, ref: AnchorRef, kinds: Iterable[SegmentType], content: str
    ) -> Words | None:
        """The same where the words stand in one event alone: then nothing else need be read.

        A few letters may stand anywhere.
        """
        if len(content.encode()) < _LEAST_TELLING:
            return None
        places = [
            each
            for event in self._holding(ref.run_loop_id, content)
            for kind in kinds
            for each in _stretches_in(event, ref.iteration_index, kind)
            if content in each.text
        ]
        return _cut(places, content) if len(places) == 1 else None

    def _holding(self, run_loop_id: str, content: str) -> list[Event]:
        """The events of a run loop whose rows hold words as they are."""
        key = run_loop_id, content
        if key not in self._holders:
            try:
                self._holders[key] = self._journal.read_blocking(
                    run_loop_id=run_loop_id, owner=self._owner, holding=content
                )
            except (StorageError, ValueError):
                return []
        return self._holders[key]

    def _in_iteration(self, ref: AnchorRef, kind: SegmentType, content: str) -> Words | None:
        history = self._history(ref.run_loop_id)
        if history is None:
            return None
        groups = [
            group
            for event in history.events
            if isinstance(event.body, RunLoopImported)
            or history.iteration_of.get(event.seq or 0) == ref.iteration_index
            for group in _groups(event, list(_stretches_in(event, ref.iteration_index, kind)))
        ]
        stretches = [each for group in groups for each in group if each.event is not None]
        for each in stretches:
            if content in each.text:
                return _cut([each], content)
        if kind == "tool_call":  # the tool's name stands before its arguments
            name, _, _ = content.partition(" ")
            for each in stretches:
                if content in f"{name} {each.text}":
                    return _cut([_Stretch(f"{name} "), each], content)
        for between in _BETWEEN:
            joined = [part for group in groups for part in (_Stretch(between), *group)][1:]
            if content in "".join(each.text for each in joined):
                return _cut(joined, content)
        return None

    def _history(self, run_loop_id: str) -> History | None:
        if run_loop_id not in self._histories:
            self._histories[run_loop_id] = self._read(run_loop_id)
        return self._histories[run_loop_id]

    def _read(self, run_loop_id: str) -> History | None:
        try:
            events = self._journal.read_blocking(run_loop_id=run_loop_id, owner=self._owner)
            return history_of(events) if events else None
        except (StorageError, ValueError):
            return None  # one that cannot be read is referred to by nobody; the words are kept

    # --- a result of memory's tools

    def _result(self, text: str) -> Words | None:
        """What a result is made of; None where nothing in it stands elsewhere."""
        heads = [(match.start(), ref) for match in PIECE.finditer(text) if (ref := _ref(match[1]))]
        words, at = list[str | Reference | Quote](), 0
        for quote in _QUOTE.finditer(text):
            before = [ref for start, ref in heads if start < quote.start()]
            after = [ref for start, ref in heads if start > quote.start()]
            is_a_piece = PIECE.match(_line_before(text, quote.start())) is not None
            traced = (
                self._quoted_piece(before[-1], quote[0])
                if is_a_piece and before
                else self._quoted_goal((*after[:1], *before[-1:]), quote[0])
            )
            if traced is not None:
                words += [text[at : quote.start()], Quote(words=traced)]
                at = quote.end()
        return (*words, text[at:]) if words else None

    def _quoted_piece(
        self, ref: AnchorRef, quote: str
    ) -> tuple[str | Reference | Goal, ...] | None:
        """The words of a piece from its quote, which may be a part of it."""
        plain = _MARK.sub("", quote)
        if plain.strip() and (words := self._only_place(ref, _FIELDS, plain)):
            return _plain(words)
        history = self._history(ref.run_loop_id)
        if history is None:
            return None
        run_loop = history.state.run_loop()
        if ref.iteration_index >= len(run_loop.iterations):
            return None
        there = segments_of(run_loop, ref.iteration_index)
        kinds = [each.anchor.segment_type for each in there if each.anchor.ref == ref]
        # Other ends of lines than the usual ones are lost in a quote.
        contents = [each.content for each in there if quoted(each.content) == quote]
        for content in (plain, *contents):
            for kind in dict.fromkeys((*kinds, *_FIELDS)):
                words = self._piece(ref, kind, content)
                if words is not None:
                    return _plain(words)
        return None

    def _quoted_goal(
        self, refs: Iterable[AnchorRef], quote: str
    ) -> tuple[str | Reference | Goal, ...] | None:
        """The words that a run loop began with."""
        for ref in refs:
            history = self._history(ref.run_loop_id)
            for event in history.events if history else ():
                for goal in _goals(event.body):
                    if quoted(goal.text) == quote:
                        whole = goal._replace(event=event.seq)
                        return _plain(_cut([whole], goal.text))
        return None


def _stretches_in(event: Event, iteration: int, kind: SegmentType) -> Iterator[_Stretch]:
    """The texts of a type in an event, in order; of an import, those of one iteration."""
    fields = _FIELDS[kind].get(type(event.body))
    if isinstance(event.body, RunLoopImported):
        fields = re.compile(rf"run_loop\.iterations\.{iteration}\.{_IMPORTED[kind]}")
    if isinstance(event.body, ToolFinished) and event.body.name in QUOTING_TOOLS:
        return  # what those give is told again
    if fields is not None:
        for field, text in texts_in(json_of(event.body)):
            if fields.fullmatch(field) and text:
                yield _Stretch(text, event.seq, field)


def _groups(event: Event, stretches: list[_Stretch]) -> list[list[_Stretch]]:
    """The same as they stand together: the parts of a message have its images between them."""
    if not isinstance(event.body, MessageReceived):
        return [[each] for each in stretches]
    words, at, group = event.body.message.words, 0, list[_Stretch]()
    for each in stretches:
        start = words.find(each.text, at)
        group += [_Stretch(words[at:start]), each]
        at = start + len(each.text)
    return [[*group, _Stretch(words[at:])]] if group else []


def _goals(body: EventBody) -> Iterator[_Stretch]:
    if isinstance(body, RunLoopStarted):
        yield _Stretch(body.goal, field="goal")
    elif isinstance(body, RunLoopImported):
        yield _Stretch(body.run_loop.goal, field="run_loop.goal")
    elif isinstance(body, MessageReceived):  # the first words may have moved away
        for index, part in enumerate(body.message.content):
            if part.type == "text":
                yield _Stretch(part.text, field=f"message.content.{index}.text")


def _cut(stretches: Sequence[_Stretch], content: str) -> Words:
    """What a text within these is made of."""
    start = "".join(each.text for each in stretches).find(content)
    end, at, words = start + len(content), 0, list[str | Reference]()
    for each in stretches:
        first, last = max(start - at, 0), min(end - at, len(each.text))
        at += len(each.text)
        if first >= last:
            continue
        if each.event is None:
            words.append(each.text[first:last])
        else:
            words.append(Reference(event=each.event, field=each.field, start=first, end=last))
    return tuple(words)


def _plain(words: Words) -> tuple[str | Reference | Goal, ...]:
    return tuple(each for each in words if not isinstance(each, Quote))


def _line_before(text: str, at: int) -> str:
    """The line before the one that begins at a place."""
    end = max(at - 1, 0)
    return text[text.rfind("\n", 0, end) + 1 : end]


def _ref(text: str) -> AnchorRef | None:
    try:
        return AnchorRef.parse(text)
    except BadAnchorError:
        return None
