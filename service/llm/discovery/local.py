"""The search for servers on this machine: all places at once, and within a second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio

from service.llm.discovery.fetching import Fetched, fetch_json
from service.llm.discovery.listing import read_list
from service.llm.discovery.offers import LocalServer, ModelList
from service.llm.discovery.programs import is_rondo, loaded_window, recognised
from service.llm.discovery.providers import LocalPlace, local_places

if TYPE_CHECKING:
    import httpx2

SECONDS = 1.0
"""How long the whole search takes at most, where nothing else is said."""
_WINDOW_SECONDS = 2.0
_MOST_BYTES = 2 * 2**20
_MOST_CONNECTIONS = 32


async def find_servers(
    places: Sequence[LocalPlace] | None = None, *, seconds: float = SECONDS
) -> list[LocalServer]:
    """The servers that offer models on this machine, in the order of the places.

    What listens there and is something else (it says nothing, sends web pages, redirects, is a
    daemon of Rondo) is left out. No key is sent.

    Args:
        places: where to look; None: at `local_places`.
        seconds: how long it may take; what has answered until then is told.
    """
    places = local_places() if places is None else places
    found: dict[int, LocalServer] = {}
    async with _client(seconds) as client, anyio.create_task_group() as tasks:

        async def look(number: int, place: LocalPlace) -> None:
            with anyio.move_on_after(seconds):
                told = await _list_of(client, place)
                if told is None or await is_rondo(client, place.base_url):
                    return
                # What it tells beyond its list may come too late: then the list alone counts.
                server = _server(place, told)
                if server.offers.models or server.wants_key:
                    found[number] = server
                if not server.wants_key:
                    known = await recognised(client, server, told)
                    # An empty list alone could be of anything at all.
                    if known.offers.models or known.program != server.program:
                        found[number] = known

        for number, place in enumerate(places):
            tasks.start_soon(look, number, place)
    by_address: dict[str, LocalServer] = {}
    for _, server in sorted(found.items()):
        by_address.setdefault(server.base_url, server)  # OLLAMA_HOST may name a usual port
    return list(by_address.values())


async def window_now(base_url: str, model: str) -> int | None:
    """How many tokens a model of Ollama has been loaded with; None where that is not told."""
    async with _client(_WINDOW_SECONDS) as client:
        with anyio.move_on_after(_WINDOW_SECONDS):
            return await loaded_window(client, base_url, model)
    return None


async def _list_of(client: httpx2.AsyncClient, place: LocalPlace) -> Fetched | None:
    """A list of models, or a refusal for want of a key; None where it is neither."""
    import httpx2

    try:
        told = await fetch_json(client, f"{place.base_url}/models", most_bytes=_MOST_BYTES)
    except (httpx2.HTTPError, httpx2.InvalidURL):
        return None
    if told.status == 200:
        return told if read_list(told.body) is not None else None
    # Many programs that are no model servers refuse strangers: those do it with web pages, and
    # Rondo with a problem of its own media type.
    is_refusal = told.status in (401, 403) and told.is_json
    return told if is_refusal and told.media_type == "application/json" else None


def _server(place: LocalPlace, told: Fetched) -> LocalServer:
    name = f"A server (where {place.programs} usually listens)"
    wants_key = told.status != 200
    offers = ModelList() if wants_key else read_list(told.body) or ModelList()
    return LocalServer(name, place.base_url, offers=offers, wants_key=wants_key)


def _client(seconds: float) -> httpx2.AsyncClient:
    """A client for this machine's own services: no proxy of the environment can reach them."""
    import httpx2

    return httpx2.AsyncClient(
        trust_env=False,
        follow_redirects=False,
        timeout=seconds,
        limits=httpx2.Limits(max_connections=_MOST_CONNECTIONS, max_keepalive_connections=0),
    )
