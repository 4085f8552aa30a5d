"""A daemon with code of its owner's own, by its settings: it works, or says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.daemon import serving, started

pytestmark = pytest.mark.slow

HOUSE = """
from service.loop.hooks.hooks import Hooks
from service.domain.history.events import IterationStarted, MessageCompleted
from service.domain.conversation.messages import Message

class Signs(Hooks):
    async def after_routing(self, entry, route, run_loop_id):
        raise ValueError("a bug of the owner's")

async def answers(instruction, loop):
    index = loop.state.iteration_count
    await loop.emit(IterationStarted(index=index, message_ids=instruction.message_ids))
    words = f"{loop.state.goal}? No model needed."
    await loop.emit(MessageCompleted(message=Message.assistant(words)))
"""


def test_executors_and_hooks_of_the_settings_work_behind_http(tmp_path: Path) -> None:
    (tmp_path / "my_house.py").write_text(HOUSE)
    folder = tmp_path / "home"
    settings = {
        "PYTHONPATH": str(tmp_path),
        "RONDO_AGENT__HOOKS": "my_house:Signs",
        "RONDO_AGENT__EXECUTORS__CALL_LLM": "my_house:answers",
    }
    with serving(folder, settings=settings) as daemon, daemon.client(folder) as client:
        sent = client.post("/v1/send", json={"message": "你好"}).json()
        assert sent["response"] == "你好? No model needed."
        again = client.post(
            "/v1/send", json={"message": "And now?", "run_loop_id": sent["run_loop_id"]}
        )
        assert again.json()["status"] == "idle"
        # The failing hook is told in the loop's own history.
        loops = f"/v1/run-loops/{sent['run_loop_id']}/events?after=0"
        with client.stream("GET", loops) as events:
            for line in events.iter_lines():
                if line.startswith("data:") and "a bug of the owner's" in line:
                    break


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"RONDO_AGENT__HOOKS": "no_house:Signs"}, "needs the module no_house"),
        ({"RONDO_AGENT__EXECUTORS": '{"call_llm": "json:dumps"}'}, "not an async function"),
        ({"RONDO_AGENT__EXECUTORS": '{"call_lm": "json:dumps"}'}, "has no entry call_lm"),
        ({"RONDO_AGENT__BUDGET_COST": "2"}, "llm.prices are not"),
        ({"RONDO_LLM__PRICES__INPUT": "2"}, "`input` and `output` go together"),
    ],
)
def test_settings_that_cannot_work_end_the_start_in_words(
    tmp_path: Path, settings: dict[str, str], words: str
) -> None:
    with started(tmp_path / "home", settings=settings) as process:
        said, complaints = process.communicate(timeout=60)
    assert process.returncode == 1
    assert words in complaints
    assert "Traceback" not in complaints
    assert "ready" not in said
