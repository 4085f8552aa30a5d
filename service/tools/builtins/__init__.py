"""The tools that come with Rondo, and why some of them are not offered."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.config import Settings
from service.tools.builtins.ask_user import ask_user, choose
from service.tools.builtins.calculator import calculator
from service.tools.builtins.current_time import current_time_tool
from service.tools.builtins.file_tools import NAMES as FILE_TOOLS
from service.tools.builtins.file_tools import file_tools
from service.tools.builtins.memory_tools import memory_expand_tool, memory_search_tool
from service.tools.builtins.read_result import Load, read_result_tool
from service.tools.builtins.remember import remember_tool
from service.tools.builtins.run_script import RunScript, run_script_tool
from service.tools.builtins.schedule_tools import schedule_tools
from service.tools.builtins.web_fetch import web_fetch_tool
from service.tools.builtins.web_search import web_search_tool
from service.tools.files.granted_folders import GrantedFolders
from service.tools.protocol import Tool
from service.tools.sandbox.confinement import Confinement
from service.tools.sandbox.levels import sandbox_for

if TYPE_CHECKING:
    from service.memory.journal.schedule_store import Schedules
    from service.memory.protocol import MemoryReader


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """The tools to register, and those that are not offered."""

    tools: tuple[Tool, ...]
    withheld: Mapping[str, str]
    """By name: why the tool is not offered, and what to do about it."""
    asks_each_time: frozenset[str] = frozenset()
    """Of which each call needs a yes of its own, whatever the settings say."""


def builtin_tools(
    settings: Settings, memory: MemoryReader, load: Load, schedules: Schedules | None = None
) -> ToolOffer:
    """What can be offered under these settings; scripts only while there are some.

    Args:
        settings: what is wished for.
        memory: is searched.
        load: gives a run loop by its id, for reading on in its results.
        schedules: where reminders are kept; None: none can be set.

    Raises:
        ConfigurationError: the sandbox that the settings name does not work on this machine.
    """
    tools: list[Tool] = [
        calculator,
        current_time_tool(),
        memory_search_tool(memory),
        memory_expand_tool(memory),
        remember_tool(memory, load),
        read_result_tool(load),
    ]
    withheld: dict[str, str] = {}
    reason = _no_questions(settings)
    if reason is None:
        tools += [ask_user, choose]
    else:
        withheld |= {each.definition.name: reason for each in (ask_user, choose)}
    if settings.tools.tavily_api_key.get_secret_value().strip():
        tools.append(web_search_tool(settings.tools.tavily_api_key))
    else:
        withheld["web_search"] = "No Tavily key is set. Set TAVILY_API_KEY to search the web."
    if settings.tools.web_fetch:
        tools.append(web_fetch_tool(private_hosts=settings.tools.web_fetch_private_hosts))
    else:
        withheld["web_fetch"] = "Set tools.web_fetch = true to let the model read pages."
    if settings.tools.files_read:
        folders = tuple(each.absolute() for each in settings.tools.files_read)
        hidden = (settings.data_dir.absolute(),)
        tools += file_tools(GrantedFolders(folders, hidden))
    else:
        reason = 'No folder is granted. Set tools.files_read = ["~/Documents"], for one.'
        withheld |= dict.fromkeys(FILE_TOOLS, reason)
    reason = _no_scripts(settings)
    if reason is None:
        runs = settings.data_dir / "script-runs"
        sandbox = sandbox_for(settings.tools.sandbox)
        confinement = Confinement(
            readable=settings.tools.script_read,
            writable=settings.tools.script_write,
            network=settings.tools.script_network,
            hidden=(settings.data_dir.absolute(),),
        )
        tools.append(
            run_script_tool(
                settings.scripts_dir, runs=runs, sandbox=sandbox, confinement=confinement
            )
        )
    else:
        withheld["run_script"] = reason
    if schedules is not None:
        reminder, task = schedule_tools(schedules, load)
        tools.append(reminder)
        if settings.llm.effective_provider != "embedded":
            tools.append(task)
        else:
            withheld["schedule"] = (
                "The embedded model would set what was never asked for. `rondo schedules add --do`"
                " has it do something at a time."
            )
    unconfined = [tool for tool in tools if isinstance(tool, RunScript) and tool.warning]
    return ToolOffer(
        tools=tuple(tools),
        withheld=withheld,
        asks_each_time=frozenset(tool.definition.name for tool in unconfined),
    )


def _no_questions(settings: Settings) -> str | None:
    if not settings.tools.ask_user:
        return "Questions are switched off. Set tools.ask_user = true to let the model ask you."
    if settings.llm.effective_provider == "embedded":
        return (
            "The embedded model would ask instead of answering. A model at an endpoint is offered"
            " it: see llm.base_url and llm.api_key."
        )
    return None


def _no_scripts(settings: Settings) -> str | None:
    if not settings.tools.scripts:
        return "Scripts are switched off. Set tools.scripts = true to offer them."
    if os.name != "posix":
        return "Scripts can only be run on Linux, macOS and other POSIX systems."
    return None
