"""What the daemon's event streams hold, as the commands see it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, JsonValue, ValidationError

from service import __version__
from service.cli.daemon.daemon_errors import UnknownFormError
from service.domain.conversation.messages import ImageUrlPart
from service.domain.errors import InvalidInputError
from service.domain.history.events import BODY, EventBody
from service.domain.history.own_part import ends_stream
from service.domain.run_loops import SendMode
from service.wire.send_bodies import ACCEPTED, Accepted, FileContent, Part, SendRequest

Json = dict[str, JsonValue]
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """An event as it came over the wire."""

    seq: int | None
    run_loop_id: str
    at: str
    """ISO 8601."""
    type: str
    body: EventBody | None
    """None when this program does not know the type: the daemon is newer."""
    wire: Json
    """The event as it was sent."""


@dataclass(frozen=True, slots=True)
class Note:
    """Words of this program's own about what comes in."""

    words: str
    style: str = "dim"


END = frozenset(
    ("run_loop.completed", "run_loop.failed", "run_loop.cancelled", "run_loop.imported")
)
"""Events after which nothing more comes, unless the loop is taken up again."""


def is_rest(event: SeenEvent) -> bool:
    """Whether nothing more will come of a message after this event."""
    return ends_stream(event.type, event.seq)


def delivered_part(event: SeenEvent) -> Part:
    """What a `DELIVERED` tells."""
    part = event.wire["data"]
    assert isinstance(part, dict)
    return Part.model_validate({**part, "run_loop_id": event.run_loop_id or None})


def read(name: str, data: str) -> Accepted | SeenEvent:
    """A frame of a stream."""
    if name == ACCEPTED:
        return Accepted.model_validate_json(data)
    wire = json.loads(data)
    try:
        body = BODY.validate_python({"type": wire["type"], **wire["data"]})
    except ValidationError:
        body = None
    return SeenEvent(wire["seq"], wire["run_loop_id"], wire["at"], wire["type"], body, wire)


def read_as(kind: type[_Model], value: JsonValue) -> _Model:
    """What the daemon has told, as what it is.

    Raises:
        UnknownFormError: it is not in that form.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise UnknownFormError(
            f"it is no {kind.__name__} as version {__version__} knows it (at {where or 'its top'})",
            advice="The daemon may be of another version than this command: start it again.",
        ) from error


def body_of(kind: type[BaseModel], **fields: object) -> Json:
    """A request as it is sent; what is None is left out.

    Raises:
        InvalidInputError: the daemon would refuse it, for the same reason.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        return kind.model_validate(given).model_dump(mode="json", exclude_unset=True)
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise InvalidInputError("; ".join(problems), advice="Correct what is named.") from error


def sending(
    text: str,
    images: Sequence[ImageUrlPart],
    *,
    files: Sequence[FileContent] = (),
    run_loop_id: str | None,
    mode: SendMode,
    model: str | None,
) -> Json:
    """A message as it is sent: its words, or words, images and files as parts."""
    parts = [{"type": "text", "text": text}] if text else []
    parts += [image.model_dump(exclude_none=True) for image in images]
    parts += [file.model_dump() for file in files]
    message = parts if images or files else text
    return body_of(SendRequest, message=message, run_loop_id=run_loop_id, mode=mode, model=model)
