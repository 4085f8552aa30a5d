"""Over HTTP: the router is calibrated by what was corrected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.agent.agent_options import AgentOptions
from service.routing.calibration.recalibration import FILE
from service.routing.routing_model import shipped
from service.tuning import CALIBRATION_LEAST_CORRECTIONS
from tests.support.server.http_daemon import running

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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("reset", ["false", "true", 0, 1, 1.0, None, [], "yes"])
async def test_only_true_and_false_say_whether_to_reset(tmp_path: Path, reset: object) -> None:
    in_use = {"temperature": 2.0, "new_offset": 3.0, "model": shipped().version}
    folder = tmp_path / "calibrated"
    folder.mkdir(mode=0o700)
    (folder / FILE).write_text(json.dumps(in_use))
    async with running(folder) as house:
        refused = await house.client.post(PATH, json={"reset": reset})
        assert refused.status_code == 422
        assert "reset" in refused.text
        assert (await house.client.get(PATH)).json()["new_offset"] == 3
        kept = await house.client.post(PATH, json={"reset": False})
        assert (kept.status_code, kept.json()["changed"]) == (200, False)
        assert (folder / FILE).exists()
