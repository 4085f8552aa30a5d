"""Finding tools of MCP servers where there are too many to be told of at once."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import Field

from service.domain.conversation.tool_definitions import TOOL_SEARCH, ToolDefinition
from service.memory.ledger.terms import STOP_WORDS, query_terms, terms
from service.tools.decorator import FunctionTool, tool
from service.tools.protocol import ToolFailure
from service.tools.registry import ToolRegistry
from service.tuning import TOOL_NAME_WEIGHT, TOOLS_FOUND

_DESCRIPTION_CHARACTERS = 300
_MOST_NAMED = 200
_LONGEST_QUERY = 500
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def tool_search_tool(registry: ToolRegistry, servers: Iterable[str]) -> FunctionTool:
    """The `tool_search` tool: it finds tools that servers have brought.

    What it finds can be called in the same run loop from then on, see
    `service.loop.context.offered_tools`.

    Args:
        registry: has the tools.
        servers: the names of those that bring them.
    """

    @tool(
        name=TOOL_SEARCH,
        effect="read_only",
        description=(
            f"You have more tools than you are shown, of these servers: {', '.join(servers)}."
            " This finds them by what they do. What it finds you can call from your next step on."
        ),
    )
    def tool_search(
        query: Annotated[
            str,
            Field(
                max_length=_LONGEST_QUERY,
                description="Words of what you want to do, or the name of a tool.",
            ),
        ],
    ) -> str:
        brought = [each for each in registry.definitions() if registry.is_brought(each.name)]
        if not brought:
            raise ToolFailure("None of the servers is there now. Go on without their tools.")
        found = best_tools(query, brought)
        if found:
            shown = [
                {"name": each.name, "description": each.description[:_DESCRIPTION_CHARACTERS]}
                for each in found
            ]
            return json.dumps({"found": shown}, ensure_ascii=False)
        names = [each.name for each in brought]
        return json.dumps(
            {
                "found": [],
                "advice": "None has these words. Search again, with words of one of these names.",
                "names": names[:_MOST_NAMED],
                "more": max(0, len(names) - _MOST_NAMED),
            },
            ensure_ascii=False,
        )

    return tool_search


def names_found(content: str) -> tuple[str, ...]:
    """The tools that a result of `tool_search` has found, best first."""
    try:
        return tuple(str(each["name"]) for each in json.loads(content)["found"])
    except (ValueError, KeyError, TypeError):
        return ()  # a failure, or a result that was forgotten


def best_tools(query: str, definitions: Sequence[ToolDefinition]) -> list[ToolDefinition]:
    """The tools whose names and descriptions have most of the words of a query, best first; among
    equals in their order. A rare word counts more (inverse document frequency).

    >>> clock = ToolDefinition(name="c__now", description="The time in a city", parameters={})
    >>> post = ToolDefinition(name="p__send", description="发送邮件", parameters={})
    >>> [best_tools(q, [clock, post])[0].name for q in ("what's the time?", "给妈妈发送邮件")]
    ['c__now', 'p__send']
    """
    wanted = query_terms(query)
    wanted = [term for term in wanted if term not in STOP_WORDS] or wanted
    named = [frozenset(terms(_apart(each.name))) for each in definitions]
    told = [frozenset(terms(each.description)) for each in definitions]
    scores = [0.0] * len(definitions)
    for term in wanted:
        hits = [
            TOOL_NAME_WEIGHT * _has(name, term) + _has(words, term)
            for name, words in zip(named, told, strict=True)
        ]
        weight = math.log(1 + len(definitions) / max(1, sum(hit > 0 for hit in hits)))
        scores = [score + weight * hit for score, hit in zip(scores, hits, strict=True)]
    for index, each in enumerate(definitions):
        scores[index] += math.inf if each.name in query else 0.0
    order = sorted(range(len(definitions)), key=lambda index: -scores[index])
    return [definitions[index] for index in order[:TOOLS_FOUND] if scores[index] > 0]


def _has(words: frozenset[str], term: str) -> bool:
    if term.endswith("*"):
        return any(word.startswith(term[:-1]) for word in words)
    return term in words


def _apart(name: str) -> str:
    """The words of a name, as of ``getTime`` or ``get_time``."""
    return _HUMP.sub(" ", name).replace("_", " ").replace("-", " ")
