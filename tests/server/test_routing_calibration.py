"""Over HTTP: the router is calibrated by what was corrected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.agent.options import AgentOptions
from service.agent.routing.model import shipped
from service.agent.routing.recalibration import FILE
from service.agent.tuned import CALIBRATION_LEAST_CORRECTIONS
from tests.server.house import running

pytestmark = pytest.mark.anyio

PATH = "/v1/routing/calibrate"


async def test_with_too_little_nothing_changes_and_it_says_so(tmp_path: Path) -> None:
    async with running(tmp_path) as house:
        first = await house.send("Plan a trip to Lisbon")
        second = await house.send("Thanks", run_loop_id=first["run_loop_id"])
        assert second["route"]["method"] == "explicit"
        report = (await house.client.post(PATH)).json()
        assert report["changed"] is False
        assert (report["corrections"], report["needed"]) == (0, CALIBRATION_LEAST_CORRECTIONS)
        assert f"{CALIBRATION_LEAST_CORRECTIONS} are needed" in report["reason"]
        assert (await house.client.get(PATH)).json() == report["in_use"]
        assert report["in_use"]["temperature"] == 1
        assert (await house.client.post(PATH, json={"rest": True})).status_code == 422


async def test_a_calibration_from_before_counts_from_the_start_and_is_told_with_each_route(
    tmp_path: Path,
) -> None:
    in_use = {"temperature": 2.0, "new_offset": 3.0, "model": shipped().version}
    async with running(tmp_path / "plain", options=AgentOptions()) as house:
        await house.send("Plan a trip to Lisbon")
        plain = (await house.send("And the hotels in Lisbon?"))["route"]
    (tmp_path / "calibrated").mkdir(mode=0o700)
    (tmp_path / "calibrated" / FILE).write_text(json.dumps(in_use))
    async with running(tmp_path / "calibrated", options=AgentOptions()) as house:
        await house.send("Plan a trip to Lisbon")
        route = (await house.send("And the hotels in Lisbon?"))["route"]
        assert route["new_probability"] > 0.5 > plain["new_probability"]
        assert route["decision"] == "new"
        assert route["calibration"] == [2.0, 3.0]
        assert plain["calibration"] is None
        assert route["model"] == plain["model"] == shipped().version
        assert (await house.client.get(PATH)).json()["new_offset"] == 3
        assert (await house.client.post(PATH, json={"reset": True})).json()["changed"] is True
        after = (await house.send("And the hotels in Lisbon again?"))["route"]
        assert after["calibration"] is None
        assert not (tmp_path / "calibrated" / FILE).exists()
