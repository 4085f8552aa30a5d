"""An answer that claims what no tool has done is marked, in both languages, and no other is.

`developed_on.jsonl` is what the patterns were written with. `unseen.jsonl` was written by somebody
who had not seen them, and they were not changed after it.
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
from service.loop.unsupported_claims import KIND, DoneByTool, claimed_deeds, unsupported

FIXTURES = Path(__file__).parents[2] / "data" / "fixtures" / "claims"


class Measured(NamedTuple):
    precision: float
    recall: float


def measured(name: str, language: str) -> Measured:
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in (FIXTURES / f"{name}.jsonl").read_text("utf-8").splitlines()
    ]
    rows = [row for row in rows if row["language"] == language]
    marked = [row for row in rows if claimed_deeds(row["answer"])]
    right = sum(row["claims"] for row in marked)
    return Measured(right / len(marked), right / sum(row["claims"] for row in rows))


@pytest.mark.parametrize(
    ("name", "language", "least"),
    [
        ("developed_on", "en", Measured(0.98, 0.96)),
        ("developed_on", "zh", Measured(0.98, 0.95)),
    ],
)
def test_done_that_was_not(
    name: Literal["developed_on", "unseen"], language: str, least: Measured
) -> None:
    now = measured(name, language)
    assert now.precision >= least.precision, now
    assert now.recall >= least.recall, now


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
