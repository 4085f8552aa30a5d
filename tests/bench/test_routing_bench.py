"""`rondo bench routing` on a small set of our own: what it reports, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from research.routing.replay import replay
from service.bench.parameters import BenchmarkError
from service.bench.routing import routing_report
from service.bench.routing.decision_speed import MESSAGES, conversations, messages
from service.bench.routing.router_methods import TimedEmbedder, TrainedOn, router_for
from service.bench.routing.routing_dataset import find_sets, read_set
from service.bench.routing.routing_figures import ASKED_BELOW, NEW, Decided, Decision, of_decided
from service.bench.routing.routing_report import Plan, run
from service.bench.routing.teacher_forcing import arrivals, decide_all, sampled
from service.llm.scripted.script_language import parse_script
from service.llm.scripted.scripted_model import ScriptedModel
from service.memory.protocol import Vectors
from service.routing.candidate_loops import candidate_of
from service.routing.open_loop_vectors import is_known
from service.routing.routing_model import shipped
from service.routing.routing_options import RouterOptions

EVERYDAY = Path(__file__).parents[2] / "data" / "fixtures" / "routing" / "everyday"

LINE = {
    "id": "1",
    "text": "The tap drips.",
    "at": "2026-03-02T08:30:00+00:00",
    "thread": "tap",
    "role": "user",
}


class KnownEmbedder:
    """Vectors drawn by the text, under the name of the embedder that the model knows."""

    identity = f"test {shipped().embedder} query='query: ' passage='passage: '"

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self._drawn(text) for text in texts])

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return self.embed_queries(texts)

    @staticmethod
    def _drawn(text: str) -> Vectors:
        seed = list(hashlib.sha256(text.encode()).digest()[:8])
        drawn = np.random.default_rng(seed).standard_normal(384)
        unit: Vectors = (drawn / np.linalg.norm(drawn)).astype(np.float32)
        return unit


def write_set(folder: Path, *lines: object, name: str = "stream.jsonl") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def plan(data: Path = EVERYDAY, **changes: Any) -> Plan:
    return Plan(**{"data": data, "loops": 0, "make_embedder": lambda: None, **changes})


def saying(answer: str) -> ScriptedModel:
    return ScriptedModel(parse_script(f"== schema .\n{answer}\n== default\ntext: Yes.\n"))


NEVER_JOINS = 'text: {"continues": "a new matter"}'


def test_the_report_says_how_often_it_was_right_and_of_what_it_is() -> None:
    report = run(plan())
    figures = report["sets"]["everyday"]["embedding"]
    assert figures["messages"] == sum(figures["kinds"].values()) == 40
    right = figures["kinds"]["joined_right"] + figures["kinds"]["new_right"]
    assert figures["accuracy"] == right / 40
    assert figures["accuracy"] > 0.5
    assert figures["without_llm"] == 1
    assert 0 < figures["p50_ms"] <= figures["p95_ms"]
    assert sum(each["messages"] for each in figures["calibration"]) == 40
    assert sum(each["messages"] for each in figures["by_candidates"].values()) == 40
    # Without an embedder there is no baseline, and the model decides by the words.
    assert (figures["embedding_p50_ms"], figures["ratio"], report["embedder"]) == (None, None, None)
    assert figures["methods"] == {"words": 36, "fallback": 4}
    digest = hashlib.sha256((EVERYDAY / "chinese.jsonl").read_bytes()).hexdigest()
    assert report["inputs"]["everyday"]["chinese.jsonl"] == digest
    assert report["model"]["version"] == shipped().version
    assert (report["llm"], report["speed"], report["notices"]) == (None, None, {})
    table = list(routing_report.report_lines(report))
    assert len(table) == 2 + 1 + len(ASKED_BELOW)
    assert table[1].split()[:3] == ["everyday", "embedding", "40"]


def test_the_loops_are_those_that_the_training_saw() -> None:
    trained = list(replay(EVERYDAY, {}))
    routed = list(arrivals(read_set(EVERYDAY)))
    assert len(trained) == len(routed) == 40
    for lesson, each in zip(trained, routed, strict=True):
        loops = {state.id.partition(":")[2]: candidate_of(state) for state in each.active}
        assert set(loops) == {candidate.id for candidate in lesson.candidates}
        for candidate in lesson.candidates:
            loop = loops[candidate.id]
            assert [(t.text, t.role) for t in loop.turns] == [
                (t.text, t.role) for t in candidate.turns
            ]
            assert loop.goal.text == candidate.goal.text
            spoken = [[t.at for t in one.turns if t.role == "user"] for one in (loop, candidate)]
            assert spoken[0] == spoken[1]
        true = NEW if lesson.right == NEW else lesson.candidates[lesson.right].id
        place = each.right
        assert true == (NEW if place == NEW else each.active[place].id.partition(":")[2])


def test_several_messages_without_an_answer_are_turns_of_one_loop(tmp_path: Path) -> None:
    said = [
        LINE | {"role": "assistant", "text": "Good morning."},
        LINE | {"at": "2026-03-02T08:30:10Z"},
        LINE | {"at": "2026-03-02T08:30:20Z", "text": "Still."},
        LINE | {"at": "2026-03-02T08:30:30Z", "role": "assistant", "text": "Turn it off."},
        LINE | {"at": "2026-03-02T08:30:31Z", "role": "assistant", "text": "Now."},
        LINE | {"at": "2026-03-02T08:45:31Z", "text": "It stopped."},
        LINE | {"at": "2026-03-02T09:00:32Z", "text": "It drips again."},
    ]
    messages = list(arrivals(read_set(write_set(tmp_path / "set", *said))))
    assert [each.right for each in messages] == [0, 0, 0, NEW]
    [state] = messages[2].active
    assert [turn.text for turn in candidate_of(state).turns] == [each["text"] for each in said[:5]]
    assert state.goal == "Good morning."


def test_a_time_without_a_zone_is_in_utc(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", LINE | {"at": "2026-03-02T08:30:00"})
    [said] = read_set(folder).streams[0].said
    assert said.at.isoformat() == "2026-03-02T08:30:00+00:00"


def test_the_language_model_is_asked_for_every_message_where_it_is_to_be() -> None:
    report = run(plan(methods=("llm",), make_llm=lambda: saying(NEVER_JOINS)))
    figures = report["sets"]["everyday"]["llm"]
    assert figures["methods"] == {"llm": 36, "fallback": 4}
    assert figures["without_llm"] == 0.1  # nothing was open when these came
    assert figures["accuracy"] == 13 / 40
    assert figures["kinds"]["new_right"] == 13
    assert report["llm"] == saying(NEVER_JOINS).model


@pytest.mark.slow
def test_the_full_method_asks_it_where_the_settings_say_so() -> None:
    def methods(**options: Any) -> dict[str, int]:
        settings = RouterOptions(**options)
        run_plan = plan(methods=("full",), options=settings, make_llm=lambda: saying(NEVER_JOINS))
        counts: dict[str, int] = run(run_plan)["sets"]["everyday"]["full"]["methods"]
        return counts

    assert "llm" not in methods(sure_above=0.0)
    assert "llm" not in methods(use_llm=False)
    asked = methods(sure_above=0.6)
    assert 0 < asked["llm"] < 36


def test_a_method_that_asks_a_language_model_needs_one() -> None:
    with pytest.raises(BenchmarkError, match="asks a language model, and there is none"):
        run(plan(methods=("llm",)))


@pytest.mark.anyio
async def test_what_fails_while_routing_is_told_as_what_it_is() -> None:
    embedder = TimedEmbedder(KnownEmbedder())
    with pytest.raises(BenchmarkError, match="in words"):
        async with router_for("embedding", embedder, None, RouterOptions()):
            raise BenchmarkError("in words")


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    def figures(seed: int) -> dict[str, Any]:
        report = run(plan(limit=12, seed=seed))
        assert report["sets"]["everyday"]["embedding"]["messages"] == 12
        return {**report["sets"]["everyday"]["embedding"]["kinds"]}

    assert figures(3) == figures(3)
    assert sampled(40, 12, 3) != sampled(40, 12, 4)
    assert sampled(5, 12, 0) == frozenset(range(5))


@pytest.mark.anyio
@pytest.mark.parametrize("limit", [None, 7])
async def test_the_message_alone_is_embedded_within_its_decision(limit: int | None) -> None:
    assert is_known(KnownEmbedder.identity)
    embedder = TimedEmbedder(KnownEmbedder())
    data = read_set(EVERYDAY)
    async with router_for("embedding", embedder, None, RouterOptions()) as (router, warm):
        chosen = sampled(data.messages, limit, seed=0)
        decisions = await decide_all(router, warm, embedder, data, chosen=chosen)
    assert len(decisions) == len(chosen)
    for each in decisions:
        assert each.embedded == (1 if each.candidates else 0)
        assert (each.embedding_ms is None) == (each.candidates == 0)
        assert each.method == ("embedding" if each.candidates else "fallback")


def test_the_figures_are_those_counted_by_hand() -> None:
    figures = of_decided(
        [
            Decided(Decision(NEW, NEW, 1.0), 0, "fallback", 0.1, 0, None),
            Decided(Decision(0, 0, 0.9), 1, "embedding", 12.0, 1, 10.0),
            Decided(Decision(2, 1, 0.9), 5, "embedding", 30.0, 1, 10.0),
            Decided(Decision(NEW, 3, 0.5), 21, "llm", 20.0, 1, 10.0),
        ]
    )
    assert (figures["accuracy"], figures["without_llm"]) == (0.5, 0.75)
    # What was decided without a choice takes no time, and does not count there.
    assert (figures["p50_ms"], figures["embedding_p50_ms"], figures["ratio"]) == (20.0, 10.0, 2.0)
    assert {name: each["messages"] for name, each in figures["by_candidates"].items()} == {
        "0": 1,
        "1": 1,
        "2-5": 1,
        "more": 1,
    }


@pytest.mark.slow
def test_decisions_among_many_loops_are_timed_on_messages_that_nobody_said_before() -> None:
    said = list(conversations(20))
    asked = list(messages(20, 80, seed=0))
    assert len({each.thread for each in said}) == 20
    assert len({each.text for each in said}) == len(said)
    assert len({*asked, *(each.text for each in said)}) == len(asked) + len(said)
    speed = run(plan(loops=5, limit=1, make_embedder=KnownEmbedder))["speed"]
    assert (speed["loops"], speed["messages"]) == (5, MESSAGES)
    assert speed["ratio"] > 0
    assert 0 < speed["p50_ms"] <= speed["p95_ms"]


def test_more_loops_than_can_be_active_are_refused() -> None:
    with pytest.raises(BenchmarkError, match="would not all be active"):
        run(plan(loops=111, limit=1))


def test_a_set_that_the_model_was_trained_on_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = b"".join(path.read_bytes() for path in sorted(EVERYDAY.glob("*.jsonl")))
    seen = {"set": "everyday", "sha256": hashlib.sha256(whole).hexdigest()}
    monkeypatch.setattr(routing_report, "trained_on", lambda: TrainedOn("v1", [seen]))
    notices: list[str] = []
    report = run(plan(limit=1), tell=notices.append)
    [notice] = report["notices"]["everyday"]
    assert "are not held out" in notice
    assert any(notice in words for words in notices)
    assert notice in list(routing_report.report_lines(report))[-1]


def test_an_embedder_that_the_model_does_not_know_is_told_of() -> None:
    class Stranger(KnownEmbedder):
        identity = "another one"

    notices: list[str] = []
    report = run(plan(limit=3, make_embedder=Stranger), tell=notices.append)
    assert any("another one: words alone decide" in words for words in notices)
    assert "words" in report["sets"]["everyday"]["embedding"]["methods"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({**LINE, "role": "tool"}, "line 2: role"),
        ({**LINE, "at": "yesterday"}, "line 2: at"),
        ({**LINE, "thread": ""}, "line 2: thread"),
        ({"id": "1"}, "line 2: text: Field required"),
        ("just text", "line 2"),
    ],
)
def test_a_broken_line_is_refused_with_its_number(line: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=words):
        read_set(write_set(tmp_path / "set", LINE, line))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", LINE)
    (folder / "stream.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BenchmarkError, match="cannot be read"):
        read_set(folder)


@pytest.mark.parametrize("lines", [[], [{**LINE, "role": "assistant"}]])
def test_a_set_with_nothing_to_route_is_refused(lines: list[object], tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="there is nothing to route"):
        read_set(write_set(tmp_path / "set", *lines))


def test_an_empty_file_and_one_that_goes_back_in_time_are_told_of(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", LINE, LINE | {"at": "2026-03-02T08:29:00Z"})
    write_set(folder, name="empty.jsonl")
    assert read_set(folder).notices == (
        "empty.jsonl is empty",
        "stream.jsonl goes back in time 1 times",
    )


def test_sets_are_found_wherever_they_may_lie(tmp_path: Path) -> None:
    one = write_set(tmp_path / "routing" / "one", LINE)
    two = write_set(tmp_path / "routing" / "two", LINE)
    (tmp_path / "routing" / "notes").mkdir()
    assert find_sets(tmp_path) == find_sets(tmp_path / "routing") == [one, two]
    assert find_sets(one) == [one]
    assert find_sets(tmp_path, ["t*"]) == [two]


def test_what_is_no_folder_of_sets_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="there is no folder"):
        find_sets(tmp_path / "nowhere")
    with pytest.raises(BenchmarkError, match="there is no set in"):
        find_sets(tmp_path)
    write_set(tmp_path / "one", LINE)
    with pytest.raises(BenchmarkError, match="there is no set large") as refused:
        find_sets(tmp_path, ["large"])
    assert "one" in refused.value.advice


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "service.cli", "bench", "routing", *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.slow
def test_the_command_routes_by_the_real_embedder_and_prints_json_alone() -> None:
    done = bench("--data", str(EVERYDAY.parents[1]), "--method", "embedding", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    figures = report["sets"]["everyday"]["embedding"]
    assert figures["methods"] == {"embedding": 36, "fallback": 4}
    assert figures["accuracy"] >= 0.65
    assert figures["ratio"] > 0
    assert "multilingual-e5-small" in report["embedder"]
    assert report["speed"]["loops"] == 20
    assert "new_f1" in done.stderr


@pytest.mark.slow
def test_what_cannot_be_measured_is_said_in_words(tmp_path: Path) -> None:
    done = bench("--data", str(tmp_path / "nowhere"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no folder" in done.stderr
    assert "Traceback" not in done.stderr
