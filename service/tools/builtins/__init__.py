"""The tools that come with Rondo, and why some of them are not offered."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from service.config import Settings
from service.tools.builtins.ask_user import ask_user, choose
from service.tools.builtins.calculator import calculator
from service.tools.builtins.current_time import current_time_tool
from service.tools.builtins.file_tools import NAMES as FILE_TOOLS
from service.tools.builtins.file_tools import file_tools
from service.tools.builtins.file_writing import NAMES as WRITING_TOOLS
from service.tools.builtins.file_writing import file_writing_tools
from service.tools.builtins.memory_tools import memory_expand_tool, memory_search_tool
from service.tools.builtins.read_file import ReadFile
from service.tools.builtins.read_result import Load, read_result_tool
from service.tools.builtins.read_skill import OWN as READ_SKILL
from service.tools.builtins.read_skill import skill_readers
from service.tools.builtins.remember import remember_tool
from service.tools.builtins.run_script import RunScript
from service.tools.builtins.schedule_tools import schedule_tools
from service.tools.builtins.web_fetch import web_fetch_tool
from service.tools.builtins.web_search import web_search_tool
from service.tools.builtins.write_skill import NAMES as CHANGE_SKILLS
from service.tools.builtins.write_skill import skill_tools
from service.tools.documents.document_reader import DocumentReader
from service.tools.files.file_grants import granted_for_reading, granted_for_writing
from service.tools.files.file_writer import FileWriter
from service.tools.protocol import Tool
from service.tools.sandbox.levels import sandbox_for
from service.tools.skills.skill_settings import repository_of, runner_of

if TYPE_CHECKING:
    from service.memory.forgetting.kept_files import KeptFiles
    from service.memory.journal.schedule_store import Schedules
    from service.memory.protocol import MemoryReader


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """The tools to register, and those that are not offered."""

    tools: tuple[Tool, ...]
    withheld: Mapping[str, str]
    """By name: why the tool is not offered, and what to do about it."""
    remembers_no_yes: frozenset[str] = frozenset()
    """For which no yes is remembered, unless the settings say something else of them."""
    asks_each_time: frozenset[str] = frozenset()
    """Of which each call needs a yes of its own, whatever the settings say."""


def builtin_tools(
    settings: Settings,
    memory: MemoryReader,
    load: Load,
    files: KeptFiles,
    schedules: Schedules | None = None,
) -> ToolOffer:
    """What can be offered under these settings; scripts only while there are some.

    Args:
        settings: what is wished for.
        memory: is searched.
        load: gives a run loop by its id, for reading on in its results.
        files: keeps what files held that are changed, and what persons have sent.
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
    for offered, reasons in (
        _questions(settings),
        _of_web(settings),
        _of_files(settings, load, files),
        _of_skills(settings),
        _of_schedules(settings, load, schedules),
    ):
        tools += offered
        withheld |= reasons
    unconfined = [tool for tool in tools if isinstance(tool, RunScript) and tool.warning]
    return ToolOffer(
        tools=tuple(tools),
        withheld=withheld,
        remembers_no_yes=frozenset(WRITING_TOOLS) - withheld.keys(),
        asks_each_time=frozenset(tool.definition.name for tool in unconfined)
        | (CHANGE_SKILLS - withheld.keys()),
    )


_Offered = tuple[list[Tool], dict[str, str]]
"""Tools, and by their names why others are not offered."""


def _questions(settings: Settings) -> _Offered:
    reason = _no_questions(settings)
    if reason is None:
        return [ask_user, choose], {}
    return [], {each.definition.name: reason for each in (ask_user, choose)}


def _of_web(settings: Settings) -> _Offered:
    tools: list[Tool] = []
    withheld: dict[str, str] = {}
    if settings.tools.tavily_api_key.get_secret_value().strip():
        tools.append(web_search_tool(settings.tools.tavily_api_key))
    else:
        withheld["web_search"] = "No Tavily key is set. Set TAVILY_API_KEY to search the web."
    if settings.tools.web_fetch:
        tools.append(web_fetch_tool(private_hosts=settings.tools.web_fetch_private_hosts))
    else:
        withheld["web_fetch"] = "Set tools.web_fetch = true to let the model read pages."
    return tools, withheld


def _of_skills(settings: Settings) -> _Offered:
    """The tools that read, run and change skills and scripts."""
    tools: list[Tool] = []
    withheld: dict[str, str] = {}
    repository = repository_of(settings)
    if settings.tools.skills:
        own, of_projects = skill_readers(repository)
        tools += [own, of_projects] if settings.tools.files_read else [own]
    else:
        withheld[READ_SKILL] = "Skills are switched off. Set tools.skills = true to offer them."
    reason = _no_scripts(settings)
    if reason is None:
        runner = runner_of(settings, repository)
        warning = sandbox_for(settings.tools.sandbox).warning
        tools.append(RunScript(repository, runner, warning=warning))
    else:
        withheld["run_script"] = reason
    reason = reason or _no_writing(settings)
    if reason is None:
        tools += skill_tools(repository)
    else:
        withheld |= dict.fromkeys(CHANGE_SKILLS, reason)
    return tools, withheld


def _of_schedules(settings: Settings, load: Load, schedules: Schedules | None) -> _Offered:
    if schedules is None:
        return [], {}
    reminder, task = schedule_tools(schedules, load)
    if settings.llm.effective_provider != "embedded":
        return [reminder, task], {}
    reason = (
        "The embedded model would set what was never asked for. `rondo schedules add --do` has it"
        " do something at a time."
    )
    return [reminder], {task.definition.name: reason}


def _of_files(settings: Settings, load: Load, files: KeptFiles) -> _Offered:
    tools: list[Tool] = []
    withheld: dict[str, str] = {}
    readable = granted_for_reading(settings)
    documents = DocumentReader(
        partial(sandbox_for, settings.tools.sandbox), hidden=(settings.data_dir.absolute(),)
    )
    tools.append(ReadFile(readable, documents, files.sent, load))
    if readable.folders:
        tools += file_tools(readable)
    else:
        reason = 'No folder is granted. Set tools.files_read = ["~/Documents"], for one.'
        withheld |= dict.fromkeys(FILE_TOOLS, reason)
    if settings.tools.files_write:
        tools += file_writing_tools(FileWriter(granted_for_writing(settings), files.changes))
    else:
        reason = 'No folder may be changed. Set tools.files_write = ["~/Documents/notes"], for one.'
        withheld |= dict.fromkeys(WRITING_TOOLS, reason)
    return tools, withheld


def _no_questions(settings: Settings) -> str | None:
    if not settings.tools.ask_user:
        return "Questions are switched off. Set tools.ask_user = true to let the model ask you."
    if settings.llm.effective_provider == "embedded":
        return (
            "The embedded model would ask instead of answering. A model at an endpoint is offered"
            " it: see llm.base_url and llm.api_key."
        )
    return None


def _no_writing(settings: Settings) -> str | None:
    if settings.llm.effective_provider == "embedded":
        return "The embedded model is too small to write skills that are of use."
    if not settings.tools.skills:
        return "Skills are switched off. Set tools.skills = true to offer them."
    return None


def _no_scripts(settings: Settings) -> str | None:
    if not settings.tools.scripts:
        return "Scripts are switched off. Set tools.scripts = true to offer them."
    if os.name != "posix":
        return "Scripts can only be run on Linux, macOS and other POSIX systems."
    return None
