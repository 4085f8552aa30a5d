"""The smoke form of the soak: each way to break a connection, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.mcp import WAYS, soak

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_reconnects_leave_no_process_and_no_open_file(tmp_path: Path) -> None:
    summary = await soak(tmp_path, reconnects=len(WAYS), tell=print)
    assert summary.problems == []
    assert summary.reconnects.total() == 2 * len(WAYS)
