"""The engine: what works behind an agent, put together and set to work."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import anyio.to_thread
from anyio.abc import TaskGroup

from service.agent.agent_options import AgentOptions
from service.agent.consolidation.consolidation_worker import Consolidator
from service.agent.human_input.answer_delivery import Answers
from service.agent.human_input.answer_reading import Answer
from service.agent.human_input.open_questions import Questions
from service.agent.human_input.remembered_yes import RememberedYes
from service.agent.lifecycle import Lifecycle
from service.agent.loop_control import Control
from service.agent.moving.mover import Mover
from service.agent.reception import Reception
from service.agent.schedules.schedule_actions import ScheduleActions
from service.agent.schedules.schedule_runner import ScheduleRunner
from service.domain.conversation.instructions import InstructionKind
from service.domain.errors import LLMError
from service.llm.named_models import Models, NamedModel
from service.llm.protocol import LLM
from service.llm.spending.accounts import Spending
from service.loop.brain import Brain, Decide, DefaultBrain
from service.loop.context.model_context import within_window
from service.loop.context.offered_tools import opening_tools
from service.loop.context.system_prompt import all_openings
from service.loop.custom_brain import OwnBrain
from service.loop.execution import Executor
from service.loop.executor_deps import ExecutorDeps
from service.loop.executors import builtin_executors
from service.loop.executors.admission import admitted
from service.loop.executors.compact import can_compact
from service.loop.executors.custom_executors import watched
from service.loop.hooks.hook_runner import HookRunner
from service.loop.recall.care.limit_model import is_known as knows_embedder
from service.loop.scheduler import Activity, Scheduler
from service.memory.memory import Memory
from service.memory.protocol import Vectors
from service.routing.calibration.recalibration import Recalibration
from service.routing.open_loop_vectors import EmbedQueries, is_known
from service.routing.router import Router
from service.tools.approval import ApprovalPolicy
from service.tools.builtins.ask_user import question_of
from service.tools.protocol import ToolSource
from service.tools.registry import ToolRegistry

log = logging.getLogger(__name__)


class AutoEnhance:
    """Asked for each answer, so that switching counts from the next one on.

    Switches last as long as the process; what is to last longer is the setting.
    """

    def __init__(self, *, default: bool) -> None:
        self._default = default
        self._chosen: dict[str, bool] = {}

    def is_on(self, owner: str) -> bool:
        """Whether the answers to an owner are looked over."""
        return self._chosen.get(owner, self._default)

    def switch(self, owner: str, *, on: bool) -> None:
        """Look over the answers to an owner from now on, or do not."""
        self._chosen[owner] = on


@dataclass(frozen=True, slots=True)
class Engine:
    """The parts that an agent hands its calls on to."""

    scheduler: Scheduler
    reception: Reception
    control: Control
    auto_enhance: AutoEnhance
    answers: Answers
    questions: Questions
    mover: Mover
    recalibration: Recalibration
    spending: Spending
    schedules: ScheduleActions
    consolidator: Consolidator | None = None
    """Where notes are written."""


def start_engine(
    group: TaskGroup,
    models: Models,
    tools: ToolRegistry,
    memory: Memory,
    options: AgentOptions,
    hooks: HookRunner,
    own_brain: Brain | None,
    executors: Mapping[InstructionKind, Executor],
) -> Engine:
    """Put the parts together, begin to work, and take up what an earlier process left.

    Args:
        group: where all work runs.
        models: answer.
        tools: what may be called.
        memory: open.
        options: how the agent behaves.
        hooks: custom code.
        own_brain: decides, where the owner has one; None: the built-in one does.
        executors: the agent's own: before those of the options.
    """
    auto_enhance = AutoEnhance(default=options.auto_enhance)
    brain = _brain(tools, memory, options, auto_enhance)
    llm = models.of(None).llm
    spending = Spending(
        memory.journal.usage,
        options.spend,
        currency=options.prices.currency if options.prices else "",
    )
    deps = _deps(
        models, spending, tools, memory, options, hooks, brain, begins_early=own_brain is None
    )
    brain = within_window(brain, deps)
    decide: Decide = brain.decide
    if own_brain is not None:
        decide = OwnBrain(own_brain, brain, timeout_seconds=options.hook_timeout_seconds).decide
    replaced = admitted(watched({**options.executors, **executors}), deps)
    activity = Activity()
    scheduler = Scheduler(
        group,
        memory,
        decide,
        {**builtin_executors(deps), **replaced},
        activity,
        storage_retry_seconds=options.waits.storage_retry,
    )
    recalibration = Recalibration(memory.folder, memory.journal)
    router = Router(
        llm,
        _embedding_where(memory, is_known),
        options.router,
        calibration=recalibration.current,
        auto_classify=options.auto_classify,
        prices=options.prices,
    )
    reception = Reception(
        group,
        memory,
        router,
        scheduler,
        hooks,
        activity,
        spending,
        storage_retry_seconds=options.waits.storage_retry,
    )
    mover = Mover(memory, scheduler, tools, patience_seconds=options.waits.move)
    answers = Answers(memory.journal, scheduler, options.approval, tools, mover)

    runner = ScheduleRunner(
        memory.journal, scheduler.wake, retry_seconds=options.waits.storage_retry
    )

    async def answer_from_elsewhere(run_loop_id: str, answer: Answer, owner: str) -> None:
        await answers.answer(run_loop_id, answer, owner)

    engine = Engine(
        scheduler=scheduler,
        reception=reception,
        control=Control(
            memory.journal, scheduler, memory.feed, can_compact=partial(can_compact, deps)
        ),
        auto_enhance=auto_enhance,
        answers=answers,
        questions=Questions(memory, answer_from_elsewhere),
        mover=mover,
        recalibration=recalibration,
        schedules=ScheduleActions(memory.journal, runner, tools, options.approval),
        spending=spending,
        consolidator=_consolidator(
            llm, memory, options, scheduler, reception, hooks, activity, spending
        ),
    )
    for source in tools.sources:
        group.start_soon(source.keep, name="tool source")
        group.start_soon(_warn_once_brought, options.approval, tools, source, name="tool names")
    group.start_soon(_warm_up, models.of(None), tools, options, name="warm up")
    lifecycle = Lifecycle(memory, options.linger_seconds, retry_seconds=options.waits.storage_retry)
    _begin(engine, group, memory, router, hooks, lifecycle, runner)
    return engine


def _begin(
    engine: Engine,
    group: TaskGroup,
    memory: Memory,
    router: Router,
    hooks: HookRunner,
    lifecycle: Lifecycle,
    runner: ScheduleRunner,
) -> None:
    """Have the parts begin their work, and take up what was left."""
    if engine.consolidator is not None:
        group.start_soon(engine.consolidator.run, name="consolidation")
    group.start_soon(memory.work, hooks, name="memory")
    group.start_soon(router.keep_ready, memory.journal, name="router")
    group.start_soon(lifecycle.run, name="lifecycle")
    group.start_soon(engine.reception.run, name="reception")
    group.start_soon(runner.run, name="schedules")
    for state in memory.short_term.states():
        engine.scheduler.wake(state.id)


def _deps(
    models: Models,
    spending: Spending,
    tools: ToolRegistry,
    memory: Memory,
    options: AgentOptions,
    hooks: HookRunner,
    brain: DefaultBrain,
    *,
    begins_early: bool,
) -> ExecutorDeps:
    async def embed(texts: Sequence[str]) -> Vectors | None:
        await memory.warmed_up()
        return await memory.long_term.embed_queries(texts)

    remembered = RememberedYes(memory.journal)
    return ExecutorDeps(
        models=models,
        spending=spending,
        tools=tools,
        memory=memory.long_term,
        memory_ready=memory.warmed_up,
        embed=embed,
        embed_for_care=_embedding_where(memory, knows_embedder),
        load=memory.load,
        remember=memory.archivist.submit,
        remembered=memory.archivist.drain,
        waits_for_person=brain.waits_for_person,
        rule_of=lambda call: options.approval.scope(call, tools),
        allowed=lambda state, call: options.approval.allowed(
            call, tools, remembered=remembered.scopes(state, call)
        ),
        granted=remembered.grant,
        begins_early=begins_early,
        hooks=hooks,
        instructions=options.system_prompt,
        replaces_instructions=options.system_prompt_mode == "replace",
        recall_tokens=options.recall_tokens,
        enhance_prompt=options.auto_enhance_prompt,
        compaction=options.compaction,
        archive_seconds=options.waits.archive,
    )


def _embedding_where(memory: Memory, is_known: Callable[[str | None], bool]) -> EmbedQueries:
    """Memory's embedder, where it is the one that a model was trained with."""
    checked: dict[str | None, bool] = {}

    async def embed(texts: Sequence[str]) -> Vectors | None:
        await memory.warmed_up()
        identity = memory.long_term.embedder_identity
        if identity not in checked:
            checked[identity] = await anyio.to_thread.run_sync(is_known, identity)
        return await memory.long_term.embed_queries(texts) if checked[identity] else None

    return embed


