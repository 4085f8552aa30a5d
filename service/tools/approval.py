"""Which tool calls wait for a person's yes. In doubt, they wait."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from service.domain.messages import ToolCall
from service.tools.protocol import Tool
from service.tools.registry import ToolRegistry

_log = logging.getLogger(__name__)

ApprovalMode = Literal["never", "always", "tool-declared"]
"""``never`` is a person's standing yes to every call; ``tool-declared`` leaves it to each tool."""

Rule = Callable[[ToolCall, Tool], bool]
"""Says of a call whether it needs a yes beyond what its tool declares."""


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Decides which calls wait for a person."""

    mode: ApprovalMode = "tool-declared"
    rule: Rule | None = None

    def needs_approval(self, call: ToolCall, registry: ToolRegistry) -> bool:
        """Whether a person must agree to this call.

        Anything but a clear no counts as yes: an unknown mode, an error in a tool or a rule, an
        answer that is not a bool. A tool that does not exist asks nobody: nothing can run, and
        the registry tells the model so.
        """
        if self.mode == "never":
            return False
        if self.mode != "tool-declared":
            return True
        try:
            tool = registry.get(call.name)
            if tool is None:
                return False
            if tool.needs_approval is not False:
                return True
            return self.rule is not None and self.rule(call, tool) is not False
        except Exception:  # noqa: BLE001 - fails closed
            _log.exception("Whether %s needs approval cannot be told; asking", call.name)
            return True
