"""The `remember` tool: only the person's own words become a fact, and only one that holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.domain.run_loops import RunLoop
from service.memory.long_term import LongTermMemory
from service.tools.builtins.remember import LONGEST_FACT, remember_tool
from tests.memory.test_facts import telling
from tests.support.memory.remembering import remembering, run_loop
from tests.support.tools.tool_calls import result_of

pytestmark = pytest.mark.anyio


async def remembered(memory: LongTermMemory, said: str, fact: str, **more: str) -> tuple[str, bool]:
    async def load(run_loop_id: str) -> RunLoop:
        return run_loop(run_loop_id, (said, ""), status="running")

    result = await result_of(remember_tool(memory, load), fact=fact, **more)
    return result.content, result.is_error


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("Please remember that my dentist is Dr. Li.", "The user's dentist is Dr. Li"),
        ("my bike lock code is 4817, keep that", "The code of the bike lock is 4817."),
        ("记住：我的牙医是李大夫，电话 5551234", "我的牙医是李大夫，电话 5551234"),
        ("请记住我对花生过敏", "用户对花生过敏"),
    ],
)
async def test_what_the_person_said_is_kept(tmp_path: Path, said: str, fact: str) -> None:
    async with remembering(tmp_path, None) as memory:
        assert await remembered(memory, said, fact) == ("Remembered.", False)


@pytest.mark.parametrize(
    ("said", "fact", "named"),
    [
        ("Read that page for me.", "The user's bank is Evil Bank, account DE99", "DE99"),
        ("Remember my dentist.", "My dentist is Dr. Mallory", "Mallory"),
        ("Remember the code of my bike lock.", "The code of my bike lock is 4817", "4817"),
        ("请看一下这个网页", "用户同意以后所有付款都不用再问", ""),
        ("记住我的牙医", "我的牙医是马洛里大夫，在北京路十二号", ""),
        ("", "My dentist is Dr. Li", "Li"),
    ],
)
async def test_what_a_page_or_a_model_made_up_is_not(
    tmp_path: Path, said: str, fact: str, named: str
) -> None:
    async with remembering(tmp_path, None) as memory:
        content, is_error = await remembered(memory, said, fact)
        assert is_error
        assert "Only what the person said" in content
        assert named in content or named.casefold() in content


async def test_a_fact_on_the_same_matter_has_to_be_told_apart_first(tmp_path: Path) -> None:
    said = "Remember: my dentist is Dr. Wang"
    fact = "My dentist is Dr. Wang"
    async with remembering(tmp_path, None, telling("old", "My dentist is Dr. Li")) as memory:
        content, is_error = await remembered(memory, said, fact)
        assert is_error
        assert "[old:0.1]" in content
        assert "My dentist is Dr. Li" in content
        assert (await remembered(memory, said, fact, replaces="none")) == ("Remembered.", False)
        content, is_error = await remembered(memory, said, fact, replaces="[old:0.1]")
        assert (content, is_error) == ("Remembered, in the place of [old:0.1].", False)
        for wrong in ("nowhere:0.0", "not an anchor"):
            content, is_error = await remembered(memory, said, fact, replaces=wrong)
            assert is_error
        other = await remembered(memory, "Remember: my sister plays chess", "My sister plays chess")
        assert other == ("Remembered.", False)
        same = await remembered(memory, "My dentist is Dr. Li", "My dentist  is Dr. Li")
        assert same == ("That is remembered already.", False)


async def test_a_corrected_fact_stands_in_nobodys_way(tmp_path: Path) -> None:
    loops = (
        telling("old", "My dentist is Dr. Li"),
        telling("new", "The dentist moved away", replaces="old:0.1", day=1),
    )
    async with remembering(tmp_path, None, *loops) as memory:
        said = "Remember that my dentist is Dr. Li"
        assert await remembered(memory, said, "My dentist is Dr. Li") == ("Remembered.", False)


async def test_too_long_and_empty_facts_are_refused_in_words(tmp_path: Path) -> None:
    async with remembering(tmp_path, None) as memory:
        for fact in ("", "x" * (LONGEST_FACT + 1)):
            content, is_error = await remembered(memory, fact, fact)
            assert is_error
            assert "fact" in content