def _brain(
    tools: ToolRegistry, memory: Memory, options: AgentOptions, auto_enhance: AutoEnhance
) -> DefaultBrain:
    policy, remembered = options.approval, RememberedYes(memory.journal)
    policy.warn_of_unknown_tools(tools)
    return DefaultBrain(
        lambda state, call: policy.needs_approval(
            call, tools, remembered=remembered.scopes(state, call)
        ),
        question=partial(question_of, tools),
        limits=options.limits,
        auto_enhance=auto_enhance.is_on,
    )


async def _warn_once_brought(
    policy: ApprovalPolicy, tools: ToolRegistry, source: ToolSource
) -> None:
    await source.brought.wait()
    policy.warn_of_unknown_tools(tools, prefix=source.prefix)


def _consolidator(
    llm: LLM,
    memory: Memory,
    options: AgentOptions,
    scheduler: Scheduler,
    reception: Reception,
    hooks: HookRunner,
    activity: Activity,
    spending: Spending,
) -> Consolidator | None:
    memory.long_term.gives_notes = options.consolidation is not None
    if options.consolidation is None:
        return None
    return Consolidator(
        llm,
        memory,
        options.consolidation,
        before_asking=hooks.before_consolidation,
        is_busy=lambda: scheduler.at_work or reception.at_work,
        activity=activity,
        spending=spending,
        answer_tokens=options.answer_tokens,
        prices=options.prices,
    )


async def _warm_up(model: NamedModel, tools: ToolRegistry, options: AgentOptions) -> None:
    llm = model.llm
    openings = all_openings(
        llm,
        instructions=options.system_prompt,
        replaces=options.system_prompt_mode == "replace",
    )
    try:
        await llm.warm_up(openings, tools=opening_tools(tools, model.window_tokens))
    except LLMError as error:
        # Whoever sends a message will hear of it, and so will whoever asks for the status.
        log.warning("the language model is not ready: %s", error.problem().in_words())
    except Exception:
        log.exception("the language model could not be made ready")
