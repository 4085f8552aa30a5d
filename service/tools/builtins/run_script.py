"""Running a script of the script repository in a child process.

A person put the script into the repository, or said yes to what a model wrote; and they agree to
its runs. What runs is a copy of the whole skill, and is what they agreed to. It runs in a sandbox
where this machine has one: there it sees the system and the copy, and of the person's files what
they granted to scripts.
"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field

from service.domain.conversation.tool_definitions import ToolContext, ToolDefinition, ToolEffect
from service.domain.errors import StorageError
from service.tools.decorator import FunctionTool, tool
from service.tools.model_text import fitted
from service.tools.protocol import CallPreview, ToolFailure
from service.tools.sandbox.confinement import Confinement
from service.tools.sandbox.levels import NO_SANDBOX, Sandbox
from service.tools.scripts.child_process import GRACE_SECONDS
from service.tools.scripts.domain_proxy import DomainProxy
from service.tools.scripts.output_text import as_text
from service.tools.skills.skill_catalogue import Skill, scripts_of
from service.tools.skills.skill_repository import SkillRepository
from service.tools.skills.skill_runner import (
    NO_GRANTS,
    PlannedRun,
    RunOptions,
    ScriptCall,
    ScriptRun,
    SkillRunner,
)
from service.tools.skills.version_store import VersionStore

NAME = "run_script"
_TIDYING_SECONDS = 20
_INPUT_SHOWN = 20_000
"""Characters of what a script is to read that a person is shown before they say yes."""

Arguments = Annotated[
    list[Annotated[str, Field(max_length=10_000)]],
    Field(max_length=100, description="What is given on the command line, one by one."),
]


class RunScript:
    """The `run_script` tool over a script repository. Its description lists the scripts that lie by
    themselves; those of a skill are told with it.

    A run is a child process without a shell, with ``PATH``, ``HOME``, ``LANG`` and ``TZ`` as its
    whole environment, see `SkillRunner`.
    """

    def __init__(
        self, repository: SkillRepository, runner: SkillRunner, *, warning: str | None = None
    ) -> None:
        """Name what is run.

        Args:
            repository: where the scripts are.
            runner: runs them.
            warning: what a person has to know before they say yes.
        """
        self._repository = repository
        self._runner = runner
        self._warning = warning
        self._tool = self._made()

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told: the scripts that there are now."""
        return self._tool.definition.model_copy(
            update={"description": _description(self._offered())}
        )

    @property
    def withheld(self) -> str | None:
        """Why the model is not offered it now."""
        try:
            skills = self._repository.look().skills
        except StorageError as error:
            return f"{error.detail}. {error.advice}"
        if any(map(scripts_of, skills)):
            return None
        return (
            f"There are no scripts in {self._repository.scripts}. Put executable, .py or .sh files"
            " there; or into the folder scripts of a skill."
        )

    @property
    def effect(self) -> ToolEffect:
        """A script may do anything, whatever its manifest says."""
        return self._tool.effect

    @property
    def outside(self) -> bool:
        """What a script writes can be anybody's words."""
        return True

    @property
    def needs_approval(self) -> bool:
        """A person agrees to each run."""
        return self._tool.needs_approval

    @property
    def warning(self) -> str | None:
        """See `WarnsPerson`."""
        return self._warning

    @property
    def timeout_seconds(self) -> float:
        """How long one call may take, with the tidying up."""
        return self._runner.longest_seconds + GRACE_SECONDS + _TIDYING_SECONDS

    def check(self, arguments: str) -> None:
        """See `ChecksArguments`."""
        self._tool.approval_scope(arguments)

    def approval_scope(self, arguments: str) -> str | None:
        """See `ScopesApproval`: the script, and all that it can load now."""
        return self._tool.approval_scope(arguments)

    def preview(self, arguments: str) -> CallPreview:
        """See `PreviewsCalls`: what is on the command line, and what it would read."""
        run = self._runner.planned(_call(self._tool.read(arguments)))
        return CallPreview(run.version, _shown(run))

    async def run(self, arguments: str, context: ToolContext) -> str:
        """See `Tool`."""
        return await self._tool.run(arguments, context)

    def _offered(self) -> tuple[Skill, ...]:
        try:
            return self._repository.look().skills
        except StorageError:
            return ()  # it is withheld then

    def _made(self) -> FunctionTool:
        @tool(
            description=_description(()),
            effect="side_effects",
            needs_approval=True,
            scope=lambda given: self._runner.version(_call(given)),
        )
        async def run_script(
            context: ToolContext,
            name: Annotated[str, Field(description="As listed; of a skill, SKILL/scripts/FILE.")],
            arguments: Arguments = [],  # noqa: B006 - pydantic copies it
            input: Annotated[  # noqa: A002 - the name that the model sees
                str, Field(description="What it reads from standard input.")
            ] = "",
            parameters: Annotated[
                dict[str, Any],
                Field(description="In place of arguments, for a script that names parameters."),
            ] = {},  # noqa: B006 - pydantic copies it
        ) -> str:
            run = await self._runner.run(
                ScriptCall(name, arguments, input, parameters),
                covers=lambda version: context.covers(NAME, version),
                on_output=as_text(context.show_output),
            )
            report = in_words(run)
            if run.outcome.timed_out or run.exceeded or run.outcome.exit_code:
                raise ToolFailure(report + _not_copied(run.left_out))
            return report

        return run_script


