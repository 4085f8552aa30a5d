"""Keeping a fact that the person asked to have remembered.

What is kept is the call itself, which memory reads as a fact, see `service.memory.ledger.facts`;
so the tool only looks whether it may be. What a page, a file or a recalled text says can become no
fact: all names and numbers of it, and nearly all its words, have to be the person's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from service.domain.anchors import AnchorRef, RememberedFact
from service.domain.conversation.file_attachments import without_files
from service.domain.conversation.tool_definitions import REMEMBER, ToolContext
from service.domain.run_loops import RunLoop
from service.domain.text import in_one_line, quoted
from service.schedules.schedule import SCHEDULED
from service.tools.builtins.read_result import Load
from service.tools.decorator import FunctionTool, tool
from service.tools.protocol import ToolFailure

if TYPE_CHECKING:
    from service.memory.protocol import MemoryReader

LONGEST_FACT = 500
"""In characters."""
_OF_THE_PERSON = 0.75  # which share of a fact's words they have to have said
_SAME_TOPIC = 0.5  # which share of the shorter one's words two facts on one topic have in common
_MOST_SHOWN = 3
_NAME = re.compile(r"(?<!\w{4}[.!?] )(?<!^)\b[A-Z][\w'’-]*|\w*\d\w*")
"""Words with a capital, but for the first of a sentence ("Dr." ends none), and with digits."""
_PERSON = frozenset(("user", "person", "用户", "户"))


def remember_tool(memory: MemoryReader, load: Load) -> FunctionTool:
    """The `remember` tool.

    Args:
        memory: knows the facts there are.
        load: gives the run loop in which it is called, with what the person said in it.
    """

    @tool(name=REMEMBER, effect="idempotent")
    async def remember(
        fact: Annotated[
            str,
            Field(
                min_length=1,
                max_length=LONGEST_FACT,
                description="One sentence that is understood by itself, in the person's own words"
                " and language.",
            ),
        ],
        context: ToolContext,
        replaces: Annotated[
            str | None,
            Field(
                description="The [anchor] of the older fact that this one corrects; “none” when"
                " both are true."
            ),
        ] = None,
    ) -> str:
        """Keep a fact for good, when the person asks you to remember something or corrects what
        they had you remember.

        What was said is remembered anyway: this marks what holds now.
        """
        run_loop = await load(context.run_loop_id)
        _must_be_their_own(fact, _said(run_loop))
        known = await memory.facts(owner=context.owner)
        if any(each.text == " ".join(fact.split()) and not each.superseded_by for each in known):
            return "That is remembered already."
        if replaces is None:
            _must_tell_apart(fact, known)
            return "Remembered."
        if replaces.strip().casefold() in ("none", ""):
            return "Remembered."
        ref = AnchorRef.parse(replaces)
        await memory.expand(ref, owner=context.owner, before=0, after=0)  # it has to be there
        return f"Remembered, in the place of [{ref}]."

    return remember


def _said(run_loop: RunLoop | None) -> str:
    """What a person said in a run loop themselves: without the names of files that they sent, and
    the words of a schedule, which a model may have written."""
    return "\n".join(
        without_files(each.user_message or "", each.metadata)
        for each in (run_loop.iterations if run_loop else ())
        if SCHEDULED not in each.metadata
    )


def _must_be_their_own(fact: str, said: str) -> None:
    """See to it that a fact says what the person said.

    Raises:
        ToolFailure: it holds a name or a number that they did not write, or too much else.
    """
    from service.memory.ledger.terms import content_terms, terms, written_numbers  # seldom needed

    theirs = set(terms(said))
    words = content_terms(fact) - _PERSON
    missing = words - theirs
    strange = {name for name in _NAME.findall(fact) if not set(terms(name)) <= theirs | _PERSON} | (
        written_numbers(fact) - written_numbers(said)
    )
    if strange or len(missing) > (1 - _OF_THE_PERSON) * len(words):
        what = ", ".join(sorted(strange or missing))
        raise ToolFailure(
            "Only what the person said in this conversation can be kept, in their own words; they"
            f" did not say: {in_one_line(what)[:200]}. Ask them to say it, or leave that out."
        )


def _must_tell_apart(fact: str, known: Sequence[RememberedFact]) -> None:
    """See to it that no fact on the same topic holds.

    Raises:
        ToolFailure: one does; the model is asked which of them is true.
    """
    from service.memory.ledger.terms import content_terms

    words = content_terms(fact) - _PERSON
    near = [
        each
        for each in known
        if not each.superseded_by
        and (others := content_terms(each.text) - _PERSON)
        and len(words & others) >= _SAME_TOPIC * min(len(words), len(others))
    ]
    if near:
        listed = "\n".join(
            f"[{each.anchor}] {each.anchor.timestamp.astimezone():%Y-%m-%d}:\n{quoted(each.text)}"
            for each in near[:_MOST_SHOWN]
        )
        raise ToolFailure(
            "Not remembered yet: there are facts that may be on the same topic. Call again, with"
            " `replaces` as the anchor of the one that is no longer true, or as “none” when all of"
            f" them are true.\n{listed}"
        )
