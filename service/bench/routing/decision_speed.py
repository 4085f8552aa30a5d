"""How long a decision among many active loops takes, beside the embedding of the message alone.

The loops are made up: so many topics at once, half English, half Chinese.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from service.bench.parameters import BenchmarkError
from service.bench.routing.router_methods import TimedEmbedder, Warm
from service.bench.routing.routing_dataset import Said
from service.bench.routing.routing_figures import times
from service.bench.routing.teacher_forcing import ActiveLoops
from service.routing.router import Router

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
TURNS = 8
"""Of each topic, the person's and the assistant's together."""
_SECONDS_BETWEEN = 4.0

_ENGLISH = (
    "the violin lesson",
    "the plumber's invoice",
    "our weekend in Lisbon",
    "the bicycle with the broken gear",
    "grandmother's birthday dinner",
    "the passport that runs out in May",
    "the slides for Thursday's review",
    "the leaking garden hose",
    "the dentist's appointment",
    "the piano that is out of tune",
)
_CHINESE = (
    "周末去杭州的火车票",
    "小提琴课的时间",
    "厨房漏水的水管",
    "下个月的房租发票",
    "妈妈的生日蛋糕",
    "公司年会的节目单",
    "坏掉的自行车",
    "护照续签的材料",
    "周四汇报的幻灯片",
    "牙医的预约",
)
_ASKED = (
    (
        "Could you help me with {}?",
        "What would {} cost me in all?",
        "And when could {} be done at the earliest?",
        "Please make a note about {} for next week.",
        "Is there anything about {} that I have forgotten?",
        "My sister asked about {} again, what shall I tell her?",
    ),
    (
        "请帮我处理一下{}。",
        "{}一共要花多少钱？",
        "那{}最早什么时候能办好？",
        "帮我记一下，下周要跟进{}。",
        "关于{}，我还有什么忘了的吗？",
        "我姐姐又问起{}了，我该怎么回答她？",
    ),
)
_SAID = (
    (
        "Of course. For {} I would need the date and the number of people first.",
        "I have looked into {}: there are two ways, and the second one is cheaper.",
        "Done. Everything about {} is in the list now, with the day and the price.",
        "As far as I can see, nothing is left open about {}.",
    ),
    (
        "好的。关于{}，请先告诉我日期和人数。",
        "我查过{}了：有两个办法，第二个便宜一些。",
        "办好了。{}的日期和价格都记在清单里了。",
        "关于{}，目前没有别的要办的了。",
    ),
)
MESSAGES = 80
WARM_UP = 8
"""Messages before those, which do not count."""
MOST_LOOPS = 110
"""More made-up topics than these would not all be active within fifteen minutes."""


def conversations(loops: int) -> Iterator[Said]:
    """What was said in so many topics, in turn, the person first."""
    for turn in range(TURNS):
        for loop in range(loops):
            language, subject = _topic(loop)
            role, words = ("user", _ASKED) if turn % 2 == 0 else ("assistant", _SAID)
            sentences = words[language]
            place = turn * loops + loop
            yield Said.model_validate(
                {
                    "id": f"said-{place}",
                    "text": sentences[turn // 2 % len(sentences)].format(subject),
                    "at": START + timedelta(seconds=place * _SECONDS_BETWEEN),
                    "thread": f"topic-{loop}",
                    "role": role,
                }
            )


def messages(loops: int, count: int, seed: int) -> Iterator[str]:
    """So many messages about these topics, each different from all that was said."""
    drawn = random.Random(seed)
    for number in range(count):
        language, subject = _topic(drawn.randrange(loops))
        sentence = drawn.choice(_ASKED[language]).format(subject)
        amount = f" ({number + 1} €)" if language == 0 else f"（{number + 1}欧元）"
        yield sentence + amount


def _topic(loop: int) -> tuple[int, str]:
    language = loop % 2
    subjects = (_ENGLISH, _CHINESE)[language]
    number, again = loop // 2 % len(subjects), loop // (2 * len(subjects))
    return language, subjects[number] + (f" {again + 1}" if again else "")


def check(loops: int) -> None:
    """See that so many made-up loops can be active at once.

    Raises:
        BenchmarkError: they cannot.
    """
    if loops > MOST_LOOPS:
        raise BenchmarkError(
            f"{loops} made-up loops would not all be active at once",
            advice=f"Measure {MOST_LOOPS} at most.",
        )


async def measure(
    router: Router, warm: Warm, embedder: TimedEmbedder, *, loops: int, seed: int
) -> dict[str, Any]:
    """Decide on made-up messages among `loops` active loops of several turns.

    The turns' vectors are known beforehand, as the daemon has them; the message's never is. Every
    other message is embedded alone first, the others afterwards.

    Returns:
        ``messages``, ``loops``, and ``turns``, how many were said in each; and what
        `routing_figures.times` gives.
    """
    held = ActiveLoops("speed")
    said = list(conversations(loops))
    for each in said:
        held.hear(each)
    now = said[-1].at + timedelta(seconds=5)
    active = held.at(now)
    await warm(active)
    taken: list[tuple[float, float | None]] = []
    for number, text in enumerate(messages(loops, WARM_UP + MESSAGES, seed)):
        baseline = await embedder.bare_ms(text) if number % 2 else None
        begun = time.perf_counter()
        await router.route(text, active=active, now=now)
        subject = (time.perf_counter() - begun) * 1000
        if not number % 2:
            baseline = await embedder.bare_ms(text)
        taken.append((subject, baseline))
    counted = taken[WARM_UP:]
    return {"loops": len(active), "turns": TURNS, "messages": len(counted), **times(counted)}
