"""What is remembered and seems to answer a question is marked, where a small model answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder
from tests.support.agent.agents import FunctionLLM, echo, sent
from tests.support.agent.continuations import Turns
from tests.support.agent.recalling import recalled, remembering_agent

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

REMEMBERED: dict[str, Turns] = {
    "lock": (
        ("Please remember: the code of my bike lock is 4817.", "The bike lock's code is 4871."),
    ),
    "locker": (("请记住：我的储物柜号码是 362。", "您的储物柜号码是 632。"),),
    "asked": (("What is the code of my bike lock?", "The code of your bike lock is 4718."),),
    "cat": (("My cat Momo eats only salmon.", "Only salmon for Momo."),),
}


class SizedLLM(FunctionLLM):
    def __init__(self, parameters: float) -> None:
        super().__init__(echo)
        self.parameters = parameters


@pytest.mark.parametrize(
    ("words", "parameters", "answering"),
    [
        ("What is the code of my bike lock?", 5e8, ["lock:0.0"]),
        ("我的储物柜号码是多少？", 5e8, ["locker:0.0"]),
        ("What is the code of my bike lock?", 7e9, []),
        ("How old is Momo?", 5e8, []),
        ("Why does a bike lock have a code?", 5e8, []),
        ("I oiled my bike lock.", 5e8, []),
        ("Thanks a lot!", 5e8, []),
        ("Who painted the ceiling of the Sistine Chapel?", 5e8, []),
        ("谢谢你！", 5e8, []),
        ("相对论是谁提出的？", 5e8, []),
    ],
)
async def test_what_answers_a_question_is_marked(
    tmp_path: Path,
    bundled: SentenceTransformerEmbedder,
    words: str,
    parameters: float,
    answering: list[str],
) -> None:
    async with remembering_agent(tmp_path, SizedLLM(parameters), REMEMBERED, bundled) as agent:
        pieces = recalled(await sent(agent, words))
    assert [each.anchor.text for each in pieces if each.answers] == answering
