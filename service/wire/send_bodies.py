"""Sending a message: the request, the answer, and the frames of the stream that are no events."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from service.domain.conversation.file_attachments import NewFile
from service.domain.conversation.messages import FinishReason, ImageUrlPart, Message, TextPart
from service.domain.errors import InvalidInputError, Problem
from service.domain.history.events import Recollection
from service.domain.history.human_input import InputRequired
from service.domain.routes import Route, RouteCandidate
from service.domain.run_loops import Iteration, SendMode, Status, Timestamp
from service.domain.text import in_one_line


class TextContent(BaseModel):
    """Words of a message."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["text"]
    text: str


class ImageContent(BaseModel):
    """An image of a message."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["image_url"]
    url: str
    """``https:``, or ``data:`` with base64."""
    id: str | None = Field(default=None, max_length=255)
    """What the sender calls it; kept with it."""

    @model_validator(mode="before")
    @classmethod
    def _unnested(cls, read: Any) -> Any:
        """OpenAI's form; its ``detail`` has no counterpart elsewhere, and is left to the model."""
        nested = read.get("image_url") if isinstance(read, dict) else None
        if not isinstance(nested, dict):
            return read
        inner = {name: value for name, value in nested.items() if name != "detail"}
        return {name: value for name, value in read.items() if name != "image_url"} | inner


class FileContent(BaseModel):
    """A file that goes with a message."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["file"]
    name: str = Field(max_length=1000)
    data: str
    """Base64, or a ``data:`` URL with it."""

    @model_validator(mode="before")
    @classmethod
    def _unnested(cls, read: Any) -> Any:
        """OpenAI's form: ``"file": {"filename": …, "file_data": …}``."""
        nested = read.get("file") if isinstance(read, dict) else None
        if not isinstance(nested, dict):
            return read
        names = {"filename": "name", "file_data": "data"}
        inner = {names.get(name, name): value for name, value in nested.items()}
        return {name: value for name, value in read.items() if name != "file"} | inner

    def file(self) -> NewFile:
        """The file that is sent.

        Raises:
            InvalidInputError: its data is not in base64.
        """
        head, comma, data = self.data.rpartition(",")
        if comma and not head.lower().endswith(";base64"):
            data = self.data
        try:
            return NewFile(self.name, base64.b64decode(data, validate=True))
        except (binascii.Error, ValueError) as error:
            raise InvalidInputError(
                f"the base64 of the file {self.name[:200]!r} cannot be read: {error}",
                advice="Encode the whole file, without line breaks.",
            ) from error


MessagePart = Annotated[TextContent | ImageContent | FileContent, Field(discriminator="type")]


