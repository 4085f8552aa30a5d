"""Which tool calls wait for a person's yes, and what a yes that is remembered covers.

In doubt, they wait: whatever is not a clear no, and whatever fails, counts as a reason to ask.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from service.config import ApprovalMode as ApprovalMode
from service.domain.conversation.messages import ToolCall
from service.domain.run_loops import RunLoop
from service.tools.arguments import json_object
from service.tools.model_text import did_you_mean
from service.tools.protocol import (
    AsksPerson,
    DescribesCall,
    PreviewsCalls,
    ScopesApproval,
    Tool,
    ToolFailure,
    WarnsPerson,
)
from service.tools.registry import ToolRegistry

_log = logging.getLogger(__name__)

Rule = Callable[[ToolCall, Tool], bool]
"""Says of a call whether it needs a yes beyond what its tool and the mode ask for."""

Predicate = Callable[[Mapping[str, Any]], bool]
"""The same for the calls of one tool, by their arguments. They are what the model wrote: not
checked, and without those that it left out."""


def subject(call: ToolCall, registry: ToolRegistry) -> str | None:
    """What a yes to this call is about: the tool's name, and after it what the tool narrows it
    down to, such as the content of a script. A yes counts only as long as this stays the same.

    None where the tool cannot tell.
    """
    try:
        tool = registry.get(call.name)
        if tool is None:
            return call.name  # nothing can run, and the registry tells the model so
        narrower: object = None
        if isinstance(tool, ScopesApproval):
            narrower = tool.approval_scope(call.arguments)
        if narrower is None:
            return call.name
        if isinstance(narrower, str) and narrower.strip():
            return f"{call.name} {narrower}"
        _log.error("What a yes to %s covers is told as %r; not remembered", call.name, narrower)
    except ToolFailure:
        pass  # a call that cannot run: it is asked for, and comes to a failure of its own
    except Exception:  # noqa: BLE001 - fails closed
        _log.exception("What a yes to %s covers cannot be told; not remembered", call.name)
    return None


def subjects(calls: Iterable[ToolCall], registry: ToolRegistry) -> dict[str, str | None]:
    """By the id of a call its subject, but for those where it is the tool's name alone."""
    named = {call.id: (subject(call, registry), call.name) for call in calls}
    return {call_id: about for call_id, (about, name) in named.items() if about != name}


@dataclass(frozen=True, slots=True)
class AskedAbout:
    """What a person is asked about, by the ids of the calls."""

    scopes: dict[str, str | None]
    """As `subjects` gives them."""
    previews: dict[str, str]
    """What calls would do, of tools that tell it."""
    descriptions: dict[str, str]
    """What calls come to in words, of tools that tell it."""
    warnings: tuple[str, ...]
    """What to know before, of their tools, each once."""
    failures: dict[str, str]
    """Why calls cannot be carried out, of such tools: there is nothing to say yes to."""


def asked_about(
    calls: Sequence[ToolCall],
    registry: ToolRegistry,
    run_loop: Callable[[], RunLoop] | None = None,
) -> AskedAbout:
    """What a question about calls has to say of each.

    What is shown and what the yes covers come from the same look at the world. Blocks.

    Args:
        calls: what is asked about.
        registry: where their tools are found.
        run_loop: gives that in which they are; None: they are in none, and nothing is described.
    """
    tools = [registry.get(name) for name in dict.fromkeys(call.name for call in calls)]
    warned = (each.warning for each in tools if each is not None and isinstance(each, WarnsPerson))
    about = AskedAbout({}, {}, {}, tuple(filter(None, warned)), {})
    for call in calls:
        if run_loop is not None:
            _describe(call, registry, run_loop, about)
        previewing = _previewing(call, registry)
        if previewing is None:
            about.scopes.update(subjects((call,), registry))
            continue
        about.scopes[call.id] = None
        try:
            preview = previewing.preview(call.arguments)
        except ToolFailure as failure:
            about.failures[call.id] = str(failure)
            continue
        except Exception:  # noqa: BLE001 - fails closed
            _log.exception("What a call of %s would do cannot be told", call.name)
            continue
        about.scopes[call.id] = f"{call.name} {preview.scope}"
        about.previews[call.id] = preview.text
    return about


