"""One store, two languages: a question finds what was said in the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from service.domain.anchors import SegmentType
from service.memory.embedders.bundled_e5 import token_centres
from service.memory.embedders.sentence_transformer import SentenceTransformerEmbedder
from service.memory.protocol import SearchFilters
from service.memory.search.candidates import CandidateSource, SearchScope
from service.memory.search.query_terms import read_question
from service.memory.stores import ledger_of
from service.memory.vectors.unrelated_cosines import languages_of
from tests.support.memory.remembering import remembering, run_loop

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CHINESE = [
    *(
        "院子里棚屋挂锁的密码是四七一一。",
        "外婆做的汤里要放韭葱和肉豆蔻。",
        "我们的猫叫默默，今年三岁。",
    ),
    *("钢琴调音师星期四下午过来。", "厨房的墙刷的是浅赭色的漆。", "去年十月我们爬了黄山。"),
    *("护照放在书桌最下面的抽屉里。", "牙医说我右边的智齿要拔掉。", "邻居帮我们浇了两个星期的花。"),
    *("船停在港口的九号码头。", "奶奶的生日是三月十二号。", "我对花生过敏。"),
    *("新的吸尘器声音很小。", "周末要把自行车送去修。", "他在学校的合唱团里唱男低音。"),
    *("暖气坏了，师傅明天来。", "孩子们喜欢那个有滑梯的公园。", "账单要在月底之前付清。"),
]
ENGLISH = [
    *("The car insurance ends in June.", "My sister plays the viola in an orchestra."),
    *("The printer needs a new toner.", "We had dinner at the Italian place by the station."),
    *("I run eight kilometres every Sunday.", "The attic is full of old magazines."),
    *("The kids start swimming lessons in May.", "Grandpa's hearing aid is being repaired."),
    *("The wifi password is on the fridge.", "Her flight lands at ten past six."),
    *("I returned the library books yesterday.", "The oven takes a long time to heat."),
    *("Our landlord lives in Porto.", "The dentist moved to Mill Lane."),
    *("I am reading a book about whales.", "The lawn has to be mown on Friday."),
]


def scope(count: int, types: frozenset[SegmentType] | None = None) -> SearchScope:
    return SearchScope("me", SearchFilters(types=types), count)


async def test_a_question_finds_what_was_said_in_the_other_language(
    tmp_path: Path, bundled: SentenceTransformerEmbedder
) -> None:
    loops = [run_loop(f"r{at}", (text, "OK.")) for at, text in enumerate([*CHINESE, *ENGLISH])]
    async with remembering(tmp_path, bundled, *loops) as memory:
        for query, said in (
            ("what is the code of the padlock on the shed?", CHINESE[0]),
            ("what is our cat called?", CHINESE[2]),
            ("where is my passport?", CHINESE[6]),
            ("车险什么时候到期？", ENGLISH[0]),
            ("无线网的密码在哪里？", ENGLISH[8]),
            ("姐姐在乐队里拉什么琴？", ENGLISH[1]),
        ):
            hits = (await memory.search(query, owner="me", limit=3)).hits
            assert said in [hit.content for hit in hits], query


async def test_both_languages_are_among_few_candidates_with_filters_and_without(
    tmp_path: Path, bundled: SentenceTransformerEmbedder
) -> None:
    loops = [run_loop(f"r{at}", (text, "")) for at, text in enumerate([*CHINESE, *ENGLISH])]
    async with remembering(tmp_path, bundled, *loops) as memory:
        ledger = ledger_of(tmp_path)
        ledger.open()
        source = CandidateSource(ledger, memory.index.dense, lambda owner: 0)
        question = read_question("where is my passport?")
        found = [
            source.gather(question, scope(4, types)).numbers
            for types in (None, frozenset[SegmentType](["user_message"]))
        ]
        pieces = ledger.segments.numbered(found[0], owner="me")
        source.close()
        ledger.close()
    assert found[0] == found[1]
    texts = {each.content for each in pieces.values()}
    assert CHINESE[6] in texts
    assert texts & {*ENGLISH}


async def test_a_store_of_one_language_has_no_more_candidates(
    tmp_path: Path, bundled: SentenceTransformerEmbedder
) -> None:
    loops = [run_loop(f"r{at}", (text, "")) for at, text in enumerate(ENGLISH)]
    async with remembering(tmp_path, bundled, *loops) as memory:
        ledger = ledger_of(tmp_path)
        ledger.open()
        source = CandidateSource(ledger, memory.index.dense, lambda owner: 0)
        found = source.gather(read_question("qqq zzz"), scope(4)).numbers
        source.close()
        ledger.close()
    assert len(found) == 4


async def test_a_question_moved_to_the_other_language_and_back_is_itself(
    tmp_path: Path, bundled: SentenceTransformerEmbedder
) -> None:
    async with remembering(tmp_path, bundled) as memory:
        dense = memory.index.dense
        assert dense is not None
        here = bundled.embed_queries(["where is my passport?"])
        there = bundled.embed_queries(["我的护照在哪里？"])
        moved = dense.in_other_language(here, "other")
        assert moved is not None
        assert np.linalg.norm(moved) == pytest.approx(1, abs=1e-5)
        assert float((moved @ there.T)[0, 0]) > float((here @ there.T)[0, 0]) + 0.03
        shift = languages_of(bundled)
        assert shift is not None
        assert dense.in_other_language(-shift.shift[None], "other") is None, "no direction is left"


def test_a_mixed_text_is_counted_from_between_the_languages() -> None:
    centres = token_centres()
    assert np.array_equal(centres.of("a cat"), centres.other)
    assert np.array_equal(centres.of("猫"), centres.han)
    assert np.array_equal(centres.of(""), centres.other)
    between = centres.of("what does 茶 mean here")
    assert 0 < np.linalg.norm(between - centres.other) < np.linalg.norm(between - centres.han)
