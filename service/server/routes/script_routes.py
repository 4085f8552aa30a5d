"""``/v1/scripts``: the script repository, its versions, and running what is in it.

What changes skills or runs scripts is refused while `tools.scripts` is off: then the token alone
runs no code. A run is its caller's own, and ends with the connection.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Annotated, TypeVar

import anyio
import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response

from service.config import Settings
from service.domain.errors import ConflictError, InvalidInputError
from service.server.daemon import StoppingError, TheDaemon
from service.server.event_streams import EventStream, accepts_stream, frame, run_until_disconnect
from service.server.http.request_body import JSONRoute
from service.server.security.bearer_auth import Owner
from service.tools.protocol import ToolFailure
from service.tools.scripts.child_process import OnOutput, Stream
from service.tools.scripts.output_text import as_text
from service.tools.skills.differences import FileState
from service.tools.skills.skill_changes import By, Change, SkillChanges
from service.tools.skills.skill_listing import (
    changed_skill,
    listed_scripts,
    script_result,
    script_to_run,
    skill_details,
    skill_history,
)
from service.tools.skills.skill_repository import SkillRepository
from service.tools.skills.skill_runner import ScriptCall, SkillRunner
from service.tools.skills.skill_settings import repository_of, runner_of
from service.wire.script_bodies import (
    AddSkillRequest,
    ChangedSkill,
    RemovedSkill,
    RevertSkillRequest,
    RunScriptRequest,
    ScriptOutput,
    ScriptResult,
    Scripts,
    SkillDetails,
    SkillDifference,
    SkillFile,
    SkillHistory,
    WriteSkillRequest,
)

router = APIRouter(prefix="/v1/scripts", tags=["scripts"], route_class=JSONRoute)
_MOST_PIECES = 1_000
_Made = TypeVar("_Made")


@router.get("")
async def scripts(daemon: TheDaemon, owner: Owner) -> Scripts:
    """The skills and scripts that there are now, and what cannot be used, with the reason."""
    return await _blocking(listed_scripts, _repository(daemon.settings))


@router.post("", status_code=201)
async def add(body: AddSkillRequest, daemon: TheDaemon, owner: Owner) -> ChangedSkill:
    """Add a skill or a script."""
    files = {path: _state(text) for path, text in body.files.items()}

    def plan(changes: SkillChanges) -> Change:
        return changes.added(body.name, files, kind=body.kind, replace=body.replace)

    return await _blocking(_change, daemon.settings, plan)


@router.get("/{name}")
async def show(name: str, daemon: TheDaemon, owner: Owner) -> SkillDetails:
    """One of them, whole."""
    return await _blocking(skill_details, _repository(daemon.settings), name)


@router.get("/{name}/file")
async def file(
    name: str,
    daemon: TheDaemon,
    owner: Owner,
    path: Annotated[str, Query(description="In the skill, such as references/x.md.")],
) -> SkillFile:
    """A file of one."""

    def read() -> SkillFile:
        repository = _repository(daemon.settings)
        data = repository.read(repository.skill(name), path)
        return SkillFile(name=name, file=path, text=data.decode("utf-8", "replace"))

    return await _blocking(read)


@router.put("/{name}/file")
async def write(
    name: str, body: WriteSkillRequest, daemon: TheDaemon, owner: Owner
) -> ChangedSkill:
    """Write a file, whole; a skill that there is none of begins with its ``SKILL.md``."""
    return await _blocking(
        _change, daemon.settings, lambda c: c.written(name, body.file, body.text)
    )


@router.delete("/{name}")
async def remove(
    name: str,
    daemon: TheDaemon,
    owner: Owner,
    *,
    versions: Annotated[bool, Query(description="Remove all versions, too, for good.")] = False,
) -> RemovedSkill:
    """Remove one. Its versions stay, and can be brought back, unless they are removed, too."""
    return await _blocking(_removed, daemon.settings, name, versions)


@router.get("/{name}/history")
async def history(name: str, daemon: TheDaemon, owner: Owner) -> SkillHistory:
    """The versions that are kept, oldest first."""
    return await _blocking(skill_history, _repository(daemon.settings), name)


@router.get("/{name}/difference")
async def compared(
    name: str,
    daemon: TheDaemon,
    owner: Owner,
    *,
    before: Annotated[int, Query(ge=1, description="The older version.")],
    after: Annotated[
        int | None, Query(ge=1, description="The newer one; without it, what there is now.")
    ] = None,
) -> SkillDifference:
    """What differs between two versions."""
    words = await _blocking(_repository(daemon.settings).compared, name, before, after)
    return SkillDifference(name=name, difference=words)


@router.post("/{name}/revert")
async def revert(
    name: str, body: RevertSkillRequest, daemon: TheDaemon, owner: Owner
) -> ChangedSkill:
    """Bring an older version back, as a new one."""
    return await _blocking(_change, daemon.settings, lambda c: c.reverted(name, body.version))


@router.post(
    "/{name}/run",
    response_model=ScriptResult,
    responses={
        200: {
            "description": "How it ended; or with `Accept: text/event-stream` what it writes as it"
            " comes (`script.output`), then how it ended (`script.finished`)",
            "content": {"text/event-stream": {}},
        }
    },
)
async def run(
    name: str, body: RunScriptRequest, request: Request, daemon: TheDaemon, owner: Owner
) -> Response:
    """Run a script. It is killed, with all that it started, when its caller goes away."""
    repository = _repository(daemon.settings, changing=True)
    runner = await _blocking(runner_of, daemon.settings, repository)
    script = await _blocking(script_to_run, repository, name, body.script)
    call = ScriptCall(script, body.arguments, body.input, body.parameters)
    try:
        await _blocking(runner.check, call)
    except ToolFailure as failure:
        raise InvalidInputError(str(failure)) from failure
    if accepts_stream(request.headers):
        return EventStream(
            _frames(runner, call),
            closing=daemon.closing,
            heartbeat_seconds=daemon.settings.server.heartbeat_seconds,
        )
    results: list[ScriptResult] = []

    async def work() -> None:
        results.append(await _run(runner, call))

    ending = await run_until_disconnect(work, receive=request.receive, closing=daemon.closing)
    if ending == "client_gone":
        return Response(status_code=204)  # nobody reads it
    if ending == "stopping":
        raise StoppingError(f"{script} was ended", advice="Start the daemon, and run it again.")
    return Response(results[0].model_dump_json(), media_type="application/json")


async def _run(
    runner: SkillRunner,
    call: ScriptCall,
    on_output: OnOutput | None = None,
) -> ScriptResult:
    try:
        # Its caller holds the token, and has named it: that is their yes.
        ended = await runner.run(call, covers=lambda version: True, on_output=on_output)
    except ToolFailure as failure:
        raise ConflictError(str(failure), title="The script was not run") from failure
    return script_result(ended)


async def _frames(runner: SkillRunner, call: ScriptCall) -> AsyncGenerator[bytes, None]:
    """What a script writes, and how it ends. A reader who is slow misses pieces, and delays
    nothing; the result has the start and the end of all."""
    sending, receiving = anyio.create_memory_object_stream[ScriptOutput](_MOST_PIECES)
    results: list[ScriptResult | Exception] = []

    def show(text: str, stream: Stream) -> None:
        with suppress(anyio.WouldBlock, anyio.BrokenResourceError):
            sending.send_nowait(ScriptOutput(stream=stream, text=text))

    async def work() -> None:
        with sending:
            try:
                results.append(await _run(runner, call, as_text(show)))
            except Exception as error:  # noqa: BLE001 - raised below, outside of the group
                results.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        try:
            async for piece in receiving:
                yield frame("script.output", piece.model_dump())
        finally:
            group.cancel_scope.cancel()
    for result in results:
        if isinstance(result, Exception):
            raise result
        yield frame("script.finished", result.model_dump())


def _repository(settings: Settings, *, changing: bool = False) -> SkillRepository:
    if changing and not settings.tools.scripts:
        raise ConflictError(
            "scripts are switched off",
            advice="Set tools.scripts = true, and start the daemon again.",
        )
    return repository_of(settings)


def _change(settings: Settings, plan: Callable[[SkillChanges], Change]) -> ChangedSkill:
    changes = SkillChanges(_repository(settings, changing=True))
    change = plan(changes)
    return changed_skill(change, changes.make(change, By("person")))


def _removed(settings: Settings, name: str, versions: bool) -> RemovedSkill:
    changes = SkillChanges(_repository(settings, changing=True))
    if versions:
        return RemovedSkill(name=name, version=None, versions_removed=changes.purge(name))
    version = changes.make(changes.removed(name), By("person"))
    return RemovedSkill(name=name, version=version.number, versions_removed=0)


def _state(text: str) -> FileState:
    return FileState(text.encode("utf-8", "replace"), text.startswith("#!"))


async def _blocking(function: Callable[..., _Made], *arguments: object) -> _Made:
    return await anyio.to_thread.run_sync(function, *arguments)