def _describe(
    call: ToolCall, registry: ToolRegistry, run_loop: Callable[[], RunLoop], about: AskedAbout
) -> None:
    tool = registry.get(call.name)
    if tool is None or not isinstance(tool, DescribesCall):
        return
    try:
        words = tool.call_in_words(call.arguments, run_loop())
    except ToolFailure as failure:
        about.failures[call.id] = str(failure)
    except Exception:  # noqa: BLE001 - the question is asked without them
        _log.exception("What a call of %s comes to cannot be told", call.name)
    else:
        if words:
            about.descriptions[call.id] = words


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Decides which calls wait for a person.

    >>> policy = ApprovalPolicy(when={"pay": lambda arguments: arguments["amount"] > 100})
    """

    mode: ApprovalMode = "tool-declared"
    """``tool-declared`` leaves it to each tool; ``always`` asks each time, whatever was
    remembered; ``never`` asks only where a rule does."""
    per_tool: Mapping[str, ApprovalMode] = field(default_factory=dict)
    """By the name of a tool: its own mode."""
    rule: Rule | None = None
    when: Mapping[str, Predicate] = field(default_factory=dict)
    """By the name of a tool: which of its calls need a yes."""

    def needs_approval(
        self, call: ToolCall, registry: ToolRegistry, *, remembered: Set[str] = frozenset()
    ) -> bool:
        """Whether a person must agree to this call.

        Anything but a clear no counts as yes: an unknown mode, an error in a tool or a rule, an
        answer that is not a bool. A tool that does not exist asks nobody: nothing can run, and
        the registry tells the model so. The same goes for a tool by which the model asks.

        Args:
            call: what the model wants to run, with the arguments that it is to run with.
            registry: where its tool is found.
            remembered: scopes that a person has said yes to for longer, see `scope`.
        """
        try:
            return self._asks(call, registry) and not self._covered(call, registry, remembered)
        except Exception:  # noqa: BLE001 - fails closed
            _log.exception("Whether %s needs approval cannot be told; asking", call.name)
            return True

    def allowed(
        self, call: ToolCall, registry: ToolRegistry, *, remembered: Set[str] = frozenset()
    ) -> frozenset[str] | None:
        """The subjects that a call without an answer of its own may be about; see `needs_approval`.

        None where it needs nobody's yes, whatever it is about.
        """
        try:
            if not self._asks(call, registry):
                return None
        except Exception:  # noqa: BLE001 - fails closed
            _log.exception("Whether %s needs approval cannot be told", call.name)
        return _of_tool(call.name, remembered)

    def scope(self, call: ToolCall, registry: ToolRegistry) -> str | None:
        """What a yes to this call covers when it is remembered: its `subject`.

        None where no yes is remembered: with the mode ``always``, for a tool that does not exist,
        and where the tool cannot tell.
        """
        try:
            if registry.get(call.name) is None or registry.asking(call.name) is not None:
                return None
            return None if self._is_always(call.name) else subject(call, registry)
        except Exception:  # noqa: BLE001 - fails closed
            _log.exception("What a yes to %s covers cannot be told; not remembered", call.name)
            return None

    def asks_for(self, tool: Tool) -> bool:
        """Whether every call of a tool needs a yes, but for what is remembered."""
        return not isinstance(tool, AsksPerson) and self._always_asks(tool)

    def asks_each_time(self, name: str) -> bool:
        """Whether each call of a tool needs a yes of its own, whatever was allowed for longer."""
        return self._is_always(name)

    def _always_asks(self, tool: Tool) -> bool:
        name = tool.definition.name
        if self._mode(name) == "tool-declared":
            return tool.needs_approval is not False
        return self._is_always(name)

    def warn_of_unknown_tools(self, registry: ToolRegistry, *, prefix: str | None = None) -> None:
        """Say in the log which of the tools that it names are not there: misspelt, most likely.

        Args:
            registry: has those that are.
            prefix: of the tools of the source of this prefix, which has brought them by now; None:
                of all others than those of sources.
        """
        for name in dict.fromkeys((*self.per_tool, *self.when)):
            prefixes = (each.prefix for each in registry.sources)
            of = next((each for each in prefixes if name.startswith(each)), None)
            if of != prefix or registry.get(name) is not None:
                continue
            if of is not None and name in registry.unavailable:
                continue  # it is there, and why it is not offered is told
            meant = did_you_mean(name, registry.names)
            _log.warning(
                "Approval is set for the tool `%s`, but none of that name is offered.%s",
                name,
                meant,
            )

    def _mode(self, name: str) -> object:
        return self.per_tool.get(name, self.mode)

    def _is_always(self, name: str) -> bool:
        """A mode that does not exist counts as ``always``."""
        return self._mode(name) not in ("tool-declared", "never")

    def _asks(self, call: ToolCall, registry: ToolRegistry) -> bool:
        tool = registry.get(call.name)
        if tool is None:
            return self._is_always(call.name)
        if registry.asking(call.name) is not None:
            return False
        if self._always_asks(tool):
            return True
        if self.rule is not None and self.rule(call, tool) is not False:
            return True
        predicate = self.when.get(call.name)
        return predicate is not None and predicate(json_object(call.arguments)) is not False

    def _covered(self, call: ToolCall, registry: ToolRegistry, remembered: Set[str]) -> bool:
        # A scope can take a file to be read: only where something of this tool is remembered.
        scopes = _of_tool(call.name, remembered)
        return bool(scopes) and self.scope(call, registry) in scopes


def _previewing(call: ToolCall, registry: ToolRegistry) -> PreviewsCalls | None:
    tool: object = registry.get(call.name)
    return tool if isinstance(tool, PreviewsCalls) else None


def _of_tool(name: str, remembered: Set[str]) -> frozenset[str]:
    return frozenset(each for each in remembered if each == name or each.startswith(f"{name} "))
