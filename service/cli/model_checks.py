"""The checks of `rondo doctor` that look at models: what answers, what embeds, what searches."""

from __future__ import annotations

import time
from importlib import metadata
from typing import Literal

from service.cli.daemon.daemon_client import Daemon
from service.cli.daemon.daemon_errors import DaemonError
from service.cli.daemon.daemon_settings import daemon_settings, differing, section_of
from service.cli.daemon.stream_items import Json, read_as
from service.cli.doctor_checks import Finding
from service.config import LLMSettings, Settings
from service.domain.errors import LLMError, NotFoundError, RondoError
from service.llm.model_descriptions import (
    capabilities,
    embedded_model,
    endpoint,
    endpoint_model,
    model_in_words,
)
from service.wire.memory_bodies import Stats

_SETUP = "`rondo setup` finds the models that answer, and sets one up."
_TINY_ANSWER = 16  # tokens: some endpoints take no less


def check_model(settings: Settings) -> Finding:
    """Whether a model can answer: the endpoint with a tiny call, the embedded one by its file.

    Of a daemon that works with other settings than these: what it says itself.
    """
    effective = daemon_settings(settings)
    if effective is not None and (
        any(
            differing(_shown(settings, name), section_of(effective, name))
            for name in ("llm", "models")
        )
        or effective.model != model_in_words(settings)  # other weights were here when it started
    ):
        return _told_by_the_daemon(settings, effective.model)
    finding = _check(settings, settings.llm)
    others = {name: _check(settings, settings.of_model(name)) for name in settings.models}
    if not others:
        return finding
    # Messages are answered without them, unless one is named.
    broken = [each for each in others.values() if each.verdict == "broken"]
    verdict = "note" if broken and finding.verdict == "ok" else finding.verdict
    words = [finding.words, *(f"{name}: {each.words}" for name, each in others.items())]
    advice = dict.fromkeys(each.advice for each in (finding, *broken) if each.advice)
    return Finding(verdict, "\n".join(words), " ".join(advice))


def _check(settings: Settings, llm: LLMSettings) -> Finding:
    match llm.effective_provider:
        case "embedded":
            return _check_embedded(settings, llm)
        case "openai" | "anthropic":
            return _check_endpoint(settings, llm)
        case "scripted":
            return Finding("note", f"answers come from the script {llm.model}")


def check_embedder(settings: Settings) -> Finding:
    """Whether texts can be embedded. Loads the model, which takes some seconds."""
    from service.memory.embedders import create_embedder
    from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder

    theirs = section_of(daemon_settings(settings), "embedder")
    if theirs and differing(_shown(settings, "embedder"), theirs):
        return _told_by_the_daemon(
            settings, f"{theirs.get('kind')}: {theirs.get('model')}", "memory"
        )
    advice = "Search goes by words alone meanwhile, and routing asks the model."
    began = time.monotonic()
    try:
        embedder = create_embedder(settings)
        if embedder is None:
            return Finding("note", "none (embedder.kind is none)", advice)
        vectors = embedder.embed_queries(["hello"])
    except RondoError as error:
        return Finding("note", f"{error.title}: {error.detail}", f"{error.advice} {advice}")
    seconds = time.monotonic() - began
    words = f"{settings.embedder.model}, {vectors.shape[1]} dimensions, ready in {seconds:.1f} s"
    slow = embedder.settle() if isinstance(embedder, SentenceTransformerEmbedder) else None
    if slow is not None:
        return Finding(
            "note",
            f"{words}, by the slow engine of its wheel: {slow}",
            "All of search works, and embedding takes two to four times as long. Where PyTorch"
            " cannot be imported, `make setup` installs it again.",
        )
    return Finding("ok", words)


def check_vectors(settings: Settings) -> Finding:
    """Whether Chroma can be used, and whether the configured embedder built the index."""
    try:
        import chromadb  # noqa: F401  importing it is the check
    except Exception as error:  # noqa: BLE001 - a broken installation raises anything
        words = f"Chroma cannot be imported: {type(error).__name__}: {error}"
        return Finding("broken", words, "Install again with `make setup`.")
    words = f"Chroma {metadata.version('chromadb')}, {settings.memory.chroma}"
    return _check_index(settings, words)


