"""Fixtures that all tests share."""

from __future__ import annotations

import signal
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

from service.domain.text import well_formed
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder

# How long an example takes depends on what else the machine does, and is no test's verdict.
settings.register_profile("rondo", deadline=None)
settings.load_profile("rondo")


def pytest_configure() -> None:
    # In the background of a script, Ctrl-C is ignored, by us and by all that we start; some tests
    # are about what it does.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def bundled() -> SentenceTransformerEmbedder:
    """The bundled model, loaded once for all tests: importing torch takes seconds."""
    return SentenceTransformerEmbedder("bundled:multilingual-e5-small", quick_start=False)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """What a worker tells of a test: half characters, which some tests are about, are replaced.

    The pipe between the workers takes valid Unicode only.
    """
    return _well_formed((yield))


def _well_formed(value: Any) -> Any:
    match value:
        case str():
            return well_formed(value)
        case dict():
            return {_well_formed(key): _well_formed(each) for key, each in value.items()}
        case list() | tuple():
            return type(value)(map(_well_formed, value))
    return value
