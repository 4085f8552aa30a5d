"""A person's answers to run loops that wait for one: each is taken once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from itertools import pairwise

import anyio.to_thread

from service.agent.human_input.answer_reading import Answer, decisions_of, read_answer
from service.agent.human_input.narrowed_yes import as_journaled, granted
from service.agent.moving.mover import Mover
from service.domain.conversation.messages import ToolCall
from service.domain.errors import ConflictError, InvalidInputError, NotFoundError
from service.domain.history.events import MessageMoved, RouteDecided
from service.domain.history.human_input import NEW_RUN_LOOP, InputReceived, InputRequired
from service.domain.history.state import RunLoopState
from service.domain.ids import new_id
from service.domain.routes import Route
from service.loop.scheduler import Scheduler
from service.memory.journal.protocol import Journal
from service.memory.journal.standing_approvals import StandingApproval
from service.routing.clarification import as_kept
from service.storage.concurrency import run_to_end
from service.tools.approval import ApprovalPolicy, asked_about, subject, subjects
from service.tools.arguments import check_arguments
from service.tools.protocol import ToolFailure
from service.tools.registry import ToolRegistry


class Answers:
    """Takes answers in."""

    def __init__(
        self,
        journal: Journal,
        scheduler: Scheduler,
        policy: ApprovalPolicy,
        tools: ToolRegistry,
        mover: Mover,
    ) -> None:
        self._journal = journal
        self._scheduler = scheduler
        self._policy = policy
        self._tools = tools
        self._mover = mover

    async def answer(self, run_loop_id: str, answer: Answer, owner: str) -> str:
        """See `Agent.answer`."""
        # To its end: an answer that is journaled must wake its loop, also when nobody waits for it.
        return await run_to_end(self._answer(run_loop_id, answer, owner))

    async def _answer(self, run_loop_id: str, answer: Answer, owner: str) -> str:
        state = await self._journal.replay(run_loop_id, owner=owner)
        while True:
            request = state.awaiting
            if request is None or answer.request_id not in (None, request.request_id):
                asked = await self._repeat(state, answer)
                return await self._where_it_goes_on(run_loop_id, asked)
            if answer.request_id is None:
                await self._check_only_one(state)
            # From now on it is the answer to this request, whatever is asked meanwhile.
            answer = replace(answer, request_id=request.request_id)
            try:
                changed = await self._take(state, request, answer)
            except ConflictError:
                seen = state.last_seq
                state = await self._journal.replay(run_loop_id, owner=owner)
                if state.last_seq == seen:
                    raise
            else:
                if changed:
                    raise ConflictError(
                        f"what run loop {run_loop_id} asked about has changed since:"
                        f" {', '.join(changed)}; nothing was run",
                        advice="Look at it as it is now; you are asked again.",
                    )
                self._scheduler.wake(run_loop_id)
                return await self._where_it_goes_on(run_loop_id, request)

    async def _check_only_one(self, state: RunLoopState) -> None:
        """An answer that names no request is to the only one: its sender may have seen another.

        Raises:
            ConflictError: the loop has asked before.
        """
        asked = await self._journal.read(run_loop_id=state.id, kind="input.required")
        if len(asked) > 1:
            raise ConflictError(
                f"run loop {state.id} has asked {len(asked)} times, and the answer does not say to"
                " which question it is; nothing was decided",
                advice="Send it with the `request_id` of the question: look at the run loop,"
                " `input_required` is what it asks now.",
            )

    async def _take(
        self, state: RunLoopState, request: InputRequired, answer: Answer
    ) -> tuple[str, ...]:
        """Journal an answer, unless something else was journaled meanwhile.

        A yes to what has changed since it was asked for is not taken: it is asked for again, and
        the tools whose calls these are, are returned.
        """
        received = as_kept(request, read_answer(request, answer))
        if request.about == "route":
            await self._tell_router(state, received)
            return ()
        allowed, edited = await self._allowed(request, received)
        # After the look at what the edited calls are about: it may be exchanged between the two.
        ids = {call.id for call in allowed}
        changed = await anyio.to_thread.run_sync(self._changed, request, ids)
        if changed:
            await self._ask_again(state, request)
            return changed
        # What was asked about, and not what a second look would find: the yes is to that alone.
        about = {**request.scopes, **edited}
        about = {call.id: about[call.id] for call in allowed if call.id in about}
        received = received.model_copy(update={"subjects": about})
        given = self._given(state, received, allowed, about)
        if given:
            received = received.model_copy(update=as_journaled(given))
        granting = given if received.remember == "always" else ()
        await self._journal.append(
            state.id, received, durable=True, if_last_seq=state.last_seq, granting=granting
        )
        return ()

    async def rules(
        self, run_loop_id: str, answer: Answer, owner: str
    ) -> tuple[StandingApproval, ...]:
        """What an answer would allow for longer; nothing is decided.

        Raises: as `answer` does.
        """
        state = await self._journal.replay(run_loop_id, owner=owner)
        request = state.awaiting
        if request is None or answer.request_id not in (None, request.request_id):
            raise ConflictError(
                f"run loop {run_loop_id} does not ask that now",
                advice="Look at the run loop: `input_required` is what it asks now.",
            )
        received = read_answer(request, answer)
        allowed, edited = await self._allowed(request, received)
        return self._given(state, received, allowed, {**request.scopes, **edited})

    async def _allowed(
        self, request: InputRequired, received: InputReceived
    ) -> tuple[list[ToolCall], dict[str, str | None]]:
        """The calls that are allowed, as they are to run; of the edited ones what they are about,
        by their ids, where that is narrower than the tool."""
        self._check_edited(request, received)
        allowed = [call for call, decision in decisions_of(request, received) if decision.approved]
        other = [call for call in allowed if call not in request.tool_calls]
        about = await anyio.to_thread.run_sync(subjects, other, self._tools)
        return allowed, {call.id: about.get(call.id, call.name) for call in other}

    def _given(
        self,
        state: RunLoopState,
        received: InputReceived,
        allowed: Sequence[ToolCall],
        about: Mapping[str, str | None],
    ) -> tuple[StandingApproval, ...]:
        """What a yes covers that is remembered; nothing where it is not."""
        if received.remember is None:
            return ()
        scopes = self._scopes(allowed, about)
        return granted(
            state, received, [(call, scopes[call.id]) for call in allowed if call.id in scopes]
        )

    async def _tell_router(self, state: RunLoopState, received: InputReceived) -> None:
        """A person has said where the messages belong that wait in a loop."""
        (chosen,) = received.choices
        if chosen != NEW_RUN_LOOP:
            try:
                await self._mover.move_as_answered(state.id, received, chosen, state.owner)
            except NotFoundError as error:
                raise ConflictError(
                    "the run loop that was chosen is not there any more",
                    advice="It was forgotten meanwhile; choose another one, or a new topic.",
                ) from error
            return
        route = Route(
            decision="new", confidence=1.0, method="person", reason="you said that it is a new one"
        )
        ids = [unseen.id for unseen in state.unseen]
        decided = (RouteDecided(message_id=message_id, route=route) for message_id in ids)
        await self._journal.append(
            state.id, received, *decided, durable=True, if_last_seq=state.last_seq
        )

    async def _where_it_goes_on(self, run_loop_id: str, request: InputRequired) -> str:
        """The loop that goes on with what was answered: another one, where that was the answer."""
        if request.about != "route" or (await self._journal.replay(run_loop_id)).is_active:
            return run_loop_id
        # The move that an answer asked for is journaled right after it; later ones are others.
        for event, following in pairwise(await self._journal.read(run_loop_id=run_loop_id)):
            match event.body, following.body:
                case InputReceived(request_id=request.request_id), MessageMoved() as moved:
                    return moved.to_run_loop_id
                case _:
                    pass
        return run_loop_id

    def _changed(self, request: InputRequired, allowed: Set[str]) -> tuple[str, ...]:
        """What the allowed calls are about, where it is not what was asked about."""
        changed: dict[str, None] = {}
        for call in request.tool_calls:
            asked = request.scopes.get(call.id, call.name)
            if call.id in allowed and subject(call, self._tools) != asked:
                changed[f"`{call.name}` {call.arguments[:200]}"] = None
        return tuple(changed)

    async def _ask_again(self, state: RunLoopState, request: InputRequired) -> None:
        now = await anyio.to_thread.run_sync(
            asked_about, request.tool_calls, self._tools, state.run_loop
        )
        # What cannot be carried out any more stays in the question, which says so: the other calls
        # are asked about beside it.
        again = request.model_copy(
            update={
                "request_id": new_id(),
                "scopes": now.scopes,
                "previews": now.previews,
                "descriptions": now.descriptions | now.failures,
                "warnings": now.warnings,
            }
        )
        await self._journal.append(state.id, again, durable=True, if_last_seq=state.last_seq)

    def _check_edited(self, request: InputRequired, received: InputReceived) -> None:
        for call, decision in decisions_of(request, received):
            if decision.arguments is None:
                continue
            tool = self._tools.get(call.name)
            if tool is None:
                raise InvalidInputError(
                    f"`{call.name}` is not offered any more, so nothing can be run instead",
                    advice="Answer with a yes or a no.",
                )
            try:
                check_arguments(tool, call.arguments)
            except ToolFailure as failure:
                raise InvalidInputError(
                    f"call {call.id}: {failure}", advice="Nothing was decided; correct them."
                ) from failure

    def _scopes(
        self, allowed: Sequence[ToolCall], about: Mapping[str, str | None]
    ) -> dict[str, str]:
        """By the id of a call what the yes to it covers when it is remembered."""
        scopes = {
            call.id: scope
            for call in allowed
            if self._policy.scope(call, self._tools) is not None
            and (scope := about.get(call.id, call.name)) is not None
        }
        if not scopes:
            names = ", ".join(sorted({f"`{call.name}`" for call in allowed}))
            raise InvalidInputError(
                f"a yes to {names} cannot be remembered: it is to be asked for each time",
                advice="Leave out `remember`; or see the setting tools.approval_for.",
            )
        return scopes

    async def _repeat(self, state: RunLoopState, answer: Answer) -> InputRequired:
        """An answer to what is not asked now: fine if it is the one that was taken before.

        Returns:
            What it was the answer to.

        Raises:
            ConflictError: it is not.
        """
        where = f"run loop {state.id}"
        if answer.request_id is None:
            now = state.status.replace("_", " ")
            raise ConflictError(
                f"{where} asks nothing now: it is {now}",
                advice="It may have been answered already; look at the run loop.",
            )
        asked, taken = await self._record(state.id, answer.request_id)
        if asked is None:
            raise ConflictError(
                f"{where} has not asked anything by that request_id",
                advice="Look at the run loop: `input_required` is what it asks now.",
            )
        if taken is None:
            raise ConflictError(
                f"{where} does not wait for this answer any more: it has ended, it was asked"
                " again, or something else was said in the answer's place",
                advice="Look at the run loop; or send a message with its id to go on.",
            )
        try:
            is_same = as_kept(asked, read_answer(asked, answer)) == taken.model_copy(
                update={"scopes": (), "rules": (), "subjects": {}, "message_id": None}
            )
        except InvalidInputError:
            is_same = False
        if not is_same:
            raise ConflictError(
                f"{where} was answered already, with something else",
                advice="The first answer counts; look at the run loop.",
            )
        return asked

    async def _record(
        self, run_loop_id: str, request_id: str
    ) -> tuple[InputRequired | None, InputReceived | None]:
        """A request of a loop, and the answer to it, as the journal has them."""
        asked: InputRequired | None = None
        taken: InputReceived | None = None
        for event in await self._journal.read(run_loop_id=run_loop_id):
            match event.body:
                case InputRequired(request_id=known) as request if known == request_id:
                    asked = request
                case InputReceived(request_id=known) as received if known == request_id:
                    taken = taken or received
                case MessageMoved(reopens=True, message_ids=ids) if (
                    taken is not None and taken.message_id in ids
                ):
                    taken = None  # it was asked again, under another id
                case _:
                    pass
        return asked, taken
