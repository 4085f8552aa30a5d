"""Hooks: a person's own code, before and after what the agent does.

A hook that raises, does not come back in time, or gives something that cannot be used, is reported
(in the log, and as an ``error`` event of the run loop) and does not break the loop: it goes on as
if the hook were not there. Only before a tool call, and before notes are written, it means no: a
check that failed has not allowed anything.

Several hooks run in the order in which they were given, each on what the one before it gave. They
run on the event loop: what blocks, such as a slow request, belongs in a thread or an ``await``.
"""

from __future__ import annotations

from service.domain.conversation.messages import Message, ToolCall, ToolResult
from service.domain.routes import Route
from service.domain.run_loops import RunLoop
from service.loop.execution import Loop
from service.memory.journal.inbox import InboxEntry


class Hooks:
    """Derive from this and override what you need; each method does nothing by itself.

    `loop.state` tells all that is known of a run loop; it cannot be changed.
    """

    async def before_model_call(self, loop: Loop, messages: list[Message]) -> list[Message]:
        """May change what the model is shown in this call; the history stays as it is.

        Each tool call must keep its result, and each result its call. Calls that summarise old
        rounds come here too; those that choose a run loop do not, see `before_routing`.
        """
        return messages

    async def after_model_call(self, loop: Loop, message: Message) -> Message:
        """May change what the model said, before it is journaled and acted upon.

        It has streamed by then: who watches has seen the model's own words, and a tool that is
        `read_only` or `idempotent` may run already (see `before_tool_call`). What is given must be
        an assistant's message with words or tool calls, whose ids differ. Summaries of old rounds
        do not come here.
        """
        return message

    async def before_tool_call(self, loop: Loop, call: ToolCall) -> str | None:
        """Words for the model block the call; None lets it run.

        The last look before any call, also one that a person has allowed, and one that begins while
        the answer still arrives. After a crash it is asked again.
        """
        return None

    async def after_tool_call(self, loop: Loop, call: ToolCall, result: ToolResult) -> ToolResult:
        """May change what a call came to, before it is journaled; its id stays.

        A call that was blocked has not run, and does not come here.
        """
        return result

    async def before_routing(self, entry: InboxEntry, words: str) -> str:
        """May change the words by which the router decides; those that are stored never change.

        Also called when the sender named a run loop, though the words decide nothing then; and
        again for the same message where its loop ended while it was being chosen.
        """
        return words

    async def after_routing(self, entry: InboxEntry, route: Route, run_loop_id: str) -> None:
        """Told once a message has joined its run loop, a new one or not."""

    async def before_archiving(self, run_loop: RunLoop) -> None:
        """Told before a run loop, or what is done of it so far, goes to long-term memory.

        It cannot keep it out: what was said is remembered word for word, until it is forgotten.
        """

    async def after_archiving(self, run_loop: RunLoop) -> None:
        """Told once it is in long-term memory: after a crash perhaps again."""

    async def before_consolidation(self, owner: str, messages: list[Message]) -> list[Message]:
        """May change what the model is shown of an owner's words, to write notes from.

        The numbers of the passages must stay. A hook that fails here means no: the model is asked
        later, once the hook works.
        """
        return messages
