"""What is said by reflex, and that a model is asked once more then, and only then."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import pytest

from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import StreamPart, TextDelta, TokenUsage
from service.domain.errors import LLMStreamError
from service.llm.embedded.small_answer import answered, is_echo, is_refusal, may_become_reflex

pytestmark = pytest.mark.anyio

PAGE = " ".join(f"word{number}" for number in range(60))
STOCK = "I'm sorry, but I can't assist with that."


class Answering:
    """A model that gives these answers in turn, a few characters at a time."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, messages: Sequence[Message]) -> AsyncGenerator[StreamPart]:
        self.asked.append(messages[-1].model_dump_json())
        answer = self.answers.pop(0)
        for at in range(0, len(answer), 3):
            yield TextDelta(answer[at : at + 3])
        if not answer and messages[-1].role == "assistant":  # as a real one ends
            raise LLMStreamError("m gave neither words nor a tool call")
        yield TokenUsage("m", 1, 1)


async def said(model: Answering, words: str) -> tuple[str, int]:
    parts = [part async for part in answered(model, [Message.user(words)], to=words)]
    text = "".join(part.text for part in parts if isinstance(part, TextDelta))
    return text, sum(isinstance(part, TokenUsage) for part in parts)


@pytest.mark.parametrize(
    ("stock", "words", "wish"),
    [
        (STOCK, "I am a nurse in Tartu.", "(Answer as a good friend would.)"),
        ("I apologize, but I cannot help with that.", "I'm pregnant.", "(Answer as a good friend"),
        ("对不起，我无法回答这个问题。", "我是护士。", "（请像好朋友一样回答。）"),
    ],
)
async def test_who_refuses_by_reflex_is_asked_once_more(stock: str, words: str, wish: str) -> None:
    model = Answering(stock, "How nice!")
    assert await said(model, words) == ("How nice!", 1)
    assert wish not in model.asked[0]
    assert wish in model.asked[1]


async def test_who_refuses_again_has_refused() -> None:
    model = Answering(STOCK, STOCK)
    assert await said(model, "How do I steal a car?") == (STOCK, 1)
    assert not model.answers


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry to hear that you had a bad day.",
        "I'm sorry, but I can't",
        "我不能帮助您偷车。",
        "Yes.",
        "",
    ],
)
async def test_any_other_answer_comes_as_it_is(answer: str) -> None:
    model = Answering(answer)
    assert await said(model, "Hello") == (answer, 1)


def test_what_is_held_back_ends_with_the_first_other_word() -> None:
    for end in range(1, len(STOCK)):
        assert may_become_reflex(STOCK[:end], "Hello")
        assert not is_refusal(STOCK[:end])
        assert not may_become_reflex(f"{STOCK[:end]}~", "Hello")


BEGINNING = "You told me: “I am a vegetarian.” So"


async def said_from(model: Answering, begun: str, words: str = "Is it for me?") -> str:
    conversation = [Message.user(words), Message.assistant(begun)]
    parts = [part async for part in answered(model, conversation, to=words)]
    return "".join(part.text for part in parts if isinstance(part, TextDelta))


async def test_an_answer_that_has_a_beginning_is_told_with_it() -> None:
    model = Answering(", no: there is chicken in it.")
    assert await said_from(model, BEGINNING) == f"{BEGINNING}, no: there is chicken in it."
    assert not model.answers


@pytest.mark.parametrize("nothing", ["", ", I can't help you with that."])
async def test_where_nothing_follows_the_beginning_it_goes_a_step_further(nothing: str) -> None:
    model = Answering(nothing, " that it is not.")
    assert await said_from(model, BEGINNING) == f"{BEGINNING} I think that it is not."
    assert "So I think" in model.asked[1]
    begun = "您告诉过我：“我吃素。”。所以，"
    assert await said_from(Answering("", "不合适。"), begun) == f"{begun}我觉得不合适。"


@pytest.mark.parametrize(
    ("words", "echo"),
    [
        ("My brother Otto has a sailing boat.", "Your brother Otto has a sailing boat."),
        ("我们家在几楼？", "您家在几楼？"),
        ("十岁孩子的生日送什么礼物好？", "十岁孩子的生日送什么礼物好？"),
    ],
)
async def test_who_says_the_message_again_is_asked_once_more(words: str, echo: str) -> None:
    model = Answering(echo, "The fourth, 四楼.")
    assert await said(model, words) == ("The fourth, 四楼.", 1)
    assert is_echo(echo, words)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("Good morning!", "Good morning!"),
        ("My brother Otto has a boat.", "Your brother Otto has a boat. How big is it?"),
        ("我们家在几楼？", "您家在四楼。"),
        (f"Summarise: {PAGE}", PAGE),
    ],
)
async def test_what_says_more_than_the_message_stands(words: str, answer: str) -> None:
    model = Answering(answer)
    assert await said(model, words) == (answer, 1)


def test_what_is_no_echo_is_passed_on_from_its_first_other_words_on() -> None:
    asked = "Where did I say that I live?"
    assert may_become_reflex("", asked)
    assert not may_become_reflex("In Tartu", asked)


async def test_behind_a_tools_result_the_question_may_be_said_again() -> None:
    model = Answering("25 乘以 8 等于 200。")
    conversation = [Message.user("25 乘以 8 等于多少？\n\n(calculator: 200)")]
    parts = [part async for part in answered(model, conversation, to="")]
    assert "".join(each.text for each in parts if isinstance(each, TextDelta)).endswith("200。")
    assert not model.answers
