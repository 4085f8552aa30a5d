"""One tool of an MCP server, as a tool of ours."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Protocol

import anyio
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]
from mcp import Client, MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    EmbeddedResource,
    InputRequiredResult,
    InputResponses,
    ResourceLink,
    TextContent,
)
from mcp_types import Tool as ListedTool
from pydantic import TypeAdapter

from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition, ToolEffect
from service.tool_server_settings import McpServerSettings
from service.tools.mcp.elicitation import Elicitation
from service.tools.protocol import InputNeeded, NoOutcome, ToolFailure

DEFINITION_CHARACTERS = 20_000
"""The longest that a description and a schema may be together."""
_NAME_CHARACTERS = 64  # what endpoints of models allow
_ERROR_CHARACTERS = 500
_NOT_YET_SECONDS = 0.25
_RESULT: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(
    CallToolResult | InputRequiredResult
)
_NO_ANSWER = (CONNECTION_CLOSED, REQUEST_TIMEOUT, PARSE_ERROR)


class Connection(Protocol):
    """The way to a server."""

    @property
    def name(self) -> str:
        """Of the server."""
        ...

    @property
    def client(self) -> Client | None:
        """Open; None while there is none."""
        ...

    @property
    def absence(self) -> str:
        """Why there is none, and what happens about it."""
        ...

    def failed(self, error: MCPError) -> str:
        """Look whether it is still open, after a call that failed; why that was, in words without
        secrets."""
        ...

    def cleaned(self, words: str) -> str:
        """Words of the server without the secrets that it was given."""
        ...


def offered_name(server: str, name: str) -> str:
    """What the model calls a tool: ``server__name``, of characters and a length that endpoints
    allow. A name that has to be changed for that ends with a mark made of the whole name.

    >>> offered_name("time", "get_current_time")
    'time__get_current_time'
    >>> offered_name("time", "现在.time")
    'time_____time_1801'
    """
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    whole = f"{server}__{plain}"
    if plain == name and len(whole) <= _NAME_CHARACTERS:
        return whole
    mark = "_" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:4]
    return whole[: _NAME_CHARACTERS - len(mark)] + mark


def definition_of(server: str, listed: ListedTool) -> ToolDefinition:
    """What the model is told of a tool.

    Raises:
        ToolFailure: it cannot be offered so; says why.
    """
    schema: dict[str, Any] = {"properties": {}, **listed.input_schema}
    size = len(listed.description or "") + len(json.dumps(schema, ensure_ascii=False))
    if size > DEFINITION_CHARACTERS:
        raise ToolFailure(
            f"its description and schema have {size:,} characters; {DEFINITION_CHARACTERS:,} are"
            " the most"
        )
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ToolFailure(f"its schema is not valid: {error.message[:200]}") from error
    if schema.get("type") != "object":
        raise ToolFailure("its schema is not that of an object")
    return ToolDefinition(
        name=offered_name(server, listed.name),
        description=listed.description or listed.title or listed.name,
        parameters=schema,
    )


class ServerTool:
    """Calls of one tool go to its server. What it may do is what the settings say: a server's own
    hints are not believed."""

    def __init__(
        self,
        name: str,
        definition: ToolDefinition,
        settings: McpServerSettings,
        connection: Connection,
    ) -> None:
        """Name the tool.

        Args:
            name: as its server calls it.
            definition: what the model is told.
            settings: of the server.
            connection: the way to it.
        """
        self._name = name
        self.definition = definition
        """As a person has accepted it."""
        self._connection = connection
        own = settings.tools.get(name)
        self._effect = (own and own.effect) or settings.effect
        self._approval = (own and own.approval) or settings.approval
        self._timeout = settings.timeout_seconds
        self._start = settings.start_seconds
        self.held: str | None = None
        """Why the model is not offered it although its server is there."""

    @property
    def effect(self) -> ToolEffect:
        """As the settings say."""
        return self._effect

    @property
    def needs_approval(self) -> bool:
        """As the settings say; each call, where they say nothing."""
        return self._approval == "always"

    @property
    def timeout_seconds(self) -> float:
        """As the settings say."""
        return self._timeout

    @property
    def outside(self) -> bool:
        """A server's words are those of others: the model is given them as quotes."""
        return True

    @property
    def withheld(self) -> str | None:
        """Why the model is not offered it now."""
        return self._connection.absence if self._connection.client is None else self.held

    async def run(self, arguments: str, context: ToolContext) -> str:
        """Call it at its server.

        Raises:
            InputNeeded: the server asks the person first.
            ToolFailure: the server says that it failed.
            NoOutcome: the server did not answer, or was not there.
        """
        resumed = self._resumed(context)
        if context.elicited is not None:
            await self._until_it_is_there()  # the daemon may just have been started
        if (reason := self.withheld) is not None or (client := self._connection.client) is None:
            raise NoOutcome(reason or self._connection.absence)
        try:
            given = json.loads(arguments or "{}")
        except ValueError as error:
            raise NoOutcome(f"The arguments are not JSON: {error}.") from error
        if not isinstance(given, dict):
            raise NoOutcome("The arguments are not a JSON object.")
        try:
            result = await self._called(client, given, *resumed)
        except MCPError as error:
            reason = self._connection.failed(error)
            if error.code not in _NO_ANSWER:
                raise ToolFailure(f"The server refused the call: {reason}") from error
            raise NoOutcome(
                "The tool server ended during the call, or did not answer it to the end"
                f" ({reason}). It may have done part of its work: check before you call it again."
            ) from error
        except (ValueError, RuntimeError) as error:  # a result that is not as it said it would be
            words = self._connection.cleaned(str(error))[:_ERROR_CHARACTERS]
            raise ToolFailure(f"The server gave no valid result: {words}") from error
        words = self._connection.cleaned(text_of(result))
        if result.is_error:
            raise ToolFailure(words)
        return words

    async def _until_it_is_there(self) -> None:
        with anyio.move_on_after(self._start):
            while self._connection.client is None:  # noqa: ASYNC110 - it tells nobody
                await anyio.sleep(_NOT_YET_SECONDS)

    async def _called(
        self,
        client: Client,
        given: dict[str, Any],
        responses: InputResponses | None,
        request_state: str | None,
    ) -> CallToolResult:
        """The result of a call; until then the person may have to answer, see `elicitation`."""
        while True:
            params = CallToolRequestParams(
                name=self._name,
                arguments=given,
                input_responses=responses,
                request_state=request_state,
            )
            # Not by `call_tool`, which looks whether the result fits the schema that the server has
            # told: a regular expression in that can take as long as the server likes.
            result = await client.session.send_request(CallToolRequest(params=params), _RESULT)
            if isinstance(result, CallToolResult):
                return result
            if result.input_requests:
                asked = Elicitation.of(self._connection.name, result)
                question = asked.question()
                if question is None:
                    raise ToolFailure("The server asks for nothing, and does not go on.")
                raise InputNeeded(question, asked.as_json())
            responses, request_state = None, result.request_state
            await anyio.sleep(_NOT_YET_SECONDS)  # it has nothing to ask yet; the call's time bounds

    def _resumed(self, context: ToolContext) -> tuple[InputResponses | None, str | None]:
        """With what a call goes on; nothing for one that begins.

        Raises:
            InputNeeded: there is more to ask before the server can be told.
        """
        if context.elicited is None:
            return None, None
        asked = Elicitation.from_json(context.elicited.kept)
        if context.elicited.answer is not None:
            asked.take(context.elicited.answer)
        question = asked.question()
        if question is not None:
            raise InputNeeded(question, asked.as_json())
        return asked.responses(), asked.request_state


def text_of(result: CallToolResult) -> str:
    """The words of a result; what is no text is named."""
    parts = []
    for block in result.content:
        if isinstance(block, TextContent):
            parts.append(block.text)
        elif isinstance(block, EmbeddedResource):
            parts.append(getattr(block.resource, "text", f"[a file: {block.resource.uri}]"))
        elif isinstance(block, ResourceLink):
            parts.append(f"[{block.name}: {block.uri}]")
        else:
            parts.append(f"[{block.type}, {block.mime_type}: cannot be shown here]")
    if not parts and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(parts)
