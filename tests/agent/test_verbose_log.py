"""The log at debug: what was done, a line each, with the loop's id, and nothing that was said."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from service.domain.conversation.messages import Message
from service.domain.errors import LLMStreamError
from tests.support.agent.agents import Answer, call, running_agent, sent
from tests.support.agent.compacting import is_request
from tests.support.agent.waiting import Launches, rested

pytestmark = pytest.mark.anyio

SECRET = "quagga-4711"
LONG = f"{SECRET} sleeps in the third stable. " * 60


@pytest.mark.slow
async def test_verbose_tells_each_step_and_no_word_that_was_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    launches = Launches()
    failures = [LLMStreamError(f"cut at {SECRET}")]

    def respond(messages: Sequence[Message]) -> Answer:
        if failures:
            return [failures.pop()]
        if is_request(messages):
            return f"In short: {SECRET}"
        if messages[-1].text.startswith("Launch"):
            return [call("launch", f'{{"what": "{SECRET}"}}'), call(f"no\n{'x' * 200}", index=1)]
        return f"{SECRET} is done. {LONG}"

    with caplog.at_level(logging.DEBUG, logger="service"):
        async with running_agent(
            tmp_path, respond, launches.tool(), max_retries=1, recall_tokens=0
        ) as agent:
            loop_id = (await sent(agent, f"Hello {LONG}"))[0].run_loop_id
            await sent(agent, f"Launch {SECRET}", loop_id)
            await agent.answer(loop_id, approved=True, remember="run_loop")
            await rested(agent, loop_id)
            await agent.compact(loop_id)
            await rested(agent, loop_id)
            await agent.cancel(loop_id)
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    step_lines = [line for line in lines if line.startswith(f"run loop {loop_id}: ")]
    for words in (
        "route.decided",
        "step: call_llm",
        "iteration.started 0, sees ",
        "llm.retry attempt 1, again in ",
        "step: request_human_approve",
        "'launch' (c0)",
        ": yes, remembered (run_loop)",
        "tool.started 'launch' (c0)",
        "tool.finished 'launch' (c0), ",
        "step: compact",
        "compaction.requested",
        "compaction.finished ",
        "run_loop.cancelled",
    ):
        assert any(words in line for line in step_lines), (words, step_lines)
    assert not [line for line in lines if SECRET in line or "\n" in line]


async def test_at_info_there_is_none_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="service"):
        async with running_agent(tmp_path) as agent:
            await sent(agent, "Hello")
    assert not [record for record in caplog.records if "run loop" in record.getMessage()]
