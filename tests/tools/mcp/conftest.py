"""One MCP server at an address, for all tests here: to start one takes a second."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.tools.connections import HttpClock


@pytest.fixture(scope="session")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpClock]:
    """A process that answers."""
    with HttpClock(tmp_path_factory.mktemp("server")) as clock:
        yield clock


@pytest.fixture
def server(running_server: HttpClock) -> HttpClock:
    """The server, as it was when it was started."""
    running_server.reset()
    return running_server
