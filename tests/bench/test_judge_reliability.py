"""What `rondo bench routing` says of a judge of known reliability, and of asking a person."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from service.bench.bench_command import bench
from service.bench.routing.routing_figures import ASKED_BELOW, NEW, Decided, Decision, asking
from service.bench.routing.routing_report import Plan, report_lines, run
from service.bench.routing.scripted_judge import ScriptedJudge
from service.domain.conversation.messages import Message
from service.llm.generate import generate
from service.routing.routing_options import RouterOptions

EVERYDAY = Path(__file__).parents[2] / "data" / "fixtures" / "routing" / "everyday"
LABELS = ["the trip", "the bill", "a new matter"]


def judged(*reliabilities: float, **changes: Any) -> dict[str, dict[str, Any]]:
    plan = Plan(data=EVERYDAY, loops=0, make_embedder=lambda: None, judges=reliabilities, **changes)
    sets: dict[str, dict[str, dict[str, Any]]] = run(plan)["sets"]
    return sets["everyday"]


async def said_by(judge: ScriptedJudge) -> str:
    schema = {"properties": {"continues": {"enum": LABELS}}}
    generated = await generate(judge, [Message.user("?")], response_schema=schema)
    label: str = json.loads(generated.message.text)["continues"]
    return label


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("right", "label"), [(0, "the trip"), (1, "the bill"), (NEW, "a new matter"), (2, LABELS[-1])]
)
async def test_a_judge_is_right_as_often_as_it_is_to_be_and_else_says_all_the_others(
    right: int, label: str
) -> None:
    judge = ScriptedJudge(0.8, seed=1)
    judge.right = right  # the place 2 is not offered: what is left is a new topic
    said = Counter([await said_by(judge) for _ in range(1000)])
    assert 750 < said[label] < 850
    assert set(said) == set(LABELS)
    assert min(said.values()) > 60


def test_a_judge_is_asked_where_the_router_is_unsure_and_what_it_says_is_taken() -> None:
    sets = judged(0.0, 1.0)
    never, always = sets["judge-0"], sets["judge-1"]
    asked = always["judged"]["messages"]
    assert 0 < asked < 36
    assert asked == always["methods"]["llm"] == never["judged"]["messages"]
    assert never["judged"]["accuracy"] == 0
    # Where what is right is not among the likeliest, no judge can say so.
    offered = always["judged"]["offered"]
    assert 0.5 < always["judged"]["accuracy"] == offered == never["judged"]["offered"] < 1
    alone = always["judged"]["accuracy_alone"]
    assert 0 < alone < 1
    # Beside what the judge decided, all is as without one.
    right = sets["embedding"]["accuracy"] * 40
    assert always["accuracy"] * 40 == pytest.approx(right + asked * (offered - alone), abs=0.1)
    assert never["accuracy"] * 40 == pytest.approx(right - asked * alone, abs=0.1)
    assert always["p50_ms"] is always["ratio"] is None


@pytest.mark.slow
def test_of_one_seed_a_more_reliable_judge_is_right_wherever_another_one_is() -> None:
    asks_always = RouterOptions(sure_above=1)
    sets = judged(0.5, 0.7, 0.9, options=asks_always)
    shares = [sets[f"judge-{each}"]["judged"]["accuracy"] for each in (0.5, 0.7, 0.9)]
    assert shares == sorted(shares)
    assert shares[0] < shares[-1]
    assert judged(0.7, options=asks_always)["judge-0.7"] == sets["judge-0.7"]
    assert judged(0.7, options=asks_always, seed=1)["judge-0.7"] != sets["judge-0.7"]


def test_a_judge_is_asked_even_where_the_daemons_own_model_would_not_be() -> None:
    never_asks = RouterOptions(use_llm=False)
    assert judged(1.0, options=never_asks)["judge-1"]["judged"]["messages"] > 0


def test_without_a_message_for_the_judge_there_is_no_share_of_what_it_decided() -> None:
    figures = judged(1.0, options=RouterOptions(sure_above=0))["judge-1"]
    shares = dict.fromkeys(("offered", "accuracy", "accuracy_alone"))
    assert figures["judged"] == {"messages": 0, **shares}


def decided(chosen: int, right: int, confidence: float, *, offers_right: bool = False) -> Decided:
    decision = Decision(chosen, right, confidence)
    return Decided(decision, 2, "embedding", 1.0, 1, 1.0, offers_right=offers_right)


def test_what_asking_is_worth_is_as_counted_by_hand() -> None:
    rows = asking(
        [
            decided(0, 0, 0.95),
            decided(0, 1, 0.9, offers_right=True),  # sure, and so nobody is asked
            decided(0, 0, 0.65),
            decided(NEW, 1, 0.45, offers_right=True),
            decided(1, NEW, 0.35),
        ]
    )
    assert [row["below"] for row in rows] == list(ASKED_BELOW)
    figures = {row["below"]: list(row.values())[1:] for row in rows}
    assert figures[0.3] == [0, 0.4, 0.4]
    assert figures[0.5] == [0.4, 0.6667, 0.6]
    assert figures[0.9] == [0.6, 0.5, 0.6]
    [first, *_] = asking([decided(0, 0, 0.1)])
    assert first == {
        "below": 0.3,
        "share_asked": 1,
        "accuracy_rest": None,
        "accuracy_if_chips_right": 1,
    }


def test_asking_is_told_of_each_set_and_of_all_together() -> None:
    report = run(Plan(data=EVERYDAY.parent, loops=0, make_embedder=lambda: None))
    sets = {name: figures["embedding"] for name, figures in report["sets"].items()}
    assert len(sets) == 2
    messages = sum(figures["messages"] for figures in sets.values())
    for place, row in enumerate(report["asking"]["embedding"]):
        asked = [
            figures["asking"][place]["share_asked"] * figures["messages"]
            for figures in sets.values()
        ]
        assert row["share_asked"] * messages == pytest.approx(sum(asked), abs=0.1)
    [one, *_, last] = report["asking"]["embedding"]
    assert one["share_asked"] < last["share_asked"]
    assert one["accuracy_rest"] < last["accuracy_rest"]
    assert one["accuracy_if_chips_right"] < last["accuracy_if_chips_right"]
    table = list(report_lines(report))
    assert f"{0.9:>11} {last['share_asked']:12.2f} {last['accuracy_rest']:12.2f}" in table[-1]
    assert "share asked" in table[-8]


def test_a_reliability_that_is_no_probability_is_refused() -> None:
    result = CliRunner().invoke(bench, ["routing", "--judge-reliability", "1.5"])
    assert result.exit_code == 2
    assert "1.5" in result.output


@pytest.mark.slow
def test_the_command_measures_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RONDO_EMBEDDER__KIND", "none")
    arguments = ["--data", str(EVERYDAY), "--method", "embedding", "--loops", "0"]
    judges = ["--judge-reliability", "0.9", "--judge-reliability", ".9"]
    result = CliRunner().invoke(bench, ["routing", *arguments, *judges, "--json"])
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.stdout)["sets"]["everyday"]) == {"embedding", "judge-0.9"}
    assert "judge-0.9" in result.stderr
