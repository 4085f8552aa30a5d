"""Which messages are about the person's own life: told by meaning, by the real embedder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import anyio.to_thread
import pytest

from research.fit_personal import figures, read_part
from service.domain.conversation.messages import Message
from service.domain.history.events import Event, IterationStarted, MessageCompleted, RunLoopStarted
from service.domain.history.fold import fold
from service.domain.history.state import RunLoopState
from service.loop.recall.care.limit_model import shipped as care_model
from service.loop.recall.personal_messages import is_personal, shipped
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder
from service.memory.protocol import Vectors
from service.routing.open_loop_vectors import embedded_text
from tests.support.histories import event_at, received

pytestmark = pytest.mark.anyio

DATA = Path(__file__).parents[2] / "data" / "personal"


def having_heard(*said: str) -> RunLoopState:
    events: list[Event] = [event_at(1, RunLoopStarted(goal="x"))]
    for number, words in enumerate(said):
        seq = 3 * number + 2
        events += [
            event_at(seq, received(words, f"m{number}")),
            event_at(seq + 1, IterationStarted(index=number)),
            event_at(seq + 2, MessageCompleted(message=Message.assistant("All right."))),
        ]
    state = fold(events[:-1] if said else events)
    assert state is not None
    return state


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "personal"),
    [
        (["My uncle has a vineyard near Trier."], True),
        (["What is my uncle's name?"], True),
        (["What a horrible week!"], True),
        (["我舅舅在海边开了一家小旅馆。"], True),
        (["我的舅舅住在哪儿？"], True),
        (["Write a ballad about a lost sock."], False),
        (["Why do onions make people cry?"], False),
        (["把“慢走”翻译成意大利语。"], False),
        (["切洋葱为什么会流泪？"], False),
        (["My uncle Rolf grows wine, my aunt Ute teaches.", "And Ute?"], True),
        (["How do you say 'good luck' in Danish?", "And in Finnish?"], False),
        (["My uncle has a vineyard near Trier.", "Why do onions make people cry?"], False),
    ],
)
async def test_what_is_about_ones_own_life_and_what_anybody_could_ask(
    said: Sequence[str], personal: bool, bundled: SentenceTransformerEmbedder
) -> None:
    async def embed(texts: Sequence[str]) -> Vectors:
        return await anyio.to_thread.run_sync(bundled.embed_queries, texts)

    assert await is_personal(having_heard(*said), embed=embed) is personal


async def test_without_an_embedder_everything_may_be_personal() -> None:
    async def embed(texts: Sequence[str]) -> None:
        return None

    assert await is_personal(having_heard("Why is the sea salty?"), embed=embed)
    assert await is_personal(having_heard(), embed=embed)


def test_it_knows_the_vectors_that_limits_are_told_by() -> None:
    weights = json.loads(
        resources.files("service.loop.recall").joinpath("personal_messages.json").read_text()
    )
    assert len(weights["weights"]) == len(care_model().limit)


@pytest.mark.slow
def test_messages_that_it_was_not_fitted_to_are_told_rightly(
    bundled: SentenceTransformerEmbedder,
) -> None:
    fitted_to, _ = read_part(DATA / "train.jsonl")
    texts, personal = read_part(DATA / "test.jsonl")
    assert not set(texts) & set(fitted_to)
    weights, bias = shipped()
    vectors = bundled.embed_queries([embedded_text(each, "user") for each in texts])
    assert figures(texts, personal, vectors @ weights + bias)["right"] >= 76  # of 80, measured: 79