def _check_index(settings: Settings, words: str) -> Finding:
    """What the daemon tells of the index; without one, nothing more is known."""
    try:
        with Daemon(settings) as daemon:
            stats = read_as(Stats, daemon.get("/v1/memory/stats"))
    except DaemonError:
        return Finding("ok", words)
    if stats.index is not None and stats.index.notice:
        return Finding("note", f"{words}; {stats.index.notice}", "Search goes by words until then.")
    if stats.problem:
        return Finding("note", f"{words}: {stats.problem}", "Search goes by words meanwhile.")
    return Finding("ok", words)


def check_web(settings: Settings) -> Finding:
    """Whether `web_search` is offered, and if not, why."""
    theirs = section_of(daemon_settings(settings), "tools")
    key = theirs.get("tavily_api_key", settings.tools.tavily_api_key.get_secret_value())
    if str(key).strip():
        return Finding("ok", "web_search is offered, with your Tavily key")
    return Finding(
        "note",
        "web_search is not offered: no Tavily key is set",
        "Set TAVILY_API_KEY, and start the daemon again.",
    )


def _shown(settings: Settings, section: str) -> Json:
    shown: Json = settings.shown()[section]
    return shown


def _told_by_the_daemon(
    settings: Settings, what: str, part: Literal["llm", "memory"] = "llm"
) -> Finding:
    """What a daemon that was started with other settings says of a part of itself."""
    with Daemon(settings) as daemon:
        readiness = daemon.readiness()
    state = readiness.llm if part == "llm" else readiness.memory
    return Finding("ok" if state.ready else "note", f"the daemon's: {what} ({state.detail})")


def _check_embedded(settings: Settings, llm: LLMSettings) -> Finding:
    from service.llm.embedded.prompt_states import FOLDER, folder_bytes
    from service.models.catalog import known_model
    from service.models.machine import chosen, read_machine, shortage
    from service.models.weight_store import ModelStore

    name = embedded_model(settings, llm)
    store = ModelStore(settings.models_dir)
    try:
        path = store.path(name)
    except NotFoundError as error:
        return Finding("broken", f"llm.model: {error.detail}", error.advice)
    except OSError as error:
        return Finding("broken", f"{name} cannot be read: {error}", "Correct its permissions.")
    why = "Set by llm.model."
    if not llm.model:
        why = chosen().in_words()
    elif reason := shortage(name, read_machine()):
        why = f"Set by llm.model; {reason}."
    advice = capabilities(settings, llm)
    if path is None:
        how = f"The daemon fetches it when it starts; `rondo models pull {name}` does it now."
        if not llm.model:
            how = f"{how} {store.way_without(name)}".rstrip()
        words = f"{name} is not here, or is not the known file. {why}"
        return Finding("note", words, f"{how} {advice}")
    words = f"{name}, here and verified. {why}"
    if states := folder_bytes(settings.data_dir / FOLDER):
        words += f" {FOLDER}/ takes {states / 1e6:,.1f} MB."
    return Finding("ok", f"{words}\n{known_model(name).description}", advice)


def _check_endpoint(settings: Settings, llm: LLMSettings) -> Finding:
    import anyio

    where = endpoint(llm)
    if llm.api_key_env and not llm.api_key.get_secret_value():
        return Finding(
            "broken",
            f"{where}: llm.api_key_env names {llm.api_key_env}, which is not set here",
            f"Set it in this shell, and where the daemon is started: export {llm.api_key_env}=…"
            f" {_SETUP}",
        )
    began = time.monotonic()
    try:
        anyio.run(_call, settings, llm)
    except LLMError as error:
        advice = f"{error.advice} {_SETUP}"
        return Finding("broken", f"{where}: {error.title}. {error.detail}", advice)
    except RondoError as error:
        return Finding("broken", f"{error.title}: {error.detail}", f"{error.advice} {_SETUP}")
    seconds = time.monotonic() - began
    return Finding("ok", f"{endpoint_model(llm)} at {where} answers, in {seconds:.1f} s")


async def _call(settings: Settings, llm_settings: LLMSettings) -> None:
    """One tiny call. The first thing that streams proves enough."""
    from service.domain.conversation.messages import Message
    from service.llm.factory import create_llm

    llm = create_llm(settings, llm_settings)
    try:
        async for _ in llm.stream((Message.user("Say: ok"),), max_tokens=_TINY_ANSWER):
            return
    finally:
        await llm.aclose()
