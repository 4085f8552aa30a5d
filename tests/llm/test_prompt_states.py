"""What the embedded model has read is kept: by its process, and on disk for the next start."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from service.agent.agent_factory import agent_from_settings
from service.config import EmbedderSettings, LLMSettings, Settings, default_models_dir
from service.domain.conversation.messages import Message
from service.domain.conversation.stream_parts import TokenUsage
from service.llm.embedded.embedded_model import EmbeddedLLM
from service.llm.embedded.prompt_states import PromptStates, begins_with, folder_bytes
from service.llm.embedded.tool_adapter import ToolChoice
from service.loop.context.offered_tools import opening_tools
from service.loop.context.system_prompt import system_message
from service.models.weight_store import ModelStore

pytestmark = pytest.mark.anyio

OPENING = (Message.system("You are Rondo."), Message.user("Hello"), Message.assistant("Hello!"))
OTHER = (Message.system("You are somebody else."),)
SMALLEST = "qwen2.5-coder-0.5b"


@pytest.fixture
def states(tmp_path: Path) -> PromptStates:
    (tmp_path / "states").mkdir()
    return PromptStates(tmp_path / "states", "tiny", ("weights", "library 1"))


def write(states: PromptStates, opening: tuple[Message, ...], content: bytes = b"read") -> Path:
    """A file as the server writes it, and the name that it is kept by."""
    (states.folder / states.unfinished(opening)).write_bytes(content)
    states.keep(opening)
    name = states.find(opening)
    assert name is not None
    return states.folder / name


def test_what_is_kept_is_found_and_only_for_the_same_opening(states: PromptStates) -> None:
    assert states.find(OPENING) is None
    file = write(states, OPENING)
    assert file.read_bytes() == b"read"
    assert states.find(OTHER) is None
    assert PromptStates(states.folder, "tiny", ("weights", "library 2")).find(OPENING) is None
    assert PromptStates(states.folder, "other", ("weights", "library 1")).find(OPENING) is None
    assert states.find(OPENING) == file.name


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def garble(file: Path) -> None:
    file.write_bytes(os.urandom(len(file.read_bytes())))


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, garble, empty])
def test_a_damaged_file_is_deleted_and_not_found(
    states: PromptStates, damage: Callable[[Path], None]
) -> None:
    file = write(states, OPENING)
    damage(file)
    assert states.find(OPENING) is None
    assert not file.exists()
    assert write(states, OPENING) == file


def test_stale_and_unfinished_files_are_deleted_and_what_is_not_ours_stays(
    states: PromptStates,
) -> None:
    kept, stale = write(states, OPENING), write(states, OTHER)
    unfinished = states.folder / states.unfinished(OTHER)
    foreign = states.folder / "notes.txt"
    neighbour = write(PromptStates(states.folder, "tiny.er", ()), OTHER)
    unfinished.write_bytes(b"half")
    foreign.write_text("mine")
    states.keep_only([OPENING])
    assert set(states.folder.iterdir()) == {kept, foreign, neighbour}
    unfinished.write_bytes(b"half")
    states.discard(OTHER)
    assert not unfinished.exists()
    assert not stale.exists()
    assert folder_bytes(states.folder) == 4 + 4 + 4


def test_files_of_many_models_are_bounded(states: PromptStates) -> None:
    for number in range(12):
        write(PromptStates(states.folder, f"model-{number}", ()), OTHER)
    states.keep_only([OPENING])
    assert len(list(states.folder.iterdir())) == 8


def test_a_folder_that_is_not_there_is_as_an_empty_one(tmp_path: Path) -> None:
    states = PromptStates(tmp_path / "none", "tiny", ())
    assert states.find(OPENING) is None
    states.keep(OPENING)
    states.discard(OPENING)
    states.keep_only([])
    assert folder_bytes(states.folder) == 0


def test_the_last_message_of_an_opening_may_go_on() -> None:
    opening = (system_message(None, instructions="Be kind."),)
    today = system_message(datetime.now(UTC), instructions="Be kind.")
    assert begins_with([today, Message.user("Hello")], opening)
    assert begins_with([*OPENING, Message.user("And now?")], OPENING)
    assert not begins_with([OPENING[0], Message.user("Hello there"), OPENING[2]], OPENING)
    assert not begins_with([OPENING[0]], OPENING)
    assert not begins_with([Message.user(opening[0].text)], opening)


# --- with the real model

INSTRUCTIONS = system_message(None, instructions="Speak as a gardener would, and of plants.")


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[EmbeddedLLM]:
    store = ModelStore(default_models_dir())
    store.pull(SMALLEST)
    llm = EmbeddedLLM(store=store, name=SMALLEST, states_dir=folder)
    try:
        yield llm
    finally:
        await llm.aclose()


async def usage(llm: EmbeddedLLM, *messages: Message) -> TokenUsage:
    async with aclosing(llm.stream(messages, max_tokens=8)) as parts:
        (used,) = [part async for part in parts if isinstance(part, TokenUsage)]
    return used


def read(used: TokenUsage) -> int:
    """How many tokens of the prompt had to be read."""
    return used.input_tokens - used.cached_input_tokens


def tokens_in(file: Path) -> Sequence[int]:
    """Of which tokens a file holds the state: they stand behind its magic number and version."""
    content = file.read_bytes()
    (count,) = struct.unpack_from("<I", content, 8)
    return struct.unpack_from(f"<{count}i", content, 12)


@pytest.mark.slow
async def test_after_the_first_start_no_message_waits_for_the_beginning_of_the_prompt(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "states"
    today = Message.system(f"{INSTRUCTIONS.text}\n\nThis conversation began on Monday.")
    said = [today, Message.user("What grows in May?")]
    async with started(folder) as llm:
        await llm.warm_up([[INSTRUCTIONS]])
        warm = await usage(llm, *said)
    (file,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    async with started(folder) as llm:
        await llm.warm_up([[INSTRUCTIONS]])
        assert await usage(llm, *said) == warm
        assert read(warm) < warm.input_tokens / 2
    assert list(folder.iterdir()) == [file]

    cut(file)  # the server itself would die of it
    async with started(folder) as llm:
        await llm.warm_up([[INSTRUCTIONS]])
        assert await usage(llm, *said) == warm
    (again,) = folder.iterdir()
    assert tokens_in(again)


@pytest.mark.slow
async def test_nothing_that_was_said_is_in_a_file_and_turns_read_only_what_is_new(
    tmp_path: Path,
) -> None:
    clean, used = tmp_path / "clean", tmp_path / "used"
    async with started(clean) as llm:
        await llm.warm_up([[INSTRUCTIONS]])
    async with started(used) as llm:
        said = Message.user("My secret is that I grow tulips behind the house of my aunt in Delft.")
        for _ in range(2):
            await usage(llm, INSTRUCTIONS, said)
        await llm.warm_up([[INSTRUCTIONS]])
        (one,), (other,) = clean.iterdir(), used.iterdir()
        assert tokens_in(one) == tokens_in(other)
        assert one.stat().st_size == other.stat().st_size
        assert one.name.split(".")[:-2] == other.name.split(".")[:-2]

        talks = [[INSTRUCTIONS, Message.user(f"Tell me of {what}.")] for what in ("oaks", "bees")]
        before = [await usage(llm, *talk) for talk in talks]
        for place, talk in enumerate(talks):
            talk += [Message.assistant("They live long. " * 9), Message.user("And elsewhere?")]
            now = await usage(llm, *talk)
            assert now.cached_input_tokens >= before[place].input_tokens - 4  # "assistant"
            before[place] = now
        for place, talk in enumerate(talks):
            talk += [Message.assistant("There, too."), Message.user("Thank you")]
            now = await usage(llm, *talk)
            assert now.cached_input_tokens >= before[place].input_tokens - 4


@pytest.mark.slow
async def test_both_prompts_for_a_small_model_are_short_and_work_without_a_folder(
    tmp_path: Path,
) -> None:
    settings = Settings(
        data_dir=tmp_path,
        llm=LLMSettings(provider="embedded", model=SMALLEST),
        embedder=EmbedderSettings(kind="none"),
    )
    agent = agent_from_settings(settings)
    choice = ToolChoice(opening_tools(agent.tools)).opening
    (tmp_path / "file").write_text("")
    async with started(tmp_path / "file" / "states") as llm:
        await llm.warm_up([[INSTRUCTIONS]])
        for opening in ((system_message(datetime.now(UTC)),), choice):
            assert (await usage(llm, *opening, Message.user("Hi"))).input_tokens < 700