class SendRequest(BaseModel):
    """A message, and what its sender knows about it."""

    model_config = ConfigDict(extra="forbid")

    message: str | list[MessagePart]
    """The words; or parts, where images go with them: ``{"type": "text", "text": …}`` and
    ``{"type": "image_url", "url": …}``, whose address is ``https:`` or a ``data:`` URL. OpenAI's
    form, ``"image_url": {"url": …}``, is taken too. Or files: ``{"type": "file", "name": …,
    "data": …}`` with base64, of which the tool `read_file` reads copies in the run loop."""
    run_loop_id: str | None = None
    """The loop it belongs to: one that was cancelled or has failed goes on, a completed one is
    taken up by a new one that remembers it. ``new``: it opens a new one, whatever the router would
    say. None: the router decides."""
    mode: SendMode = "steer"
    """How it joins a loop that is at work: ``steer`` (seen at the next step), ``followup`` (seen
    after the answer), ``interrupt`` (the work is stopped, and this is taken instead)."""
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    """Kept with the message. What schedules send is known by ``schedule``, which is refused."""
    model: str | None = None
    """The name of the model that answers it, and what follows it in its run loop until a message
    names another one: ``default``, or one of the setting `models`. None: the run loop's."""

    def content(self) -> Message:
        """The message that is sent."""
        if isinstance(self.message, str):
            return Message.user(self.message)
        parts = (
            TextPart(text=part.text)
            if isinstance(part, TextContent)
            else ImageUrlPart(url=part.url, id=part.id)
            for part in self.message
            if not isinstance(part, FileContent)
        )
        return Message(role="user", content=tuple(parts))

    def files(self) -> tuple[NewFile, ...]:
        """The files that go with it.

        Raises:
            InvalidInputError: the data of one cannot be read.
        """
        parts = () if isinstance(self.message, str) else self.message
        return tuple(part.file() for part in parts if isinstance(part, FileContent))

    def digest(self) -> str:
        """The same for the same request, however its JSON was written."""
        fields = self.model_dump(mode="json")
        if self.model is None:
            del fields["model"]  # as before there was any: keys outlive versions
        canonical = json.dumps(fields, sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()


_LONGEST_TITLE = 60  # characters


class Remembered(BaseModel):
    """Words of the person's own that seem to answer them, word for word."""

    anchor: str
    """Its short form, as `/v1/memory/expand` takes it."""
    title: str
    """How it begins, in a line."""
    href: str
    """Where the same daemon shows it, and what stood around it, to whoever has the token."""
    content: str
    timestamp: Timestamp

    @classmethod
    def of(cls, piece: Recollection) -> Self:
        """What was put before the model, as a citation."""
        anchor = piece.anchor.text
        line = in_one_line(piece.content)
        return cls(
            anchor=anchor,
            title=line if len(line) <= _LONGEST_TITLE else line[: _LONGEST_TITLE - 1] + "…",
            href=f"/v1/memory/expand?anchor={quote(anchor, safe='')}",
            content=piece.content,
            timestamp=piece.anchor.timestamp,
        )


ACCEPTED = "message.accepted"
DELIVERED = "message.delivered"
"""The names of the frames that are no events: the message is safe; where a part of it went."""


class Accepted(BaseModel):
    """The message is safe: the first frame of the stream that follows it."""

    model_config = ConfigDict(frozen=True)

    message_id: str
    replayed: bool
    """Whether it was sent before, with the same key."""


class Part(BaseModel):
    """A part of a message that became a message of its own."""

    message_id: str
    run_loop_id: str | None
    """Where it went; None where it could not be brought there yet."""
    goal: str
    """Of that run loop."""
    waits_for_input: bool = False
    """Whether that run loop asks a person something, such as where the part belongs."""


class Sent(BaseModel):
    """What became of the message."""

    message_id: str
    run_loop_id: str
    status: Status
    """``idle`` or ``completed``: it was answered; ``running``: it was answered, and the loop works
    on another message; ``waiting_for_human_input``: see `input_required`."""
    response: str | None
    """The words of the answer: the last that were said since the model saw the message. Where an
    answer was cut off and gone on with, all its parts."""
    finish_reason: FinishReason | None
    """Why the answer is not whole: ``length``, its tokens were used up; ``content_filter``, a
    filter of the model's endpoint stopped it. None: it is whole."""
    interrupted_by: str | None
    """The id of a message that was taken in its place, if one was: the answer is to both."""
    iterations: tuple[Iteration, ...]
    """What the loop did since the model saw the message, up to the answer."""
    route: Route | None
    """Why it came to this run loop."""
    alternatives: tuple[RouteCandidate, ...]
    """Where the router was unsure: what else it could have been, likeliest first, as far as it can
    be moved there now; the id ``new`` stands for a new run loop.
    ``POST /v1/run-loops/{id}/reroute`` moves it there, and back."""
    input_required: InputRequired | None
    """What a person is asked."""
    warnings: tuple[Problem, ...] = ()
    """What went wrong meanwhile, and kept nobody from answering: the model cannot see an image that
    was sent, for one."""
    remembered: tuple[Remembered, ...] = ()
    """What the person said before that seems to answer them; told only where a small model answers,
    which may paraphrase it wrongly."""
    parts: tuple[Part, ...] = ()
    """What else was said in the message, where it was taken apart; see `router.split_matters`."""
