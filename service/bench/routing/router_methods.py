"""The daemon's router for each way of deciding, and what its model was trained on."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any, Literal

from service.bench.routing.bench_embedders import TimedEmbedder
from service.domain.history.state import RunLoopState
from service.llm.protocol import LLM
from service.llm.scripted.script_language import Script
from service.llm.scripted.scripted_model import ScriptedModel
from service.routing.router import Router
from service.routing.routing_options import RouterOptions

Method = Literal["embedding", "llm", "full"]
"""The trained model alone; the language model for every message; both, as the daemon asks them."""

Warm = Callable[[Sequence[RunLoopState]], Awaitable[None]]
"""Waits until the router has read what was said in these loops."""


def options_for(method: Method, options: RouterOptions) -> RouterOptions:
    """How a router decides by a method, where `options` are the daemon's own.

    A person is never asked, and no message is taken apart: each is decided upon by itself.
    """
    options = replace(options, ask_below=0.0, split_matters=False)
    if method == "embedding":
        return replace(options, use_llm=False, sure_above=0.0)
    if method == "llm":
        return replace(options, use_llm=True, sure_above=1.0)
    return options


@asynccontextmanager
async def router_for(
    method: Method, embedder: TimedEmbedder, llm: LLM | None, options: RouterOptions
) -> AsyncGenerator[tuple[Router, Warm]]:
    """A router that nothing was asked of yet.

    `Warm` embeds what was said in loops, as the daemon does once they come to rest.
    """
    llm = llm or ScriptedModel(Script())  # is never asked
    router = Router(llm, embedder.embed, options_for(method, options))
    yield router, router.prepare


@dataclass(frozen=True, slots=True)
class TrainedOn:
    """The router's model, and the sets that it was trained on."""

    version: str
    sets: Sequence[dict[str, Any]]
    """With ``set``, its name, and ``sha256`` of all its files, one after the other."""


def trained_on() -> TrainedOn:
    """What the shipped model says of itself."""
    file = resources.files("service.routing").joinpath("routing_model.json")
    written = json.loads(file.read_text("utf-8"))
    return TrainedOn(written["version"], written["trained_on"])
