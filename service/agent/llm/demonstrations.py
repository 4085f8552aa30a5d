"""Examples that show a small model how to answer with actions.

Put before a conversation as turns of it. Without them Qwen2.5-Coder-0.5B chose the right action in
14 of 27 messages (English and Chinese). With them, 20 of 24 whole conversations of our own held the
word that was looked for; asked about what it was never told, it invented an answer. Wording, order
and mix of languages were chosen by trials on these same messages, so that others will go worse; a
small change of order changes answers, and wants a new trial. An example is shown only where its
tool is offered.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A message, what to do about it, and perhaps how it goes on."""

    said: str
    reply: str = ""
    """The reply; with a tool, the one after its result (or empty: the example ends before)."""
    tool: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    result: str = ""


_ALL = (
    Demonstration("Good evening", "Good evening! How can I help you?"),
    Demonstration(
        "6.5*8 = ?",
        "6.5 × 8 = 52.",
        tool="calculator",
        arguments=(("expression", "6.5*8"),),
        result="52",
    ),
    Demonstration(
        "What time is it in Paris?",
        tool="current_time",
        arguments=(("timezone", "Europe/Paris"),),
    ),
    Demonstration(
        "How can you help me?",
        "I can chat, write, remember what you tell me, and use my tools for you.",
    ),
    Demonstration(
        "现在纽约几点？",
        "纽约现在是 9:30。",
        tool="current_time",
        arguments=(("timezone", "纽约"),),
        result="Sunday, 2025-03-02 09:30:00 (UTC-05:00, America/New_York)",
    ),
    Demonstration(
        "What date is it today?",
        "Today is Sunday, 2 March 2025.",
        tool="current_time",
        arguments=(("timezone", "local"),),
        result="Sunday, 2025-03-02 15:30:00 (UTC+01:00, local time)",
    ),
    Demonstration("Help me plan a birthday party.", "Gladly! How many guests will come, and when?"),
    Demonstration(
        "[You remember this from earlier conversations, word for word, each with its anchor. It may"
        " or may not matter here:\n- 05kq2w7d9f3hsx1m:0.0, Monday, 2025-03-03, the person said: My"
        " bike is a red Brompton, I keep it in the cellar.\n- 05kq2w7d9f3hsx1m:0.1, Monday,"
        " 2025-03-03, you answered: Noted.]\n\nWhere do I keep my bike?",
        "You keep your bike in the cellar.",
    ),
    Demonstration("Who wrote Hamlet?", "William Shakespeare wrote Hamlet."),
    Demonstration(
        "What happened in the elections today?",
        tool="web_search",
        arguments=(("query", "election results today"),),
    ),
    Demonstration(
        "My colleague Mia moved to Rome and plays the violin.",
        "Thank you, I have noted that your colleague Mia moved to Rome and plays the violin.",
    ),
    Demonstration("我在银行工作，每天八点上班。", "好的，我记住了：您在银行工作，每天八点上班。"),
    Demonstration(
        "[You remember this from earlier conversations, word for word, each with its anchor. It may"
        " or may not matter here:\n- 05m8y4c6b2zvtp0r:0.0, Tuesday, 2025-03-04, the person said:"
        " 我老婆的生日是五月六号，她喜欢百合花。]\n\n我老婆喜欢什么花？",
        "您太太喜欢百合花。",
    ),
    Demonstration("晚上好", "晚上好！有什么可以帮您？"),
    Demonstration(
        "What did I say about my garden?",
        "You said that you planted tomatoes in your garden.",
        tool="memory_search",
        arguments=(("query", "garden"),),
        result="Found in memory, best first.\n\n[05jz7a3n8e1rkw5g:0.0] 2025-02-11 18:20,"
        " user_message\nI planted tomatoes in the garden.",
    ),
    Demonstration(
        "我上次说我的车停在哪里？",
        "我没有找到您说过的停车位置。",
        tool="memory_search",
        arguments=(("query", "我的车停在哪里"),),
        result="Nothing was found in memory.",
    ),
    Demonstration(
        "When is my meeting with Tom? I told you.",
        "I found nothing about a meeting with Tom. When is it?",
        tool="memory_search",
        arguments=(("query", "meeting with Tom"),),
        result="Nothing was found in memory for 'meeting with Tom'.",
    ),
)


def demonstrations(tools: Collection[str]) -> list[Demonstration]:
    """The examples for a model that is offered these tools."""
    return [example for example in _ALL if not example.tool or example.tool in tools]
