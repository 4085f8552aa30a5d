"""The router knows that a loop waits, and for what: answers get there, all else goes elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.tools.builtins.ask_user import ask_user, choose
from tests.support.agent.agents import Respond, answer_of, running_agent, sent
from tests.support.agent.waiting import Launches, asked, launch_call, rested, tool_call, wanting

pytestmark = pytest.mark.anyio

CITY = wanting(tool_call("ask_user", question="Which city do you want the weather for?"))
NAME = wanting(tool_call("ask_user", question="请问您叫什么名字？"))
WHOSE_NAME = wanting(tool_call("ask_user", question="请问用什么名字预订？"))
WHAT_TIME = wanting(tool_call("ask_user", question="几点叫您起床？"))
SEAT = wanting(tool_call("choose", question="要哪种座位？", options=["一等座", "二等座", "商务座"]))
UNRELATED = (
    "外卖到了没",
    "地铁几点停运",
    "今天星期几",
    "我的快递到哪了",
    "附近有药店吗",
    "明天要带伞吗",
    "查一下我的余额",
    "我的包裹在哪里",
)
DRINK = wanting(tool_call("choose", question="What to drink?", options=["tea", "coffee", "milk"]))


@pytest.mark.parametrize(
    ("words", "belongs"),
    [
        ("Oslo", True),
        ("the one where my sister lives", True),
        ("never mind", True),
        ("Do the backup", False),
        ("What is my bank PIN?", False),
        ("let me choose a drink", False),
        ("帮我订一张票", False),
    ],
)
async def test_an_answer_reaches_the_loop_that_asked_and_nothing_else_does(
    tmp_path: Path, words: str, belongs: bool
) -> None:
    async with running_agent(tmp_path, CITY, ask_user) as agent:
        loop_id = await asked(agent, "What will the weather be like?")
        events = await sent(agent, words)
        assert (events[-1].run_loop_id == loop_id) is belongs
        if belongs:
            assert answer_of(events) == f"Results: {words}"


@pytest.mark.parametrize(("words", "belongs"), [("小明", True), ("珠穆朗玛峰有多高？", False)])
async def test_chinese_answers_reach_the_loop_that_asked(
    tmp_path: Path, words: str, belongs: bool
) -> None:
    async with running_agent(tmp_path, NAME, ask_user) as agent:
        loop_id = await asked(agent, "帮我写一封求职信")
        assert ((await sent(agent, words))[-1].run_loop_id == loop_id) is belongs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("respond", "topic"),
    [
        (WHOSE_NAME, "帮我订一间酒店"),
        (WHAT_TIME, "明天早上叫醒我"),
        (SEAT, "买一张去上海的高铁票"),
        (CITY, "What will the weather be like?"),
    ],
)
async def test_a_short_chinese_topic_is_not_swallowed_as_the_answer(
    tmp_path: Path, respond: Respond, topic: str
) -> None:
    taken = []
    async with running_agent(tmp_path, respond, ask_user, choose) as agent:
        for number, words in enumerate(UNRELATED):
            owner = f"person {number}"
            loop_id = await asked(agent, topic, owner=owner)
            if (await sent(agent, words, owner=owner))[-1].run_loop_id == loop_id:
                taken.append(words)
    assert taken == []


@pytest.mark.parametrize(
    ("respond", "topic", "words"),
    [
        (WHOSE_NAME, "帮我订一间酒店", "郑成功"),
        (WHOSE_NAME, "帮我订一间酒店", "写我太太的名字"),
        (WHAT_TIME, "明天早上叫醒我", "七点十分"),
        (WHAT_TIME, "明天早上叫醒我", "几点都行"),
        (SEAT, "买一张去上海的高铁票", "二等的吧"),
        (SEAT, "买一张去上海的高铁票", "都不要"),
        (CITY, "What will the weather be like?", "maybe Oslo?"),
        (CITY, "What will the weather be like?", "杭州"),
    ],
)
async def test_a_short_answer_is_taken_beside_that(
    tmp_path: Path, respond: Respond, topic: str, words: str
) -> None:
    async with running_agent(tmp_path, respond, ask_user, choose) as agent:
        loop_id = await asked(agent, topic)
        assert (await sent(agent, words))[-1].run_loop_id == loop_id


@pytest.mark.parametrize(("words", "belongs"), [("the second", True), ("How far is Mars?", False)])
async def test_a_choice_reaches_the_loop_that_asked(
    tmp_path: Path, words: str, belongs: bool
) -> None:
    async with running_agent(tmp_path, DRINK, choose) as agent:
        loop_id = await asked(agent, "Order something")
        events = await sent(agent, words)
        assert (events[-1].run_loop_id == loop_id) is belongs
        if belongs:
            assert answer_of(events) == "Results: coffee"


async def test_another_topic_leaves_what_is_to_be_allowed_open(tmp_path: Path) -> None:
    launches = Launches()
    async with running_agent(tmp_path, wanting(launch_call("rocket")), launches.tool()) as agent:
        loop_id = await asked(agent)
        other = await sent(agent, "Translate 'good night' into French")
        assert other[-1].run_loop_id != loop_id
        assert launches.launched == []
        await agent.answer(loop_id, approved=True)
        await rested(agent, loop_id)
        assert launches.launched == ["rocket"]
