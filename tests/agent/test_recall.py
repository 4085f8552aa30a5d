"""Memory is put before the model when a loop begins, and when a person turns to another topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from service.agent.agent import Agent
from service.domain.conversation.messages import Message
from service.domain.conversation.token_estimates import estimate_tokens
from service.domain.errors import StorageError
from service.domain.history.events import Event, Recollection, ToolFinished
from service.memory.embedders.query_cache import QueryCache
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder
from service.memory.protocol import Embedder, Vectors
from service.tools.builtins.memory_tools import memory_search_tool
from tests.support.agent.agents import (
    FunctionLLM,
    answer_of,
    call,
    echo,
    sent,
    types,
)
from tests.support.agent.continuations import (
    REMEMBERED_EN,
    REMEMBERED_ZH,
    SAID_EN,
    SAID_ZH,
    Continuation,
    Turns,
)
from tests.support.agent.recalling import recalled, remembering_agent
from tests.support.memory.remembering import WordEmbedder

pytestmark = pytest.mark.anyio

CAT = ("My cat Momo is allergic to chicken and eats only salmon.", "Only salmon for Momo.")
SHED = ("The code of the padlock on the shed is 4711.", "4711 for the shed.")


def loops_of(pieces: Sequence[Recollection]) -> set[str]:
    return {piece.anchor.run_loop_id for piece in pieces}


async def said_next(agent: Agent, llm: FunctionLLM, said: Continuation) -> list[Event]:
    """Have the conversation, say what comes next; the events of that."""
    loop_id = None
    for question, answer in said.turns:
        llm.respond = lambda messages, answer=answer: answer  # type: ignore[misc]
        events = await sent(agent, question, loop_id)
        loop_id = events[0].run_loop_id
    llm.respond = echo
    return await sent(agent, said.words, loop_id)


# --- with the bundled embedder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("remembered", "said"),
    [(REMEMBERED_EN, SAID_EN), (REMEMBERED_ZH, SAID_ZH)],
    ids=["English", "Chinese"],
)
async def test_another_topic_is_recalled_and_the_same_topic_is_not(
    tmp_path: Path,
    bundled: SentenceTransformerEmbedder,
    remembered: Mapping[str, Turns],
    said: Sequence[Continuation],
) -> None:
    llm = FunctionLLM(echo)
    missed, needless = [], []
    async with remembering_agent(tmp_path, llm, remembered, QueryCache(bundled)) as agent:
        for each in said:
            pieces = recalled(await said_next(agent, llm, each))
            # What is open rests, and is remembered, too: nothing of it fits any better.
            assert await agent.memory.archivist.drain() is None
            if each.about is None or not loops_of(pieces) <= {each.about}:
                needless += [(each.words, piece.content) for piece in pieces]
            if each.about is not None:
                # What was recalled when the loop began stands there already.
                shown = "\n".join(message.notes for message in llm.calls[-1])
                first = remembered[each.about][0][0]
                if first not in shown or f"{each.about}:0.0" not in shown:
                    missed.append(each.words)
    assert missed == []
    assert needless == []


@pytest.mark.slow
async def test_what_memory_knows_nothing_of_recalls_nothing(
    tmp_path: Path, bundled: SentenceTransformerEmbedder
) -> None:
    llm = FunctionLLM(echo)
    remembered = {"cat": (CAT,), "shed": (SHED,), "门": (("小区门禁的密码是 2580#。", "记住了。"),)}
    async with remembering_agent(tmp_path, llm, remembered, QueryCache(bundled)) as agent:
        for words in ("How do vaccines work?", "黑洞是怎么形成的？", "Who painted the Mona Lisa?"):
            assert recalled(await sent(agent, words)) == []
        for words, place in (("What may the cat eat?", "cat"), ("门禁的密码是什么？", "门")):
            assert place in loops_of(recalled(await sent(agent, words)))


# --- by words alone


@pytest.mark.parametrize("embedder", [None, WordEmbedder()], ids=["words", "meaning"])
async def test_a_greeting_recalls_nothing_however_often_it_was_said(
    tmp_path: Path, embedder: Embedder | None
) -> None:
    llm = FunctionLLM(echo)
    hello = {
        "hello": (("Hello, good morning!", "Good morning! What can I do for you?"),),
        "你好": (("你好！早上好！", "你好！有什么可以帮您的？"),),
    }
    async with remembering_agent(tmp_path, llm, hello, embedder) as agent:
        for words in ("Hello!", "Good morning!", "Thanks a lot!", "你好！", "谢谢你！"):
            assert recalled(await sent(agent, words)) == []


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["Where did I park?", "上次的血压是多少"])
async def test_thanks_and_yes_of_other_conversations_are_recalled_to_no_question(
    tmp_path: Path, bundled: Embedder, asked: str
) -> None:
    small = {
        f"r{number}": ((words, "Done."),)
        for number, words in enumerate(("yes please", "ok", "谢谢", "好的", "All right.", "不客气"))
    }
    llm = FunctionLLM(echo)
    async with remembering_agent(tmp_path, llm, small, QueryCache(bundled)) as agent:
        said = [piece.content for piece in recalled(await sent(agent, asked))]
        assert [words for words in said if words in {turn[0][0] for turn in small.values()}] == []


async def test_a_topic_that_comes_up_later_is_recalled_beside_its_words(tmp_path: Path) -> None:
    llm = FunctionLLM(echo)
    async with remembering_agent(tmp_path, llm, {"cat": (CAT,), "shed": (SHED,)}) as agent:
        first = await sent(agent, "Explain regular expressions.")
        assert "memory.recalled" not in types(first)
        same = await sent(agent, "And lookahead expressions?", first[0].run_loop_id)
        assert "memory.recalled" not in types(same)
        other = await sent(agent, "What is the padlock's code?", first[0].run_loop_id)
        assert loops_of(recalled(other)) == {"shed"}
        shown = llm.calls[-1]
        assert "4711" in shown[-1].notes
        assert "shed:0.0" in shown[-1].notes
        assert not any(message.notes for message in shown[1:-1])


@pytest.mark.slow
@pytest.mark.parametrize("embedder", [None, WordEmbedder()], ids=["words", "meaning"])
async def test_a_loop_is_given_none_of_its_own_words_by_recall_but_its_tool_finds_them(
    tmp_path: Path, embedder: Embedder | None
) -> None:
    own = "The code of the padlock on the bicycle is 8093."

    def respond(messages: Sequence[Message]) -> Any:
        if messages[-1].text.startswith("What is"):
            return [call("memory_search", '{"query": "code of the padlock"}')]
        return "All right."

    llm = FunctionLLM(respond)
    async with remembering_agent(tmp_path, llm, {"shed": (SHED,)}, embedder) as agent:
        agent.tools.register(memory_search_tool(agent.memory.long_term))
        loop_id = (await sent(agent, "Explain regular expressions."))[0].run_loop_id
        await sent(agent, own, loop_id)
        assert await agent.memory.archivist.drain() is None
        results = await agent.memory.long_term.search("code of the padlock", owner="me")
        assert {"shed", loop_id} <= {hit.anchor.run_loop_id for hit in results.hits}
        events = await sent(agent, "What is the code of the padlock?", loop_id)
        assert loop_id not in loops_of(recalled(events))
        [result] = [each.body.content for each in events if isinstance(each.body, ToolFinished)]
        assert "[shed:0.0]" in result
        assert f"[{loop_id}:1.0]" in result
        assert f"\n> {own}" in result
        # Another loop is given them.
        elsewhere = await sent(agent, "What is the code of the padlock?")
        [result] = [each.body.content for each in elsewhere if isinstance(each.body, ToolFinished)]
        assert own in result


async def test_nothing_is_recalled_twice_in_a_loop(tmp_path: Path) -> None:
    llm = FunctionLLM(lambda messages: "All right.")
    async with remembering_agent(tmp_path, llm, {"shed": (SHED,)}) as agent:
        first = await sent(agent, "Explain regular expressions.")
        loop_id = first[0].run_loop_id
        assert recalled(await sent(agent, "What is the padlock's code?", loop_id))
        assert not recalled(await sent(agent, "The shed, which number?", loop_id))


async def test_all_recall_of_a_loop_is_bounded(tmp_path: Path) -> None:
    topics = {
        f"m{n}": ((f"The matter of {name}: " + f"{name} is long told here. " * 8, "Noted."),)
        for n, name in enumerate(("zebras", "violins", "glaciers", "orchids", "turbines", "maps"))
    }
    async with remembering_agent(
        tmp_path, FunctionLLM(lambda m: "All right."), topics, recall_tokens=100
    ) as agent:
        first = await sent(agent, "Explain regular expressions.")
        each = []
        for name in ("zebras", "violins", "glaciers", "orchids", "turbines", "maps"):
            pieces = recalled(await sent(agent, f"Tell of {name}", first[0].run_loop_id))
            each.append(sum(estimate_tokens(piece.content) for piece in pieces))
        assert each[0]
        assert max(each) <= 100
        assert sum(each) <= 300
        assert each[-1] == 0


async def test_without_a_budget_nothing_is_recalled(tmp_path: Path) -> None:
    llm = FunctionLLM(echo)
    async with remembering_agent(tmp_path, llm, {"shed": (SHED,)}, recall_tokens=0) as agent:
        first = await sent(agent, "What is the padlock's code?")
        again = await sent(agent, "The padlock's code!", first[0].run_loop_id)
        assert "memory.recalled" not in types([*first, *again])


@pytest.mark.slow
async def test_what_was_said_in_another_loop_just_now_is_recalled(tmp_path: Path) -> None:
    llm = FunctionLLM(echo)
    async with remembering_agent(tmp_path, llm, {}, WordEmbedder()) as agent:
        for number in range(5):  # nothing is awaited between the two
            statement = await sent(agent, f"The code of padlock {number} is 471{number}.")
            asked = await sent(agent, f"What is the code of padlock {number}?")
            assert statement[0].run_loop_id in loops_of(recalled(asked))


async def test_a_word_of_thanks_recalls_no_other_word_of_thanks(tmp_path: Path) -> None:
    topics = {"old": (("How late is it?", "Noon."), ("Thanks!", "You are welcome."))}
    for embedder in (None, WordEmbedder()):
        folder = tmp_path / type(embedder).__name__
        async with remembering_agent(folder, FunctionLLM(echo), topics, embedder) as agent:
            first = await sent(agent, "Explain regular expressions.")
            assert not recalled(await sent(agent, "Thanks!", first[0].run_loop_id))


async def test_a_fork_does_not_recall_what_it_has_copied(tmp_path: Path) -> None:
    llm = FunctionLLM(lambda messages: "All right.")
    async with remembering_agent(tmp_path, llm, {}) as agent:
        first = await sent(agent, "Explain regular expressions.")
        loop_id = first[0].run_loop_id
        await sent(agent, "The code of the padlock on the shed is 4711.", loop_id)
        for number in range(8):
            await sent(agent, f"Explain regular expressions, part {number}.", loop_id)
        fork = await agent.fork(loop_id)
        await agent.complete(loop_id)
        await agent.memory.archivist.drain()
        again = await sent(agent, "What is the padlock's code?", fork.id)
        assert not recalled(again)
        elsewhere = await sent(agent, "What is the padlock's code?")
        assert loops_of(recalled(elsewhere)) in ({loop_id}, {fork.id})  # both hold the words


async def test_memory_that_cannot_be_searched_is_told_and_the_answer_comes(tmp_path: Path) -> None:
    async with remembering_agent(tmp_path, FunctionLLM(echo), {"shed": (SHED,)}) as agent:
        first = await sent(agent, "Explain regular expressions.")

        async def broken(*args: Any, **options: Any) -> Any:
            raise StorageError("the ledger is damaged")

        agent.memory.long_term.search = broken  # type: ignore[method-assign]
        events = await sent(agent, "What is the padlock's code?", first[0].run_loop_id)
        details = [each.body.problem.detail for each in events if each.body.type == "error"]
        assert details == ["the ledger is damaged"]
        assert answer_of(events) == "You said: What is the padlock's code?"


async def test_several_messages_that_land_together_are_one_topic(tmp_path: Path) -> None:
    may_answer = anyio.Event()

    def respond(messages: Sequence[Message]) -> Any:
        return [may_answer, *_said(f"You said: {messages[-1].text}")]

    llm = FunctionLLM(respond)
    async with remembering_agent(tmp_path, llm, {"shed": (SHED,)}) as agent:
        receipt = await agent.accept("Explain regular expressions.")
        delivered = await agent.delivery(receipt.message_id)
        loop_id = getattr(delivered, "run_loop_id", "")
        await agent.accept("By the way,", run_loop_id=loop_id)
        with agent.reader() as reader:
            last = await agent.accept("what is the padlock's code?", run_loop_id=loop_id)
            may_answer.set()
            events = [event async for event in agent.follow(last.message_id, reader=reader)]
        assert loops_of(recalled(events)) == {"shed"}


def _said(text: str) -> list[Any]:
    from service.domain.conversation.stream_parts import TextDelta

    return [TextDelta(text)]


class Counting(WordEmbedder):
    """Remembers which questions it was asked to embed."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[str] = []

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        self.questions += texts
        return super().embed_queries(texts)


async def test_no_words_are_embedded_twice_for_routing_recall_and_search(tmp_path: Path) -> None:
    embedder = Counting()
    memory = {"shed": (SHED,), "cat": (CAT,)}
    async with remembering_agent(
        tmp_path, FunctionLLM(echo), memory, QueryCache(embedder), auto_classify=True
    ) as agent:
        first = await sent(agent, "Explain regular expressions.")
        await sent(agent, "And lookahead expressions?", first[0].run_loop_id)
        await sent(agent, "Explain regular expressions in Python.")
        assert len(embedder.questions) > 4
        assert len(embedder.questions) == len(set(embedder.questions))
