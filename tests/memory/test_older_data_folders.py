"""A data folder that an earlier version has made: the same is told of it."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from service.memory.memory import Memory
from tests.support.memory.recorded_folder import told_of, unpack
from tests.support.memory.secrets import archived

PACKED = Path(__file__).parents[2] / "data" / "fixtures" / "data_folder_before_references"


@pytest.mark.slow
def test_run_loops_anchors_and_what_is_found_stay_as_they_were(tmp_path: Path) -> None:
    told = unpack(PACKED, tmp_path)

    async def live() -> None:
        async with Memory(tmp_path) as memory:
            await archived(memory)
            now = json.loads(json.dumps(await told_of(memory)))
            for part in told:
                assert now[part] == told[part], part
            assert len(told["events"]) > 300
            assert all(told["found"].values())

    anyio.run(live)
