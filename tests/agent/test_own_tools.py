"""Tools of one's own, by the settings and by entry points: loaded, refused in words, left out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from service.agent.agent_factory import agent_from_settings
from service.agent.plugins import load_tools
from service.agent.tool_listing import listed_tools
from service.cli.doctor_checks import check_tools
from service.config import LLMSettings, Settings, ToolsSettings
from service.domain.conversation.messages import ToolCall
from service.domain.errors import ConfigurationError
from tests.support.cli.commands import Terminal
from tests.support.tools.tool_calls import CONTEXT

MODULE = '''
import time
from service import tool

@tool(effect="read_only", output_limit=40)
def recite(times: int) -> str:
    """Recite a poem. Over and over."""
    return "Ein Reh steht im Wald. " * times

@tool(effect="idempotent", needs_approval=True, timeout_seconds=0.2)
def 睡_() -> str:
    """Sleep."""

def plain(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"

several = [recite, plain]
number = 4
'''.replace("睡_", "doze")
WRONG = '''
from service import tool

@tool(effect="harmless")
def launch() -> None:
    """Launch."""
'''
SAME = '''
def calculator(expression: str) -> str:
    """Another one."""
    return "42"
'''


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "code"
    folder.mkdir()
    for name, text in {
        "own_poems": MODULE,
        "own_wrong": WRONG,
        "own_same": SAME,
        "own_broken": "import nothing_of_this_name_at_all\n",
        "own_raising": "raise RuntimeError('no sensor 温度')\n",
        "own_leaving": "raise SystemExit(3)\n",
        "own_empty": "",
    }.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(tmp_path)
    for name in ("TAVILY_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    yield folder
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


def settings(tmp_path: Path, *names: str, entry_points: bool = True) -> Settings:
    return Settings(
        data_dir=tmp_path / "data",
        tools=ToolsSettings(modules=names, entry_points=entry_points),
        llm=LLMSettings(provider="embedded"),
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("own_poems:recite", ["recite"]),
        ("own_poems:plain", ["plain"]),
        ("own_poems:several", ["recite", "plain"]),
        ("own_poems", ["recite", "doze"]),
    ],
)
def test_a_tool_a_function_a_list_and_a_module_can_be_named(
    tmp_path: Path, name: str, expected: list[str]
) -> None:
    listing = listed_tools(agent_from_settings(settings(tmp_path, name)))
    assert [each.name for each in listing.tools][-len(expected) :] == expected
    plain = {each.name: each for each in listing.tools}.get("plain")
    assert plain is None or plain.effect == "side_effects", "what does not say is taken for risky"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("own_wrong", "'harmless' is not an effect"),
        ("own_wrong:launch", "'harmless' is not an effect"),
        ("own_same:calculator", "Two tools are called `calculator`"),
        ("own_poems:number", "neither a tool nor a function"),
        ("own_poems:poem", "no attribute 'poem'"),
        ("own_empty", "holds no tool"),
        (":recite", "is no name of code"),
    ],
)
def test_what_is_wrong_is_refused_at_the_start_in_words(
    tmp_path: Path, name: str, words: str
) -> None:
    chosen = settings(tmp_path, name)
    with pytest.raises(ConfigurationError) as refused:
        agent_from_settings(chosen)
    assert words in str(refused.value.detail)
    assert name in str(refused.value.detail)
    assert refused.value.advice
    finding = check_tools(chosen)
    assert finding.verdict == "broken"
    assert words in finding.words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("own_broken:x", "nothing_of_this_name_at_all"),
        ("own_raising", "no sensor 温度"),
        ("own_leaving", "SystemExit"),
        ("not_installed:tool", "not_installed"),
    ],
)
def test_a_module_that_cannot_be_imported_disables_itself_and_says_so(
    tmp_path: Path, name: str, words: str
) -> None:
    chosen = settings(tmp_path, name, "own_poems:plain")
    listing = listed_tools(agent_from_settings(chosen))
    assert "plain" in [each.name for each in listing.tools]
    reasons = {each.name: each.reason for each in listing.not_offered}
    assert words in reasons[name]
    finding = check_tools(chosen)
    assert finding.verdict == "note"
    assert words in finding.words


def test_an_installed_package_adds_tools_unless_that_is_switched_off(
    tmp_path: Path, modules: Path
) -> None:
    package = modules / "own_package-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: own-package\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[rondo.tools]\npoems = own_poems:recite\n")
    assert "recite" in agent_from_settings(settings(tmp_path)).tools.names
    off = settings(tmp_path, entry_points=False)
    assert "recite" not in agent_from_settings(off).tools.names
    assert check_tools(off).words == "of your own: none"
    assert [tool for _, tool in load_tools([]).tools]


def test_limits_of_a_tool_are_kept(tmp_path: Path) -> None:
    registry = agent_from_settings(settings(tmp_path, "own_poems")).tools

    async def run() -> tuple[str, str]:
        call = ToolCall(id="c", name="recite", arguments='{"times": 30}')
        result = await registry.execute(call, CONTEXT)
        return result.content, registry.shown(result, "recite")

    whole, shown = anyio.run(run)
    assert len(whole) == 30 * 23
    assert shown.startswith(whole[:30])
    assert "read_result" in shown
    assert "650 of 690 characters" in shown


def test_at_a_terminal(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "data", 1)

    def run(*arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
        names = '["own_poems:several", "own_poems:doze", "own_broken"]'
        ran = terminal.run("tools", *arguments, stdin=stdin, RONDO_TOOLS__MODULES=names)
        return ran.exit_code, ran.stdout, ran.stderr

    code, out, err = run()
    assert code == 0
    assert "No daemon is running" in err
    assert "Recite a poem." in out
    assert "Over and over" not in out
    assert "own_broken is not offered" in err
    listing = json.loads(run("list", "--json")[1])
    assert {"recite", "plain", "doze"} <= {each["name"] for each in listing["tools"]}
    code, out, _ = run("show", "recite")
    assert "times  integer" in out
    assert "reads · runs without asking · 30 s at most" in out
    assert run("run", "plain", '{"city": "里斯本"}')[:2] == (0, "rain in 里斯本\n")
    code, out, err = run("run", "plain", "{}")
    assert code == 1
    assert "city" in err
    assert run("run", "plain", '{"city')[0] == 1
    code, _, err = run("run", "recit")
    assert code == 2
    assert "recite" in err
    assert run("run", "doze", stdin="n\n")[0] == 1
    assert run("run", "doze", "--yes")[:2] == (0, "Done.\n")
    assert run("run", "read_result")[0] == 2
    assert run("run", "remind_me")[0] == 2
    code, _, err = run("show", "web_search")
    assert code == 1
    assert "TAVILY_API_KEY" in err
