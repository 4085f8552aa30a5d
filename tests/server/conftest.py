"""A daemon that tests share which leave nothing behind."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.server.http_daemon import House, running


@pytest.fixture(scope="package")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with running(tmp_path_factory.mktemp("house"), max_body_bytes=200_000) as shared:
        yield shared
