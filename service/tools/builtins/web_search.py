"""Searching the web through Tavily (https://docs.tavily.com), with the person's own key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import anyio.to_thread
from pydantic import BaseModel, Field, SecretStr, ValidationError

from service.domain.text import in_one_line
from service.tools.decorator import FunctionTool, tool
from service.tools.protocol import ToolFailure

if TYPE_CHECKING:
    from tavily import AsyncTavilyClient

_MOST_RESULTS = 10
_LONGEST_DATE = 80
_LONGEST_CONTENT = 1_500  # characters of one result


class _Page(BaseModel):
    title: str = ""
    url: str
    content: str = ""
    published_date: str | None = None


class _Answer(BaseModel):
    results: tuple[_Page, ...]


def web_search_tool(
    key: SecretStr, *, api_base_url: str | None = None, timeout_seconds: float = 20
) -> FunctionTool:
    """The `web_search` tool.

    Args:
        key: the key of the Tavily account.
        api_base_url: another address of the service; None for Tavily's own.
        timeout_seconds: how long the service may take.
    """

    @tool(effect="read_only", timeout_seconds=timeout_seconds + 10, outside=True)
    async def web_search(
        query: Annotated[str, Field(min_length=1, description="What to look for, in a few words.")],
        max_results: Annotated[int, Field(ge=1, le=_MOST_RESULTS)] = 5,
    ) -> str:
        """Search the web for what is recent, or not known for certain.

        Gives title, address, date where it is known, and an excerpt of each page.
        """
        client = await anyio.to_thread.run_sync(_client, key, api_base_url)
        try:
            answer = await _ask(client, query, max_results, timeout_seconds)
        finally:
            with anyio.CancelScope(shield=True):
                await client.close()
        return _in_words(query, answer)

    return web_search


def _client(key: SecretStr, api_base_url: str | None) -> AsyncTavilyClient:
    from tavily import AsyncTavilyClient  # 0.2 s: in a worker thread, and only when it is used

    return AsyncTavilyClient(api_key=key.get_secret_value(), api_base_url=api_base_url)


async def _ask(
    client: AsyncTavilyClient, query: str, max_results: int, timeout_seconds: float
) -> _Answer:
    import httpx
    from tavily import errors

    try:
        response: Mapping[str, object] = await client.search(
            query, max_results=max_results, timeout=timeout_seconds
        )
        return _Answer.model_validate(response)
    except errors.InvalidAPIKeyError as error:
        raise ToolFailure(
            "The web cannot be searched: Tavily refuses the key. "
            "Tell the user to correct TAVILY_API_KEY, and go on without the web."
        ) from error
    except errors.UsageLimitExceededError as error:
        raise ToolFailure(
            f"Tavily takes no more searches for now{_because(error)}. "
            "Wait before you search again, or go on without the web."
        ) from error
    except errors.ForbiddenError as error:
        raise ToolFailure(
            f"Tavily does not allow this search{_because(error)}. The limit of the plan may be "
            "reached: tell the user, and go on without the web."
        ) from error
    except errors.BadRequestError as error:
        raise ToolFailure(
            f"Tavily cannot use this query{_because(error)}. Ask in other, fewer words."
        ) from error
    except errors.TimeoutError as error:
        raise ToolFailure(
            f"The web search gave no answer within {timeout_seconds:g} seconds. "
            "Try once more, or go on without the web."
        ) from error
    except httpx.HTTPStatusError as error:
        raise ToolFailure(
            f"Tavily failed with HTTP status {error.response.status_code}. "
            "Try again later, or go on without the web."
        ) from error
    except httpx.RequestError as error:
        raise ToolFailure(
            f"Tavily cannot be reached ({type(error).__name__}{_because(error)}). "
            "Tell the user to check the network, and go on without the web."
        ) from error
    except (ValidationError, ValueError) as error:  # no JSON, or not in the form that is documented
        raise ToolFailure(
            "Tavily's answer cannot be read. Try again later, or go on without the web."
        ) from error


def _because(error: Exception) -> str:
    reason = str(error).strip().rstrip(".")
    return f": {reason[:300]}" if reason else ""


def _in_words(query: str, answer: _Answer) -> str:
    if not answer.results:
        return f"The web search for {query!r} found nothing. Try other words."
    pages = (
        f"{number}. {in_one_line(page.title) or page.url}\n{in_one_line(page.url)}{_dated(page)}\n"
        f"{_shortened(page.content)}"
        for number, page in enumerate(answer.results, start=1)
    )
    return "Found on the web:\n\n" + "\n\n".join(pages)


def _dated(page: _Page) -> str:
    written = in_one_line(page.published_date or "")[:_LONGEST_DATE]
    return f"\nPublished: {written}" if written else ""


def _shortened(content: str) -> str:
    text = content.strip()
    return text if len(text) <= _LONGEST_CONTENT else text[:_LONGEST_CONTENT] + "…"
