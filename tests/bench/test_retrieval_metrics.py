"""What recall, all, any and MRR say of hits, computed by hand."""

from __future__ import annotations

import pytest

from service.bench.retrieval.retrieval_metrics import Place, judge, mean


def place(number: int) -> Place:
    return Place("loop", number, "user_message")


def test_half_of_the_evidence_among_the_first_five_is_a_recall_of_a_half() -> None:
    hits = [place(number) for number in range(20)]
    figures = judge(hits, [place(3), place(7)])
    assert [figures[f"recall@{k}"] for k in (1, 5, 10, 25, 50)] == [0, 0.5, 1, 1, 1]
    assert [figures[f"all@{k}"] for k in (1, 5, 10, 25, 50)] == [0, 0, 1, 1, 1]
    assert [figures[f"any@{k}"] for k in (1, 5, 10, 25, 50)] == [0, 1, 1, 1, 1]
    assert figures["mrr"] == 1 / 4


def test_segments_of_one_text_count_once_and_each_takes_a_rank() -> None:
    hits = [place(1), place(1), place(1), place(1), place(1), place(2)]
    figures = judge(hits, [place(1), place(2)])
    assert figures["recall@5"] == 0.5
    assert figures["recall@10"] == 1
    assert figures["mrr"] == 1


def test_the_same_evidence_named_twice_counts_once() -> None:
    assert judge([place(1)], [place(1), place(1)])["all@1"] == 1


@pytest.mark.parametrize(
    "hit",
    [
        Place("other", 0, "user_message"),
        Place("loop", 1, "user_message"),
        Place("loop", 0, "response"),
    ],
)
def test_a_hit_elsewhere_is_not_the_evidence(hit: Place) -> None:
    assert set(judge([hit], [place(0)]).values()) == {0.0}


def test_without_hits_nothing_is_found() -> None:
    assert set(judge([], [place(0)]).values()) == {0.0}


def test_the_mean_is_over_queries_and_not_over_evidence() -> None:
    all_found = judge([place(0)], [place(0)])
    one_of_four = judge([place(0)], [place(number) for number in range(4)])
    assert mean([all_found, one_of_four])["recall@1"] == 0.625
    assert mean([all_found, one_of_four])["all@1"] == 0.5
    assert mean([all_found, one_of_four])["any@1"] == 1


def test_of_what_a_prompt_takes_only_whole_hits_count() -> None:
    hits, evidence = [place(0), place(1), place(2)], [place(0), place(2)]
    figures = judge(hits, evidence, [700, 800, 900])
    assert (figures["any@1k_tokens"], figures["all@1k_tokens"]) == (1, 0)
    assert (figures["any@2k_tokens"], figures["all@2k_tokens"]) == (1, 0)
    assert (figures["any@4k_tokens"], figures["all@4k_tokens"]) == (1, 1)
    assert judge([place(1)], evidence, [10])["any@4k_tokens"] == 0
