from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from service.domain.conversation.messages import ToolResult
from service.tools.builtins.run_script import run_script_tool
from tests.support.tools.tool_calls import CONTEXT, call_of, execute_all, registry_of, result_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def run(
    folder: Path,
    text: str | bytes,
    *,
    name: str = "s.sh",
    limit: float = 60,
    **given: object,
) -> ToolResult:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return await result_of(run_script_tool(folder, time_limit_seconds=limit), name=name, **given)


def is_alive(process: int) -> bool:
    """Whether a process runs; a zombie that nobody has fetched does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def written(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def running_from(folder: Path) -> list[int]:
    """The processes whose command line names the folder."""
    pids = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in line.read_bytes():
                pids.append(int(line.parent.name))
    return pids


async def until_written(path: Path) -> int:
    with anyio.fail_after(60):
        while not (words := written(path)):
            await anyio.sleep(0.01)
    return int(words)


async def until_gone(process: int) -> None:
    with anyio.fail_after(60):
        while is_alive(process):
            await anyio.sleep(0.01)


def test_the_description_lists_the_scripts_and_each_run_asks(tmp_path: Path) -> None:
    (tmp_path / "备份.sh").write_text("# Saves 照片.\n")
    tool = run_script_tool(tmp_path)
    assert "- 备份.sh: Saves 照片." in tool.definition.description
    assert tool.needs_approval
    assert tool.effect == "side_effects"


async def test_a_script_gets_arguments_and_standard_input(tmp_path: Path) -> None:
    result = await run(
        tmp_path,
        'import sys\nprint(sys.argv[1:], sys.stdin.read())\nprint("warned", file=sys.stderr)',
        name="读.py",
        arguments=["a b", "$(id)", "中文"],
        input="来自标准输入",
    )
    assert not result.is_error
    assert "exit code 0" in result.content
    assert "stdout:\n['a b', '$(id)', '中文'] 来自标准输入" in result.content
    assert "stderr:\nwarned" in result.content


async def test_a_script_sees_no_secrets_and_works_in_a_folder_that_goes_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    result = await run(
        tmp_path,
        "import os\nprint(sorted(os.environ), os.listdir())\nopen('left', 'w')\nprint(os.getcwd())",
        name="s.py",
    )
    names, _, folder = result.content.partition("stdout:\n")[2].partition("\n")
    assert "OPENAI_API_KEY" not in names
    assert "'TZ'" in names
    assert names.endswith("[]")
    assert not await anyio.Path(folder).exists()


async def test_an_exit_code_is_an_error_that_is_told(tmp_path: Path) -> None:
    result = await run(tmp_path, "echo out; echo no >&2; exit 3")
    assert result.is_error
    assert "exit code 3" in result.content
    assert "stderr:\nno" in result.content


async def test_a_script_that_a_signal_ends_is_told(tmp_path: Path) -> None:
    result = await run(tmp_path, "kill -SEGV $$")
    assert result.is_error
    assert "SIGSEGV" in result.content


async def test_a_script_that_writes_nothing_says_so(tmp_path: Path) -> None:
    assert (await run(tmp_path, "")).content == "`s.sh` ended with exit code 0. It wrote nothing."


async def test_bytes_that_are_no_utf8_are_shown_as_replacements(tmp_path: Path) -> None:
    result = await run(tmp_path, r"printf 'a\377\376b'")
    assert "a\ufffd\ufffdb" in result.content


async def test_huge_output_keeps_its_start_and_end(tmp_path: Path) -> None:
    result = await run(
        tmp_path, "print('start' + 'x' * 30_000_000 + 'end')", name="s.py", arguments=[]
    )
    assert not result.is_error
    assert "stdout:\nstart" in result.content
    assert result.content.endswith("xend")
    assert "bytes were left out" in result.content
    assert len(result.content) < 10_000


async def test_output_without_end_is_stopped_by_the_clock(tmp_path: Path) -> None:
    result = await run(tmp_path, "yes", limit=0.3)
    assert result.is_error
    assert "stopped after 0.3 seconds" in result.content
    assert "y\ny" in result.content


async def test_a_script_that_does_not_read_a_large_input_ends_all_the_same(tmp_path: Path) -> None:
    result = await run(tmp_path, "exec <&-; echo done", input="x" * 5_000_000)
    assert not result.is_error
    assert "done" in result.content


async def test_a_script_that_ignores_the_request_to_end_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    result = await run(
        tmp_path,
        f"trap '' TERM\necho $$ > {note}\necho begun\nwhile :; do sleep 0.1; done",
        limit=0.5,
    )
    assert result.is_error
    assert "stopped after 0.5 seconds" in result.content
    assert "begun" in result.content
    assert not is_alive(int(note.read_text()))


async def test_a_script_may_tidy_up_when_its_time_is_up(tmp_path: Path) -> None:
    result = await run(
        tmp_path, "trap 'echo tidied; exit 0' TERM\nwhile :; do sleep 0.05; done", limit=0.5
    )
    assert result.is_error
    assert "tidied" in result.content


async def test_a_child_that_holds_the_output_open_delays_nothing(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    result = await run(tmp_path, f"sleep 1000 &\necho $! > {note}\necho done", limit=300)
    assert not result.is_error
    assert "done" in result.content
    await until_gone(int(note.read_text()))


async def test_a_child_that_leaves_the_group_delays_nothing_and_ends_too(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    result = await run(
        tmp_path,
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        f"open({str(note)!r}, 'w').write(str(child.pid))\nprint('done')",
        name="s.py",
        limit=300,
        input="x" * 1_000_000,
    )
    assert not result.is_error
    assert "done" in result.content
    if sys.platform == "linux":
        assert not is_alive(int(note.read_text()))
    else:
        os.kill(int(note.read_text()), signal.SIGKILL)


async def test_cancelling_kills_the_whole_group(tmp_path: Path) -> None:
    parent, child = tmp_path / "parent", tmp_path / "child"
    (tmp_path / "s.sh").write_text(
        f"trap '' TERM\nsleep 1000 &\necho $! > {child}\necho $$ > {parent}\nwait"
    )
    registry = registry_of(run_script_tool(tmp_path))
    async with anyio.create_task_group() as group:
        group.start_soon(registry.execute, call_of("run_script", name="s.sh"), CONTEXT)
        processes = [await until_written(parent), await until_written(child)]
        group.cancel_scope.cancel()
    assert not is_alive(processes[0])
    await until_gone(processes[1])


async def test_a_run_that_is_cancelled_at_any_moment_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "s.sh").write_text("trap '' TERM\n(while :; do sleep 0.1; done) &\nwait")
    registry = registry_of(run_script_tool(tmp_path))
    for milliseconds in range(40):
        run = asyncio.create_task(registry.execute(call_of("run_script", name="s.sh"), CONTEXT))
        await anyio.sleep(milliseconds / 1000)
        run.cancel()
        await asyncio.wait((run,))
    for process in running_from(tmp_path):
        await until_gone(process)


async def test_two_runs_at_once_do_not_meet(tmp_path: Path) -> None:
    (tmp_path / "s.sh").write_text('echo "$1" > mine; sleep 0.1; cat mine; ls | wc -l')
    registry = registry_of(run_script_tool(tmp_path))
    calls = [call_of("run_script", word, name="s.sh", arguments=[word]) for word in ("one", "two")]
    results = await execute_all(registry, calls, lambda call: CONTEXT)
    for word, result in zip(("one", "two"), results, strict=True):
        assert f"stdout:\n{word}\n1" in result.content


@pytest.mark.parametrize("name", ["../s.sh", "/bin/sh", "s", "", "不存在.sh"])
async def test_a_script_that_is_not_there_is_answered_with_those_that_are(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "s.sh").write_text("echo never")
    result = await result_of(run_script_tool(tmp_path), name=name)
    assert result.is_error
    assert "The scripts are: s.sh." in result.content


async def test_what_cannot_be_started_is_told_in_words(tmp_path: Path) -> None:
    path = tmp_path / "odd"
    path.write_bytes(b"\x00\x01not a program")
    path.chmod(0o755)
    result = await result_of(run_script_tool(tmp_path), name="odd")
    assert result.is_error
    assert "could not be started" in result.content
    refused = await run(tmp_path, "echo", arguments=["a\x00b"])
    assert refused.is_error
    assert "could not be started" in refused.content
