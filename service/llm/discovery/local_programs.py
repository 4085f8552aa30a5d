"""The search for model servers on this machine: all places at once, and within a second.

Which program a server is, and what it tells of its models beyond their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio

from service.llm.discovery.listing import Fetched, fetch_json, first_window, read_list
from service.llm.discovery.providers import (
    LocalPlace,
    LocalServer,
    ModelList,
    OfferedModel,
    local_places,
)

if TYPE_CHECKING:
    import httpx2

_MOST_BYTES = 2 * 2**20
_MOST_SHOWN = 60
"""Of how many models Ollama is asked what they can do, each by itself."""

OLLAMA, LLAMA_CPP, LM_STUDIO, KOBOLD = "Ollama", "llama.cpp", "LM Studio", "KoboldCpp"
# What stands under ``owned_by`` in their lists of models.
_OWNERS = {
    "library": OLLAMA,
    "llamacpp": LLAMA_CPP,
    "organization_owner": LM_STUDIO,
    "koboldcpp": KOBOLD,
    "vllm": "vLLM",
    "sglang": "SGLang",
    "humanity": "GPT4All",
    "lmdeploy": "LMDeploy",
}


@dataclass(frozen=True, slots=True)
class _Mark:
    """A request that only one program answers so."""

    program: str
    path: str
    member: str
    """Of the JSON object that it answers with."""


_MARKS = (
    _Mark(OLLAMA, "/api/version", "version"),
    _Mark(KOBOLD, "/api/extra/version", "version"),
    _Mark(LLAMA_CPP, "/props", "default_generation_settings"),
)


def root_of(base_url: str) -> str:
    """Where a server begins: its address without the path of OpenAI's API."""
    return base_url.rstrip("/").removesuffix("/v1")


async def is_rondo(client: httpx2.AsyncClient, base_url: str) -> bool:
    """Whether what answers there is a daemon of our own, or another one of Rondo."""
    parts = urlsplit(base_url)
    answer = await _asked(client, f"{parts.scheme}://{parts.netloc}", "/")
    return isinstance(answer, Mapping) and answer.get("name") == "Rondo"


async def recognised(
    client: httpx2.AsyncClient, server: LocalServer, listing: Fetched
) -> LocalServer:
    """The server with its program's name, and with what that program tells of its models.

    Args:
        client: asks it.
        server: as its list tells of it.
        listing: the list.
    """
    root = root_of(server.base_url)
    program = _owner(listing)
    version = ""
    if program in (None, OLLAMA):
        for mark in _MARKS:
            answer = await _asked(client, root, mark.path)
            if isinstance(answer, Mapping) and mark.member in answer:
                program = mark.program
                version = _short(answer.get("version"))
                break
    server = replace(server, program=program or server.program, version=version)
    match program:
        case "Ollama":
            return replace(server, offers=await _of_ollama(client, root, server.offers))
        case "LM Studio":
            return replace(server, offers=await _of_lm_studio(client, root, server.offers))
        case "llama.cpp":
            return replace(server, offers=await _of_llama_cpp(client, root, server.offers))
    return server


async def loaded_window(client: httpx2.AsyncClient, base_url: str, model: str) -> int | None:
    """How many tokens Ollama has loaded a model with: mostly fewer than the model could take.

    None where that is not told. Of what does not fit, Ollama drops the beginning in silence.
    """
    loaded = await _asked(client, root_of(base_url), "/api/ps")  # docs/api.md of Ollama
    for entry in _entries(loaded, "models"):
        if model in (entry.get("name"), entry.get("model")):
            return first_window(entry, ("context_length",))
    return None


async def _of_ollama(client: httpx2.AsyncClient, root: str, offers: ModelList) -> ModelList:
    """With sizes (``/api/tags``), and with what each can do (``/api/show``)."""
    import anyio

    sizes = {
        str(entry.get("name")): entry
        for entry in _entries(await _asked(client, root, "/api/tags"), "models")
    }
    abilities: dict[str, Sequence[Any]] = {}

    async def show(name: str) -> None:
        details = await _asked(client, root, "/api/show", post={"model": name})
        if isinstance(details, Mapping) and isinstance(details.get("capabilities"), list):
            abilities[name] = details["capabilities"]

    async with anyio.create_task_group() as tasks:
        for model in offers.models[:_MOST_SHOWN]:
            tasks.start_soon(show, model.name)
    models = []
    for model in offers.models:
        can = abilities.get(model.name)
        if can is not None and "completion" not in can:
            continue
        details = sizes.get(model.name, {}).get("details")
        models.append(
            replace(
                model,
                size=first_window(sizes.get(model.name, {}), ("size",)),
                note=_short(details.get("parameter_size")) if isinstance(details, Mapping) else "",
                tools=None if can is None else "tools" in can,
            )
        )
    return ModelList(tuple(models), offers.others + len(offers.models) - len(models))


