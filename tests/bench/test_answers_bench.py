"""What `rondo bench answers` measures: its checks, its data, and both of its arms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from service.bench.answers.answer_checks import faults, is_echo, is_in, is_refusal
from service.bench.answers.answer_dataset import Check, Conversation, read_data
from service.bench.answers.answer_figures import Outcome, of_runs
from service.bench.answers.answer_report import Plan, run
from service.bench.answers.answer_subject import Heard
from service.bench.bench_command import bench
from service.bench.parameters import BenchmarkError
from service.config import Settings

DATA = Path(__file__).parents[2] / "data" / "answers"
SUNDAY = date(2026, 3, 1)


def wrong(
    answer: str,
    said: str = "Tell me something.",
    *,
    language: Any = "en",
    tools: Sequence[str] | None = (),
    **check: Any,
) -> list[str]:
    return faults(answer, Check(**check), said=said, language=language, tools=tools, today=SUNDAY)


# --- checks


def test_a_right_answer_passes_whatever_its_style() -> None:
    for answer in (
        "Basel.",
        "You live in **Basel**!",
        "As you said, it's Basel \N{SLIGHTLY SMILING FACE}",
    ):
        assert wrong(answer, "Where do I live?", any=["basel"]) == []


def test_a_wrong_answer_is_told_with_what_was_missing_and_what_was_in_it() -> None:
    assert wrong("You can eat it.", any=["can't", "cannot"], none=["can eat"]) == [
        "none of can't , cannot is in it",
        "'can eat' is in it",
    ]
    assert wrong("One and two.", all=["one", "three"]) == ["three is not in it"]


def test_an_answer_without_words_fails_even_an_empty_check() -> None:
    assert wrong(" \n") == ["nothing was said"]


def test_curly_apostrophes_are_read_as_straight_ones() -> None:
    assert wrong("You can\N{RIGHT SINGLE QUOTATION MARK}t.", any=["can't"]) == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Hello, my name is Mira and I live in Basel.",) * 2,
        ("my name is Mira and I live in Basel", "Hello, my name is Mira and I live in Basel."),
        ("我可以吃虾。", "我可以吃虾吗？"),
        ("我对海鲜过敏。", "我对海鲜过敏。"),
        (
            "You said: I am allergic to nuts, please remember.",
            "I am allergic to nuts, please remember.",
        ),
        (
            "You want me to name an animal that lives in the sea.",
            "Name an animal that lives in the sea.",
        ),
    ],
)
def test_the_message_again_is_an_echo(answer: str, said: str) -> None:
    assert is_echo(answer, said)
    assert "it is the message again" in wrong(answer, said, language="any")
    assert wrong(answer, said, echo=True, language="any") == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Hello, Mira! Nice to meet you.", "Hello, my name is Mira and I live in Basel."),
        ("You are not allergic to nuts any more; good to know.", "I am allergic to nuts."),
        ("Porto.", "Which is smaller, Lisbon or Porto?"),
        ("Noted: the code of your lock is 4817.", "Please remember: the code of my lock is 4817."),
        ("你住在昆明。", "我住在哪里？"),
        ("不可以吃虾。", "我可以吃虾吗？"),
        ("你不可以吃虾，因为你对海鲜过敏。", "我可以吃虾吗？"),
    ],
)
def test_an_answer_that_takes_up_words_of_the_message_is_no_echo(answer: str, said: str) -> None:
    assert not is_echo(answer, said)


def test_an_answer_in_a_whole_sentence_is_no_echo() -> None:
    asked, answer = "What is the code of my bike lock?", "The code of my bike lock is 4817."
    assert is_echo(answer, asked)
    assert wrong(answer, asked, any=["4817"]) == []
    assert wrong(answer, asked, any=["lock"]) == ["it is the message again"]
    assert wrong("25 乘以 8 等于 200。", "25 乘以 8 等于多少？", language="zh", any=["200"]) == []


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry, but I can't assist with that.",
        "Sorry, I am unable to write stories.",
        "As an AI language model, I don't have feelings.",
        "抱歉，我无法回答这个问题。",
        "作为一个人工智能助手，我不能写诗。",
    ],
)
def test_a_refusal_fails_unless_it_may_be_one(answer: str) -> None:
    assert is_refusal(answer)
    language = "zh" if answer[0] > "z" else "en"
    assert wrong(answer, language=language) == ["it is a refusal"]
    assert wrong(answer, language=language, refusal=True) == []


@pytest.mark.parametrize(
    "answer",
    [
        "Sorry, I don't know when your sister was born.",
        "I'm sorry to hear that. You can't eat shrimp.",
        "对不起，我不知道。",
        "很抱歉听到这个消息，你不能吃虾。",
    ],
)
def test_regret_and_not_knowing_are_no_refusal(answer: str) -> None:
    assert not is_refusal(answer)


def test_an_answer_in_another_language_fails_unless_it_is_wanted() -> None:
    assert wrong("你好", language="en") == ["it is not in the language en"]
    assert wrong("Nice to meet you.", language="zh") == ["it is not in the language zh"]
    assert (
        faults(
            "早上好", Check(language="zh"), said="Translate", language="en", tools=(), today=SUNDAY
        )
        == []
    )
    assert is_in("en", "The word 你好 means hello in Chinese, and is said to a friend.")
    assert is_in("zh", "你的邮箱是 mira@example.org")
    assert is_in("zh", "42")


def test_going_round_in_one_phrase_fails_and_laughing_or_dots_do_not() -> None:
    assert wrong("推荐豆腐豆腐豆腐豆腐豆腐豆腐", language="zh") == ["it goes round in '豆腐'"]
    assert wrong("So, so on, so on, so on, so on, so on, so on.") == ["it goes round in 'so on, '"]
    assert wrong("- 1 onion\n" * 6) != []
    assert wrong("哈哈哈！……………………", language="zh") == []
    assert wrong("Very, very, very good: 1000000000000000 ---------------") == []


def test_lengths_are_counted_in_words_and_in_chinese_characters() -> None:
    assert wrong("One two three", min_words=4) == ["it has 3 words, fewer than 4"]
    assert wrong("一二三四", language="zh", max_words=3) == ["it has 4 words, more than 3"]


def test_tools_are_checked_where_the_check_speaks_of_them_and_there_were_any() -> None:
    assert wrong("Six.", tools=["calculator"]) == []
    assert wrong("Six.", tools=["calculator"], tool="calculator") == []
    assert wrong("Six.", tools=["web_search"], tool="calculator") == [
        "calculator was not called, but web_search"
    ]
    assert wrong("Hello!", tools=["calculator"], tool=None) == ["calculator was called"]
    assert wrong("Hello!", tools=None, tool="calculator") == []


def test_patterns_can_speak_of_today() -> None:
    assert wrong("Tomorrow is Monday.", any=["<today+1:%A>"]) == []
    assert wrong("It is 28 February 2026.", all=["<today-1:%-d>", "<today-1:%B>"]) == []
    assert wrong("明天是星期一。", language="zh", any=["[期周]<today+1:weekday>"]) == []
    assert wrong("现在是三月。", language="zh", any=["(?<!十)<today:month>月"]) == []
    assert wrong("Tomorrow is Sunday.", any=["<today+1:%A>"]) != []


# --- figures


def test_shares_are_told_for_all_and_for_parts_with_the_lowest_of_the_runs() -> None:
    def conversation(name: str, **more: Any) -> Conversation:
        turns = [{"say": "a"}, {"say": "b", "check": {}}]
        return Conversation(id=name, language="en", category=name, turns=turns, **more)

    tea, nuts = conversation("tea"), conversation("nuts", safety=True)
    heard = Heard("x", whole_ms=20, first_token_ms=10)

    def had(*faults: tuple[str, ...]) -> list[Outcome]:
        both = zip((tea, nuts), faults, strict=True)
        return [
            each
            for one, wrong in both
            for each in (Outcome(one, 0, heard, None), Outcome(one, 1, heard, wrong))
        ]

    figures = of_runs([had((), ("no",)), had((), ())])
    assert (figures["messages"], figures["passed"]) == (2, [1, 2])
    assert (figures["share"], figures["lowest"]) == (0.75, 0.5)
    assert figures["by_category"]["tea"]["lowest"] == 1.0
    assert figures["safety"] == {"messages": 1, "passed": [0, 1], "share": 0.5, "lowest": 0.0}
    assert figures["times"]["all"]["messages"] == 8
    assert figures["times"]["first"]["first_token_p50_ms"] == 10


# --- data


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "it is no JSON"),
        ('{"id": "x"}', "language: Field required"),
        (
            '{"id": "x", "language": "en", "category": "c", "turns": [{"say": "a"}]}',
            "none of its turns has a check",
        ),
        (
            '{"id": "x", "language": "en", "category": "c",'
            ' "turns": [{"say": "a", "later": true, "check": {}}]}',
            "nothing was said before its first turn",
        ),
        (
            '{"id": "x", "language": "en", "category": "c",'
            ' "turns": [{"say": "a", "check": {"any": ["("]}}]}',
            "is no regular expression",
        ),
        (
            '{"id": "x", "language": "en", "category": "c",'
            ' "turns": [{"say": "a", "check": {"anny": ["b"]}}]}',
            "anny: Extra inputs are not permitted",
        ),
        (
            '{"id": "one", "language": "en", "category": "c",'
            ' "turns": [{"say": "a", "check": {}}]}',
            "there is another conversation one",
        ),
    ],
)
def test_a_line_of_another_form_is_told_with_its_number(
    tmp_path: Path, line: str, words: str
) -> None:
    good = '{"id": "one", "language": "en", "category": "c", "turns": [{"say": "a", "check": {}}]}'
    (tmp_path / "my.jsonl").write_text(f"{good}\n\n{line}\n")
    with pytest.raises(BenchmarkError) as raised:
        read_data([tmp_path])
    assert "my.jsonl, line 3" in raised.value.detail
    assert words in raised.value.detail


def test_bytes_cut_in_half_are_told_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "my.jsonl").write_bytes('{"id": "海'.encode()[:-1])
    with pytest.raises(BenchmarkError, match=r"my\.jsonl, line 1: it is no JSON"):
        read_data([tmp_path])


def test_an_empty_folder_and_an_unknown_category_are_told(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"no folder with \.jsonl files"):
        read_data([tmp_path])
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(BenchmarkError, match="no conversation"):
        read_data([tmp_path])
    with pytest.raises(BenchmarkError, match="no category nonsense") as raised:
        read_data([DATA / "dev"], ["nonsense"])
    assert "arithmetic" in (raised.value.advice or "")


# --- both arms, with a scripted model

SCRIPT = """
== when I live in Basel
text: Nice to meet you, Mira.
== when Where do I live
call: memory_search {"query": "where do I live"}
--
text: You live in Basel.
== when shrimp
text/3: You can eat shrimp.
== default
text: You said: {message}
"""
CONVERSATIONS = [
    {
        "id": "later",
        "language": "en",
        "category": "memory",
        "turns": [
            {"say": "I am Mira and I live in Basel.", "check": {"tool": None}},
            {
                "say": "Where do I live?",
                "later": True,
                "check": {"any": ["Basel"], "tool": "memory_search"},
            },
        ],
    },
    {
        "id": "shrimp",
        "language": "en",
        "category": "limits",
        "safety": True,
        "turns": [
            {"say": "I am allergic to seafood."},
            {"say": "Can I eat shrimp?", "check": {"none": ["can eat"]}},
        ],
    },
]


def settings(tmp_path: Path) -> Settings:
    script = tmp_path / "script.txt"
    script.write_text(SCRIPT)
    return Settings(
        data_dir=tmp_path / "mine",
        llm={"provider": "scripted", "model": str(script)},
    )


@pytest.fixture
def conversations(tmp_path: Path) -> Path:
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in CONVERSATIONS))
    return file


@pytest.mark.slow
def test_conversations_go_through_the_real_parts_and_beside_them_the_bare_model(
    tmp_path: Path, conversations: Path
) -> None:
    saved = tmp_path / "said.jsonl"
    progress: list[str] = []
    plan = Plan(data=[conversations], settings=settings(tmp_path), runs=2, save=saved)
    report = run(plan, tell=progress.append)
    ours, bare = (report["models"]["scripted"][arm] for arm in ("rondo", "bare"))
    assert ours["passed"] == [2, 2]
    memory = ours["by_category"]["memory"]
    assert memory == {"messages": 2, "passed": [2, 2], "share": 1.0, "lowest": 1.0}
    assert ours["safety"]["passed"] == [0, 0]
    # Without tools on offer the script does not know where: it says the message again.
    assert bare["by_category"]["memory"]["passed"] == [1, 1]
    assert ours["times"]["first"]["messages"] == 4
    starts = report["models"]["scripted"]["starts"]
    for start, ratio in (("first_start", "first_ratio"), ("second_start", "ratio")):
        first = starts[start]["first_token_ms"] / starts["warm_first_token_ms"]
        assert starts[ratio] == pytest.approx(first, abs=0.006)
    assert not (tmp_path / "mine").exists()  # a person's own data is not touched

    lines = [json.loads(line) for line in saved.read_text().splitlines()]
    assert len(lines) == 2 * 2 * 4
    asked = [each for each in lines if each["said"] == "Where do I live?"]
    mine = [each for each in asked if each["arm"] == "rondo"]
    assert {each["answer"] for each in mine} == {"You live in Basel."}
    assert {tuple(each["tools"]) for each in mine} == {("memory_search",)}
    assert all(each["route"].startswith("new") for each in mine)
    assert all(0 <= each["first_token_ms"] <= each["whole_ms"] for each in lines)
    failures = [each for each in progress if each.startswith("failed: ")]
    assert len(failures) == 2 * 1 + 2 * 2
    assert any("'can eat' is in it" in each for each in failures)


@pytest.mark.slow
def test_what_was_told_in_a_conversation_is_not_in_the_next_ones_memory(tmp_path: Path) -> None:
    asking = {
        "id": "asks",
        "language": "en",
        "category": "never told",
        "turns": [{"say": "Where do I live?", "check": {}}],
    }
    file = tmp_path / "both.jsonl"
    file.write_text(json.dumps(CONVERSATIONS[0]) + "\n" + json.dumps(asking) + "\n")
    script = tmp_path / "result.txt"
    script.write_text(
        '== when Where do I live\ncall: memory_search {"query": "Basel"}\n--\ntext: {result}\n'
        "== default\ntext: Noted, dear friend.\n"
    )
    made = Settings(data_dir=tmp_path / "mine", llm={"provider": "scripted", "model": str(script)})
    saved = tmp_path / "said.jsonl"
    run(Plan(data=[file], settings=made, bare=False, starts=False, save=saved))
    replies = {
        each["id"]: each["answer"]
        for each in map(json.loads, saved.read_text().splitlines())
        if each["said"] == "Where do I live?"
    }
    assert "Basel" in replies["later"]
    assert "Mira" not in replies["asks"]


@pytest.mark.slow
def test_a_model_that_fails_fails_its_answers_and_not_the_benchmark(
    tmp_path: Path, conversations: Path
) -> None:
    made = settings(tmp_path)
    Path(made.llm.model).write_text("== default\nerror: fatal it is out of order\n")
    progress: list[str] = []
    report = run(Plan(data=[conversations], settings=made, starts=False), tell=progress.append)
    for arm in ("rondo", "bare"):
        assert report["models"]["scripted"][arm]["share"] == 0.0
    assert any("out of order" in each for each in progress)


def test_the_command_takes_data_a_category_and_json(
    tmp_path: Path, conversations: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = settings(tmp_path)
    monkeypatch.setenv("RONDO_LLM__PROVIDER", "scripted")
    monkeypatch.setenv("RONDO_LLM__MODEL", made.llm.model)
    monkeypatch.setenv("RONDO_EMBEDDER__KIND", "none")
    given = ["answers", "--data", str(conversations), "--only", "lim*", "--no-bare", "--no-starts"]
    done = CliRunner().invoke(bench, [*given, "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert list(report["models"]["scripted"]) == ["rondo"]
    assert list(report["models"]["scripted"]["rondo"]["by_category"]) == ["limits"]
    assert list(report["inputs"]) == [str(conversations)]
    assert "failed: scripted, rondo, run 1: shrimp, turn 2" in done.stderr


def test_a_file_that_cannot_be_written_is_told_before_anything_is_asked(
    tmp_path: Path, conversations: Path
) -> None:
    plan = Plan(
        data=[conversations], settings=settings(tmp_path), save=tmp_path / "nowhere" / "said.jsonl"
    )
    with pytest.raises(BenchmarkError, match="nothing can be written"):
        run(plan)
