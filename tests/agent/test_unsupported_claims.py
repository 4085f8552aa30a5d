"""An answer that claims what no tool has done is marked, in both languages, and few others are.

`data/claims` tells what the model was fitted to, and by whom the other part was written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from service import (
    AgentOptions,
    Memory,
    ScriptedModel,
    ToolRegistry,
    create_agent,
    parse_script,
    tool,
)
from service.domain.history.events import ErrorOccurred
from service.loop.claims.unsupported_claims import KIND, DoneByTool, claimed_deeds, unsupported

DATA = Path(__file__).parents[2] / "data" / "claims"


class Measured(NamedTuple):
    precision: float
    recall: float


def measured(part: Literal["train", "test"], language: str) -> Measured:
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in (DATA / f"{part}.jsonl").read_text("utf-8").splitlines()
    ]
    rows = [row for row in rows if row["language"] == language]
    marked = [row for row in rows if claimed_deeds(row["text"])]
    right = sum(row["claims"] for row in marked)
    return Measured(right / len(marked), right / sum(row["claims"] for row in rows))


@pytest.mark.parametrize(
    ("language", "least"), [("en", Measured(0.82, 0.54)), ("zh", Measured(0.82, 0.46))]
)
def test_done_that_was_not_is_marked_in_answers_that_nothing_was_fitted_to(
    language: str, least: Measured
) -> None:
    now = measured("test", language)
    assert now.precision >= least.precision, now
    assert now.recall >= least.recall, now


def test_no_answer_is_in_both_parts() -> None:
    texts = [
        {json.loads(line)["text"] for line in (DATA / f"{part}.jsonl").open(encoding="utf-8")}
        for part in ("train", "test")
    ]
    assert not texts[0] & texts[1]
    assert all(len(each) >= 300 for each in texts)


def test_a_tool_that_has_done_it_supports_the_claim_and_another_does_not() -> None:
    answer = "I've sent the email to Anna and deleted the old file."
    mail = DoneByTool("send_mail", 'Send an e-mail. {"to": "anna"}')
    remove = DoneByTool("run_script", "Run a script. clean-up.sh --delete")
    assert unsupported(answer, [mail, remove]) is None
    problem = unsupported(answer, [mail])
    assert problem is not None
    assert "deleted" in problem.in_words()
    assert "sent" not in problem.in_words()
    assert unsupported("Done!", [mail]) is None
    assert unsupported("搞定了！", []) is not None
    assert unsupported("", []) is None


def test_long_and_odd_answers_take_no_time_to_speak_of() -> None:
    for answer in ("I have " * 20_000, "已" * 50_000, "```" * 20_000, "“" * 50_000, "a." * 50_000):
        claimed_deeds(answer)


@pytest.mark.anyio
async def test_the_person_is_told_and_nobody_where_the_tool_ran(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(effect="side_effects")
    def send_mail(to: str) -> str:
        """Send an e-mail."""
        sent.append(to)
        return "It is on its way."

    script = """
== when really
call: send_mail {"to": "anna"}
--
text: I've sent the email to Anna.
== default
text: I've sent the email to Anna.
"""
    tools = ToolRegistry()
    tools.register(send_mail)
    options = AgentOptions(auto_classify=False)
    llm = ScriptedModel(parse_script(script))
    async with create_agent(llm, tools, Memory(tmp_path), options) as agent:
        events = [event async for event in agent.send("Tell Anna.", run_loop_id="new")]
        problems = [each.body.problem for each in events if isinstance(each.body, ErrorOccurred)]
        assert [each.kind for each in problems] == [KIND]
        assert "email" not in problems[0].in_words(), "no words that forgetting would have to find"
        events = [event async for event in agent.send("Tell Anna, really.", run_loop_id="new")]
        assert sent == ["anna"]
        assert not [each for each in events if isinstance(each.body, ErrorOccurred)]