async def _of_lm_studio(client: httpx2.AsyncClient, root: str, offers: ModelList) -> ModelList:
    """With kinds and windows (https://lmstudio.ai/docs/developer/rest/endpoints)."""
    entries = {
        str(entry.get("id")): entry
        for entry in _entries(await _asked(client, root, "/api/v0/models"), "data")
    }
    models: list[OfferedModel] = []
    for model in offers.models:
        entry = entries.get(model.name, {})
        if entry.get("type") == "embeddings":
            continue
        can = entry.get("capabilities")
        window = first_window(entry, ("loaded_context_length",))
        note = "loaded" if entry.get("state") == "loaded" else ""
        tools = "tool_use" in can if isinstance(can, list) else None
        models.append(replace(model, note=note, tools=tools, context_tokens=window))
    return ModelList(tuple(models), offers.others + len(offers.models) - len(models))


async def _of_llama_cpp(client: httpx2.AsyncClient, root: str, offers: ModelList) -> ModelList:
    """With the window of a slot (``/props``, see tools/server/README.md of llama.cpp)."""
    props = await _asked(client, root, "/props")
    own = props.get("default_generation_settings") if isinstance(props, Mapping) else None
    window = first_window(own, ("n_ctx",)) if isinstance(own, Mapping) else None
    return replace(offers, models=tuple(replace(m, context_tokens=window) for m in offers.models))


def _owner(listing: Fetched) -> str | None:
    """The program that signs its list, or its answers."""
    if listing.headers.get("server", "").lower().startswith("llama.cpp"):
        return LLAMA_CPP
    for entry in _entries(listing.body, "data"):
        if (program := _OWNERS.get(str(entry.get("owned_by")).lower())) is not None:
            return program
    return None


def _entries(body: Any, member: str) -> list[Mapping[str, Any]]:
    entries = body.get(member) if isinstance(body, Mapping) else None
    if not isinstance(entries, list):
        return []
    return [entry for entry in entries if isinstance(entry, Mapping)]


async def _asked(
    client: httpx2.AsyncClient, root: str, path: str, *, post: Mapping[str, Any] | None = None
) -> Any:
    """What a server answers; None where it gives no JSON. What it cannot tell is no failure."""
    import httpx2

    try:
        answer = await fetch_json(client, f"{root}{path}", most_bytes=_MOST_BYTES, post=post)
    except (httpx2.HTTPError, httpx2.InvalidURL):
        return None
    return answer.body if answer.status == 200 else None


def _short(value: object) -> str:
    """A word that a server tells of itself, if it is one."""
    words = value if isinstance(value, str) else ""
    return words if words.isprintable() and len(words) <= 40 else ""


SECONDS = 1.0
"""How long the whole search takes at most, where nothing else is said."""
_WINDOW_SECONDS = 2.0
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
    servers: dict[int, LocalServer] = {}
    async with _client(seconds) as client, anyio.create_task_group() as tasks:

        async def look(number: int, place: LocalPlace) -> None:
            with anyio.move_on_after(seconds):
                listing = await _list_of(client, place)
                if listing is None or await is_rondo(client, place.base_url):
                    return
                # What it tells beyond its list may come too late: then the list alone counts.
                server = _server(place, listing)
                if server.offers.models or server.wants_key:
                    servers[number] = server
                if not server.wants_key:
                    identified = await recognised(client, server, listing)
                    # An empty list alone could be of anything at all.
                    if identified.offers.models or identified.program != server.program:
                        servers[number] = identified

        for number, place in enumerate(places):
            tasks.start_soon(look, number, place)
    by_address: dict[str, LocalServer] = {}
    for _, server in sorted(servers.items()):
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
        answer = await fetch_json(client, f"{place.base_url}/models", most_bytes=_MOST_BYTES)
    except (httpx2.HTTPError, httpx2.InvalidURL):
        return None
    if answer.status == 200:
        return answer if read_list(answer.body) is not None else None
    # Many programs that are no model servers refuse strangers: those do it with web pages, and
    # Rondo with a problem of its own media type.
    is_refusal = answer.status in (401, 403) and answer.is_json
    return answer if is_refusal and answer.media_type == "application/json" else None


def _server(place: LocalPlace, listing: Fetched) -> LocalServer:
    name = f"A server (where {place.programs} usually listens)"
    wants_key = listing.status != 200
    offers = ModelList() if wants_key else read_list(listing.body) or ModelList()
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