def run_script_tool(
    folder: Path,
    *,
    runs: Path | None = None,
    time_limit_seconds: float = 60,
    sandbox: Sandbox = NO_SANDBOX,
    confinement: Confinement = NO_GRANTS,
    skills: Path | None = None,
    versions: Path | None = None,
    proxy: DomainProxy | None = None,
) -> RunScript:
    """A `RunScript` over a folder.

    Args:
        folder: the script repository.
        runs: where the folders of the runs are made, see `RunOptions`.
        time_limit_seconds: how long a script may run.
        sandbox: in which scripts run.
        confinement: what they may reach there.
        skills: the folder of skills; None: there are none.
        versions: where versions are kept; None: beside the folder.
        proxy: what they may ask for some hosts, see `RunOptions`.
    """
    kept = VersionStore(versions or folder.with_name(f"{folder.name}-versions"))
    repository = SkillRepository(scripts=folder, skills=skills, versions=kept)
    options = RunOptions(runs, time_limit_seconds, sandbox, confinement, proxy)
    return RunScript(repository, SkillRunner(repository, options), warning=sandbox.warning)


def in_words(run: ScriptRun) -> str:
    """How a run ended, and what it wrote."""
    outcome = run.outcome
    if run.exceeded is not None:
        end = f"`{run.name}` was ended: it {run.exceeded}."
    elif outcome.timed_out:
        again = (
            "It only reads, so it can be run again."
            if run.manifest.effect == "read_only"
            else "It may have done part of its work: check before you run it again."
        )
        end = f"`{run.name}` was stopped after {run.seconds:g} seconds. {again}"
    elif outcome.exit_code < 0:
        end = f"`{run.name}` was ended by {_signal_name(-outcome.exit_code)}."
    else:
        end = f"`{run.name}` ended with exit code {outcome.exit_code}."
    outputs = [
        f"{stream}:\n{output.rstrip()}"
        for stream, output in (("stdout", outcome.stdout), ("stderr", outcome.stderr))
        if output.strip()
    ]
    return "\n\n".join((end, *outputs)) if outputs else f"{end} It wrote nothing."


def _shown(run: PlannedRun) -> str:
    """A run as a person is shown it: quoted as for a shell, though none reads it."""
    lines = [shlex.join((run.script.name, *run.given.arguments))]
    description, effect = run.script.description, run.script.manifest.effect
    if description:
        lines.append(f"  {description}")
    if effect != "side_effects":
        lines.append(f"  Its author says: {effect.replace('_', ' ')}.")
    if run.given.input:
        shown = fitted(run.given.input, _INPUT_SHOWN, how="The script reads all of it")
        lines += ["  It reads:", *(f"  < {line}" for line in shown.splitlines())]
    return "\n".join(lines)


def _call(given: Mapping[str, object]) -> ScriptCall:
    return ScriptCall(
        str(given["name"]),
        cast(Sequence[str], given["arguments"]),
        str(given["input"]),
        cast(Mapping[str, Any], given["parameters"]),
    )


def _not_copied(left_out: tuple[str, ...]) -> str:
    if not left_out:
        return ""
    more = f" and {len(left_out) - 10} more" if len(left_out) > 10 else ""
    return f"\n\nNot copied with it: {', '.join(left_out[:10])}{more}."


def _description(skills: tuple[Skill, ...]) -> str:
    alone = [skill for skill in skills if skill.kind == "script"]
    listed = "\n".join(
        f"- {each.name}: {each.description}" if each.description else f"- {each.name}"
        for each in alone
    )
    of_skills = " Those of a skill are told by read_skill." if len(alone) < len(skills) else ""
    return (
        "Run one of the user's own scripts; the user is asked first. It runs in an empty folder "
        "that is removed afterwards, and what it leaves running in the background is ended."
        f"{of_skills}" + (f" The scripts:\n{listed}" if alone or not skills else "")
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
