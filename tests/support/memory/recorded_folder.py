"""A small data folder with all in it that a journal can hold, and what is told of it.

    python -m tests.support.memory.recorded_folder FOLDER

makes one with the code as it is: the journal, the ledger, and ``told.json``, packed. One that was
made before the form of the journal changed shows that the same is told of it since.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio

from service.agent.agent import Agent
from service.agent.agent_factory import create_agent
from service.agent.agent_options import AgentOptions
from service.domain.anchors import AnchorRef
from service.domain.forgetting_terms import ForgetRequest
from service.domain.history.events import Event
from service.domain.history.human_input import InputRequired
from service.llm.scripted.script_language import parse_script
from service.llm.scripted.scripted_model import ScriptedModel
from service.memory.ledger.notes import NewSentence, NewSentences
from service.memory.ledger.segmenter import segment
from service.memory.memory import Memory
from service.routing.routing_options import RouterOptions
from service.tools.builtins.ask_user import ask_user
from service.tools.builtins.memory_tools import memory_expand_tool, memory_search_tool
from service.tools.builtins.read_result import read_result_tool
from service.tools.decorator import tool
from service.tools.registry import ToolRegistry
from tests.support.memory.exchanging import bring_in, loop, turn
from tests.support.memory.secrets import archived, finished

FILES = ("journal.sqlite3", "memory.sqlite3")
OWNERS = ("me", "li")
QUERIES = {
    "me": ("code of the shed's padlock", "tulips", "hotel by the river", "dentist", "heating"),
    "li": ("仓库的密码", "饺子馆", "北京天气", "花生过敏"),
}
SCRIPT = """
== schema noisy
text: {"continues": "Find a hotel by the river in Lisbon."}
== schema 排队
text: {"continues": "推荐一家饺子馆。"}
== when look it up|查一下
call: memory_search {"query": "QUERY"}
--
text: I have found this: {result}
== when read on|读下去
call: memory_expand {"anchor": "ANCHOR", "before": 2, "after": 2}
--
text: It stood there: {result}
== when send
call: send_letter {"to": "the plumber", "text": "The heating is cold; the code is 4711."}
--
text: {result}
== when which colour|什么颜色
call: ask_user {"question": "Which colour, as of the shed with the code 4711?"}
--
text: You want {result}.
== when inventory
call: inventory {}
--
text: It is long.
== when padlock
think: They have told me the code before: 4711.
text: The code of the shed's padlock is 4711.
== when 密码
think: 这是仓库的密码。
text: 仓库的密码是八八三六，我记住了。
== when break
error: fatal it is broken: the padlock's 4711
== default
text: Very well: {message}
"""


@tool(effect="side_effects", needs_approval=True)
async def send_letter(to: str, text: str) -> str:
    """Send a letter."""
    return f"Sent to {to}: {text}"


@tool(effect="read_only")
async def inventory() -> str:
    """Tell all that is in the shed."""
    return "\n".join(f"{n}: a flowerpot with tulips, and some soil" for n in range(400))


@asynccontextmanager
async def at_work(
    folder: Path,
    *,
    query: str = "",
    anchor: str = "",
    ask_below: float = 0,
    sure_above: float = 0.9,
) -> AsyncIterator[Agent]:
    """An agent of a scripted model, which looks for this and reads on there."""
    script = parse_script(SCRIPT.replace("QUERY", query).replace("ANCHOR", anchor))
    memory = Memory(folder)
    registry = ToolRegistry(
        [
            *(memory_search_tool(memory.long_term), memory_expand_tool(memory.long_term)),
            *(read_result_tool(memory.load), ask_user, send_letter, inventory),
        ]
    )
    options = AgentOptions(
        max_retries=0,
        linger_seconds=86_400,
        router=RouterOptions(sure_above=sure_above, ask_below=ask_below),
    )
    async with create_agent(ScriptedModel(script), registry, memory, options) as agent:
        yield agent


async def say(agent: Agent, words: str, run_loop_id: str | None = None, **more: Any) -> str:
    """Send, and wait until nothing more comes of it; the id of the run loop."""
    events = [event async for event in agent.send(words, run_loop_id, **more)]
    await archived(agent.memory)
    return events[-1].run_loop_id


async def make(folder: Path) -> None:
    """Let two persons live with Rondo for a while."""
    async with at_work(folder) as agent:
        await _begin(agent)
        padlock = await say(
            agent, "My shed has a padlock with the code 4711.", "new", metadata={"place": "Ulm"}
        )
        depot = await say(agent, "我家仓库的密码是八八三六，请记住。", "new", owner="li")
        await agent.complete(padlock)
        await agent.complete(depot, owner="li")
        await archived(agent.memory)
        # What they say brings back what was said.
        again = await say(agent, "What was the code of the shed's padlock?", "new")
        await say(agent, "Thank you. And how do I oil it?", again)
        await say(agent, "我家仓库的密码是多少？", "new", owner="li")
    async with at_work(folder, query="the code of the shed's padlock") as agent:
        looked = await say(agent, "Please look it up for me.", "new")
    async with at_work(folder, query="仓库的密码") as agent:
        await say(agent, "请查一下仓库的密码。", "new", owner="li")
    async with at_work(folder, anchor=f"{padlock}:0.1 {looked}:0.0") as agent:
        await say(agent, "Please read on there.", "new")
    async with at_work(folder, anchor=f"{depot}:0.0") as agent:
        await say(agent, "请读下去。", "new", owner="li")
    async with at_work(folder, ask_below=1) as agent:
        await _be_routed(agent)
    async with at_work(folder, sure_above=0) as agent:
        await say(agent, "And which dentist has time on Monday?")
        await say(agent, "另外，明天北京会下雨吗？", owner="li")
    async with at_work(folder, sure_above=1) as agent:
        await say(agent, "Would it be noisy?")  # the language model judges
        await say(agent, "要排队吗？", owner="li")
        await _fork_and_move(agent, again)
        await _ask_and_compact(agent)
        await _forget_a_part(agent)


async def _begin(agent: Agent) -> None:
    """What came from elsewhere, and a message that is sent twice."""
    turns = (turn("When did we plant the tulips?", "In October, by the shed."),)
    await bring_in(agent.memory, loop("old-garden", *turns, goal="When did we plant the tulips?"))
    chinese = (turn("我对花生过敏。", "好的，以后推荐菜的时候我会避开花生。"),)
    await bring_in(agent.memory, loop("old-food", *chinese, goal="我对花生过敏。"), owner="li")
    for _ in range(2):
        with agent.reader() as reader:
            receipt = await agent.accept(
                "The dentist is on Friday.", idempotency_key="friday", request_hash="1"
            )
            async with aclosing(agent.follow(receipt.message_id, reader=reader)) as events:
                async for _event in events:
                    pass


async def _be_routed(agent: Agent) -> None:
    """Messages without an id: their routes tell goals; of one the person is asked."""
    await say(agent, "Find a hotel by the river in Lisbon.", "new")
    await say(agent, "推荐一家饺子馆。", "new", owner="li")
    await say(agent, "北京明天天气怎么样？", "new", owner="li")
    for words, owner in (("and what does it cost?", "me"), ("那家远吗？", "li")):
        waiting = await say(agent, words, owner=owner)
        [question] = await _open(agent, waiting)
        await agent.answer(waiting, choices=[question.options[0]], owner=owner)
        await archived(agent.memory)
    await say(agent, "and is it quiet?")  # it waits for the person to say where it belongs


async def _open(agent: Agent, run_loop_id: str) -> list[InputRequired]:
    state = agent.memory.short_term.state(run_loop_id)
    return [] if state is None or state.awaiting is None else [state.awaiting]


async def _fork_and_move(agent: Agent, padlock: str) -> None:
    fork = await agent.fork(padlock)
    await say(agent, "Or should I change the padlock?", fork.id)
    other = await agent.fork(fork.id)
    await say(agent, "And its key?", other.id)
    bank = await say(agent, "What is a bank?", "new")
    await say(agent, "The tulips need water. And the padlock some oil.", bank)
    garden = await say(agent, "How do tulips grow?", "new")
    await agent.reroute(bank, to=garden)
    trip = await say(agent, "Is the padlock any good on a bicycle?", "new")
    await agent.reroute(trip, to=garden)
    await agent.undo_reroute(trip)
    await archived(agent.memory)
    await agent.fork(garden)


async def _ask_and_compact(agent: Agent) -> None:
    letter = await say(agent, "Please send a letter to the plumber.", "new")
    await agent.answer(letter, approved=True, remember="always")
    await _until_idle(agent, letter)
    await say(agent, "And send it again.", letter)
    await say(agent, "Show me the inventory.", letter)
    await say(agent, "And the padlock?", letter)
    await agent.compact(letter)
    await _until_idle(agent, letter)
    await say(agent, "Is the heating warm?", letter)
    colour = await say(agent, "In which colour do I paint the shed: which colour?", "new")
    await agent.answer(colour, text="Green, as the padlock.")
    await _until_idle(agent, colour)
    await agent.complete(colour)
    await say(agent, "And for the bench, which colour?", "new")  # waits for the person
    await say(agent, "Now you break.", "new")
    stopped = await say(agent, "The dentist has moved to Monday.", "new")
    await agent.cancel(stopped)
    await archived(agent.memory)


async def _forget_a_part(agent: Agent) -> None:
    """One run loop loses a part of it; notes are left by others."""
    diary = await say(agent, "The first secret is Quixotic.", "new")
    await say(agent, "The second is about heating oil.", diary)
    request = ForgetRequest(anchors=(AnchorRef(diary, 0, 0),))
    preview = await agent.preview_forgetting(request)
    assert preview.confirm is not None, preview.notice
    await finished(agent.memory, await agent.forget(request, preview.confirm))
    notes = agent.memory.long_term.notes
    cited = next(e for e in notes.unread("me", limit=1000) if "4711" in e.segment.content)
    sentence = NewSentence("The shed's padlock opens with 4711.", (cited,))
    notes.write("me", [NewSentences("topic", "shed", (sentence,))], read=[])


async def _until_idle(agent: Agent, run_loop_id: str) -> None:
    with anyio.fail_after(30):
        while (state := agent.memory.short_term.state(run_loop_id)) is None or (
            state.status != "idle"
        ):
            await anyio.sleep(0.01)
    await archived(agent.memory)


# --- what is told of it


async def told_of(memory: Memory) -> dict[str, Any]:
    """What a memory tells: events on the wire, run loops, and what is found and read on."""
    events = await _events(memory)
    ids = dict.fromkeys((event.owner, event.run_loop_id) for event in events)
    loops = {}
    for owner, run_loop_id in ids:
        run_loop = await memory.load(run_loop_id)
        assert run_loop is not None
        loops[run_loop_id] = {
            "whole": run_loop.model_dump(mode="json"),
            "archived": await _archived(memory, run_loop_id, owner),
            "anchors": [each.anchor.text for each in segment(run_loop)],
        }
    return {
        "events": [{"owner": event.owner, **event.wire()} for event in events],
        "run_loops": loops,
        "found": {
            query: await _found(memory, query, owner)
            for owner, queries in QUERIES.items()
            for query in queries
        },
    }


async def _events(memory: Memory) -> list[Event]:
    """All that is journaled, as it is streamed to those who read each run loop from its start."""
    events: list[Event] = []
    for owner in OWNERS:
        for summary in await memory.journal.run_loops.summaries(owner=owner):
            last = (await memory.journal.replay(summary.id)).last_seq
            feed = memory.feed.events(owner=owner, run_loop_id=summary.id, after=0)
            async with aclosing(feed) as streamed:
                async for event in streamed:
                    events.append(event)
                    if event.seq == last:
                        break
    return sorted(events, key=lambda each: each.seq or 0)


async def _archived(memory: Memory, run_loop_id: str, owner: str) -> Any:
    run_loop = await memory.long_term.run_loop(run_loop_id, owner=owner)
    return None if run_loop is None else run_loop.model_dump(mode="json")


async def _found(memory: Memory, query: str, owner: str) -> list[dict[str, Any]]:
    result = await memory.search(query, owner=owner, limit=5)
    hits = []
    for hit in result.hits:
        around = await memory.expand(hit.anchor, owner=owner, before=1, after=1)
        hits.append(
            {
                "anchor": hit.anchor.text,
                "content": hit.content,
                "around": around.model_dump(mode="json"),
            }
        )
    return hits


async def record(folder: Path) -> None:
    """Make one, and keep what is told of it beside it."""
    with tempfile.TemporaryDirectory() as work:
        await make(Path(work))
        async with Memory(work) as memory:
            await archived(memory)
            snapshot = await told_of(memory)
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            with closing(sqlite3.connect(Path(work, name))) as db:
                db.execute("VACUUM INTO ?", (str(Path(work, f"whole-{name}")),))
            _pack(folder / name, Path(work, f"whole-{name}").read_bytes())
    _pack(folder / "told.json", json.dumps(snapshot, ensure_ascii=False).encode())


def _pack(path: Path, content: bytes) -> None:
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content, mtime=0))


def unpack(packed: Path, folder: Path) -> dict[str, Any]:
    """Lay the files of one into a data folder; what was told of it when it was made."""
    for name in FILES:
        (folder / name).write_bytes(gzip.decompress((packed / f"{name}.gz").read_bytes()))
    snapshot: dict[str, Any] = json.loads(gzip.decompress((packed / "told.json.gz").read_bytes()))
    return snapshot


if __name__ == "__main__":
    anyio.run(record, Path(sys.argv[1]))
