"""What models said after they had seen forgotten words, by every way they come to see them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from service.agent.agent import Agent
from service.domain.conversation.messages import Message
from service.domain.forgetting_terms import FORGOTTEN, ForgetPreview, ForgetRequest
from service.tools.decorator import tool
from tests.support.agent.agents import Answer, call, running_agent, sent
from tests.support.agent.heist import forget
from tests.support.agent.moving import message_ids, opened
from tests.support.memory.remembering import WordEmbedder
from tests.support.memory.secrets import archived, traces

pytestmark = pytest.mark.anyio

SECRETS = [
    ("The locker in the cellar opens with 58213.", "What opens the locker?", "58213"),
    ("地窖储物柜的口令是芝麻开门。", "地窖储物柜的口令是什么？", "芝麻开门"),
]


@tool(effect="read_only")
async def jot(text: str) -> str:
    """Write something down."""
    return f"Jotted down: {text}"


def knowing(part: str):  # type: ignore[no-untyped-def]
    """A model that says a secret whenever it can see it."""

    def respond(messages: Sequence[Message]) -> Answer:
        before = "\n".join(f"{each.text}\n{each.notes}" for each in messages)
        last = messages[-1]
        if last.role == "tool":
            return f"I have it: {last.text}" if part in last.text else "Jotted."
        if part not in before.removesuffix(last.text):
            return "I see."
        if "jot" in last.text:
            return [call("jot", f'{{"text": "so {part}"}}')]
        return f"It is {part}, as you told me."

    return respond


async def places_of(agent: Agent, part: str) -> set[tuple[str, int]]:
    """Where a model or a tool says something, by what is remembered."""
    places = set()
    for state in await agent.memory.journal.run_loops.summaries(owner="me"):
        run_loop = (await agent.memory.journal.replay(state.id)).run_loop()
        for index, each in enumerate(run_loop.iterations):
            texts = [each.response, each.reasoning]
            texts += [e.arguments for e in each.tool_calls] + [e.content for e in each.tool_results]
            if any(part in (text or "") for text in texts):
                places.add((state.id, index))
    return places


def named(preview: ForgetPreview) -> set[tuple[str, int | None]]:
    return {(each.run_loop_id, each.iteration) for each in preview.answers}


@pytest.mark.slow
@pytest.mark.parametrize(("secret", "question", "part"), SECRETS)
async def test_whatever_an_agent_did_with_a_secret_is_named_and_goes(
    tmp_path: Path, secret: str, question: str, part: str
) -> None:
    async with running_agent(
        tmp_path, knowing(part), jot, embedder=WordEmbedder(), auto_classify=False
    ) as agent:
        source = await opened(agent, secret)
        await agent.complete(source)
        await archived(agent.memory)
        asked = await opened(agent, question)  # memory gives it the secret
        await sent(agent, "Please jot it down.", asked)
        await sent(agent, "Thank you.", asked)
        fork = await agent.fork(asked)
        await sent(agent, f"{question} Again, please.", fork.id)
        target = await opened(agent, "How do tulips grow?")
        third = (await message_ids(agent, asked))[2]
        await agent.reroute(asked, message_id=third, to=target)
        await sent(agent, "Is that all?", target)
        await agent.complete(asked)
        await archived(agent.memory)
        follow_up = await sent(agent, question, asked)  # opens a loop that takes it up again
        assert follow_up[-1].run_loop_id not in (source, asked)
        for each in (fork.id, target, follow_up[-1].run_loop_id):
            await agent.complete(each)
        await archived(agent.memory)

        telling = await places_of(agent, part)
        assert {loop for loop, _ in telling} >= {asked, fork.id, follow_up[-1].run_loop_id}
        request = ForgetRequest(run_loop_ids=(source,))
        preview = await agent.preview_forgetting(request)
        assert telling - {(source, 0)} <= named(preview)
        await forget(agent, request.model_copy(update={"with_answers": True}))
        assert traces(tmp_path, part) == []
        left = (await agent.memory.journal.replay(asked)).iterations
        assert left[0].user_message == question
        assert left[0].response == FORGOTTEN
    assert traces(tmp_path, part) == []
