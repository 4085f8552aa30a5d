"""`rondo bench retrieval` on a small set of our own: what it reports, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from service.bench.parameters import BenchmarkError
from service.bench.retrieval.retrieval_dataset import find_sets, read_set
from service.bench.retrieval.retrieval_report import Plan, report_lines, run
from tests.support.memory.remembering import WordEmbedder

SAID = {
    "boat": ("Where did I moor the boat?", "In the harbour of Lund, at pier nine."),
    "soup": ("What goes into the soup?", "Leeks, potatoes and a little nutmeg."),
    "琴": ("钢琴什么时候调音？", "调音师星期四下午来。"),
}


def evidence(loop: str, kind: str = "response", iteration: int = 0) -> dict[str, object]:
    return {"run_loop_id": loop, "iteration_index": iteration, "segment_type": kind}


QUERIES: list[dict[str, Any]] = [
    {"id": "q1", "query": "harbour pier", "evidence": [evidence("boat")], "category": "place"},
    {
        "id": "q2",
        "query": "nutmeg leeks",
        # No word of the query stands in the second one.
        "evidence": [evidence("soup"), evidence("boat", "user_message")],
        "category": "recipe",
    },
    {"id": "q3", "query": "调音师", "evidence": [evidence("琴")], "category": "place"},
]


def loop_of(loop_id: str, question: str, answer: str) -> dict[str, Any]:
    at = "2023-05-08T13:56:00+00:00"
    turn = {"user_message": question, "response": answer, "timestamp": at}
    return {
        "id": loop_id,
        "goal": question,
        "status": "completed",
        "created_at": at,
        "completed_at": at,
        "iterations": [turn],
    }


def write_set(
    folder: Path, queries: Iterable[object] = QUERIES, loops: Iterable[object] | None = None
) -> Path:
    folder.mkdir(parents=True)
    if loops is None:
        loops = [loop_of(loop_id, *said) for loop_id, said in SAID.items()]
    for name, rows in (("run_loops.jsonl", loops), ("queries.jsonl", queries)):
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / name).write_text("".join(lines), encoding="utf-8")
    return folder


def test_words_find_what_they_stand_in_and_the_shares_are_those_of_the_evidence(
    tmp_path: Path,
) -> None:
    write_set(tmp_path / "small")
    report = run(Plan(data=tmp_path, arms=("lexical",), make_embedder=lambda: None))
    figures = report["sets"]["small"]["lexical"]
    assert figures["queries"] == 3
    assert figures["any@1"] == 1
    assert figures["recall@50"] == pytest.approx(2.5 / 3, abs=1e-4)
    assert figures["all@50"] == pytest.approx(2 / 3, abs=1e-4)
    assert figures["mrr"] == 1
    assert figures["categories"]["recipe"]["recall@1"] == 0.5
    assert figures["categories"]["place"]["queries"] == 2
    assert report["overall"]["lexical"]["recall@50"] == figures["recall@50"]
    assert report["embedder"] is None


ENGLISH = {
    "boat": ("Where did I moor the boat?", "In the harbour of Lund, at pier nine."),
    "piano": ("When is the piano tuned?", "The tuner comes on Thursday."),
}
CHINESE = {"boat": ("船停在哪里？", "在隆德港九号码头。"), "piano": SAID["琴"]}


def write_translations(folder: Path) -> None:
    """Two sets that say the same, whose ids begin with their names; one query is in one of them."""
    for name, said, boat, piano in (
        ("in-en", ENGLISH, "harbour pier", "tuner"),
        ("in-zh", CHINESE, "隆德港", "调音师"),
    ):
        write_set(
            folder / name,
            [
                {"id": f"{name}-q1", "query": boat, "evidence": [evidence(f"{name}-boat")]},
                {"id": f"{name}-q2", "query": piano, "evidence": [evidence(f"{name}-piano")]},
                {"id": f"{name}-only", "query": boat, "evidence": [evidence(f"{name}-boat")]},
            ][: 3 if name == "in-en" else 2],
            [loop_of(f"{name}-{loop_id}", *texts) for loop_id, texts in said.items()],
        )


def test_queries_are_asked_in_the_words_of_a_translation(tmp_path: Path) -> None:
    write_translations(tmp_path)
    told: list[str] = []
    plan = Plan(
        data=tmp_path,
        sets=["in-en"],
        questions="in-zh",
        arms=("lexical",),
        make_embedder=lambda: None,
    )
    report = run(plan, tell=told.append)
    figures = report["sets"]["in-en"]["lexical"]
    assert figures["queries"] == 2
    assert figures["recall@50"] == 0, "no Chinese word stands in the English store"
    assert report["questions"] == "in-zh"
    of_words = (tmp_path / "in-zh" / "queries.jsonl").read_bytes()
    inputs = report["inputs"]["in-en"]
    assert inputs["in-zh/queries.jsonl"] == hashlib.sha256(of_words).hexdigest()
    assert "1 queries are not in in-zh" in "".join(told)


def test_a_set_asked_in_its_own_words_gives_what_it_gives_anyhow(tmp_path: Path) -> None:
    write_translations(tmp_path)
    shares = []
    for questions in (None, "in-zh"):
        plan = Plan(
            data=tmp_path,
            sets=["in-zh"],
            questions=questions,
            arms=("lexical",),
            make_embedder=lambda: None,
        )
        shares.append(run(plan)["sets"]["in-zh"]["lexical"]["recall@5"])
    assert shares == [1, 1]


def test_the_questions_of_a_translation_are_not_held_to_be_unanswerable(tmp_path: Path) -> None:
    write_translations(tmp_path)
    plan = Plan(data=tmp_path, questions="in-zh", arms=("lexical",), make_embedder=lambda: None)
    assert {each["lexical"]["unanswerable"] for each in run(plan)["sets"].values()} == {0}


def test_questions_of_a_set_that_is_no_translation_are_refused(tmp_path: Path) -> None:
    write_translations(tmp_path)
    write_set(tmp_path / "small", [{**QUERIES[0], "id": "elsewhere"}])
    for questions, words in (("small", "none of the queries"), ("in-*", "more than one")):
        plan = Plan(
            data=tmp_path,
            sets=["in-en"],
            questions=questions,
            arms=("lexical",),
            make_embedder=lambda: None,
        )
        with pytest.raises(BenchmarkError, match=words):
            run(plan)


def test_every_arm_is_asked_everything_and_the_report_says_of_what_it_is(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "small")
    write_set(tmp_path / "other", QUERIES[:1])
    report = run(Plan(data=tmp_path, sets=["s*"], make_embedder=WordEmbedder))
    assert list(report["sets"]) == ["small"]
    assert list(report["sets"]["small"]) == ["lexical", "dense", "hybrid"]
    for figures in report["sets"]["small"].values():
        assert figures["queries"] == 3
        assert figures["any@50"] == 1
        assert 0 < figures["p50_ms"] <= figures["p95_ms"]
    # By vectors alone everything is offered, near or far.
    assert report["sets"]["small"]["dense"]["all@50"] == 1
    assert report["embedder"] == WordEmbedder.identity
    digest = hashlib.sha256((folder / "queries.jsonl").read_bytes()).hexdigest()
    assert report["inputs"]["small"]["queries.jsonl"] == digest


def test_a_folder_of_one_set_is_taken_as_well(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "small")
    assert find_sets(folder) == [folder]


def test_a_folder_of_several_kinds_of_data_is_taken_as_well(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "retrieval" / "small")
    (tmp_path / "routing").mkdir()
    assert find_sets(tmp_path) == [folder]


def test_an_arm_with_vectors_needs_an_embedder(tmp_path: Path) -> None:
    write_set(tmp_path / "small")
    with pytest.raises(BenchmarkError, match="need an embedder"):
        run(Plan(data=tmp_path, make_embedder=lambda: None))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({**QUERIES[0], "evidence": []}, "no query with evidence"),
        ({**QUERIES[0], "evidence": [evidence("boat", "chapter")]}, "segment_type"),
        ({**QUERIES[0], "query": "  "}, "is blank"),
        ({"id": "q1"}, "query: Field required"),
        ("just text", "line 1"),
    ],
)
def test_a_query_that_cannot_be_judged_is_refused_with_its_line(
    query: object, words: str, tmp_path: Path
) -> None:
    with pytest.raises(BenchmarkError, match=words):
        read_set(write_set(tmp_path / "small", [query]))


def test_a_set_without_queries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="has no query"):
        read_set(write_set(tmp_path / "small", []))


def test_a_query_without_evidence_counts_for_auroc_alone_and_is_told(tmp_path: Path) -> None:
    write_set(tmp_path / "small", [QUERIES[0], {**QUERIES[1], "evidence": []}])
    notices: list[str] = []
    report = run(
        Plan(data=tmp_path, arms=("lexical",), make_embedder=lambda: None), tell=notices.append
    )
    figures = report["sets"]["small"]["lexical"]
    assert (figures["queries"], figures["unanswerable"]) == (1, 1)
    assert list(figures["categories"]) == ["place"]
    [notice] = report["notices"]["small"]
    assert "1 queries without evidence count for `auroc` alone: line 2 (query q2)" in notice
    assert any(notice in words for words in notices)


def test_questions_of_other_sets_tell_whether_memory_knows_that_it_has_no_answer(
    tmp_path: Path,
) -> None:
    write_set(tmp_path / "small")
    stars = ("Which star is nearest to the sun?", "Proxima Centauri, a red dwarf.")
    theirs = {"id": "s", "query": "Proxima Centauri", "evidence": [evidence("stars")]}
    write_set(tmp_path / "other", [theirs], [loop_of("stars", *stars)])
    report = run(Plan(data=tmp_path, arms=("lexical",), make_embedder=lambda: None))
    small, other = (report["sets"][name]["lexical"] for name in ("small", "other"))
    assert (small["queries"], small["unanswerable"], small["auroc"]) == (3, 1, 1.0)
    assert (other["queries"], other["unanswerable"], other["auroc"]) == (1, 3, 1.0)
    assert report["overall"]["lexical"]["unanswerable"] == 4


def test_a_set_by_itself_has_nothing_to_tell_its_questions_from(tmp_path: Path) -> None:
    write_set(tmp_path / "small")
    report = run(Plan(data=tmp_path, arms=("lexical",), make_embedder=lambda: None))
    assert report["sets"]["small"]["lexical"]["auroc"] is None
    assert any(" - " in line for line in report_lines(report))


@pytest.mark.parametrize("missing", [evidence("ship"), evidence("boat", iteration=1)])
def test_evidence_that_is_nowhere_is_told_and_counts_as_not_found(
    missing: dict[str, object], tmp_path: Path
) -> None:
    query = {**QUERIES[0], "evidence": [evidence("boat"), missing]}
    folder = write_set(tmp_path / "small", [query])
    report = run(Plan(data=folder, arms=("lexical",), make_embedder=lambda: None))
    assert report["sets"]["small"]["lexical"]["recall@50"] == 0.5
    assert "in no run loop" in report["notices"]["small"][0]


def test_a_run_loop_that_cannot_be_imported_is_refused_with_its_line(tmp_path: Path) -> None:
    loops = [loop_of("boat", *SAID["boat"]), {"id": "soup"}]
    with pytest.raises(BenchmarkError, match=r"run_loops\.jsonl, line 2"):
        read_set(write_set(tmp_path / "small", QUERIES[:1], loops))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "small")
    (folder / "queries.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BenchmarkError, match="cannot be read"):
        read_set(folder)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "small")
    (folder / "run_loops.jsonl").unlink()
    with pytest.raises(BenchmarkError, match=r"there is no file .*run_loops\.jsonl"):
        read_set(folder)


def test_a_set_of_no_such_name_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    write_set(tmp_path / "small")
    with pytest.raises(BenchmarkError, match="no set large") as refused:
        find_sets(tmp_path, ["large"])
    assert "small" in refused.value.advice


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "service.cli", "bench", "retrieval", *arguments],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


@pytest.mark.slow
def test_the_command_prints_json_alone_and_a_table_beside_it(tmp_path: Path) -> None:
    write_set(tmp_path / "small")
    done = bench("--data", str(tmp_path), "--arms", "lexical,hybrid", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert list(report["sets"]["small"]) == ["lexical", "hybrid"]
    assert report["sets"]["small"]["hybrid"]["recall@5"] == 1
    assert "multilingual-e5-small" in report["embedder"]
    assert "recall@5" in done.stderr


@pytest.mark.slow
def test_what_cannot_be_measured_is_said_in_words(tmp_path: Path) -> None:
    done = bench("--data", str(tmp_path / "nowhere"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no folder" in done.stderr
    assert "Traceback" not in done.stderr
