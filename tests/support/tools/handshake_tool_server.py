"""An MCP server from before the protocol was stateless (2025-06-18), by hand: it answers an
``initialize``, keeps a session, and tells by itself that its tools are others."""

from __future__ import annotations

import json
import sys
from typing import Any

_described = "The time."


def _send(**message: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def _answer(method: str) -> dict[str, Any] | None:
    global _described
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "old", "version": "1"},
            }
        case "tools/list":
            schema = {"type": "object"}
            tool = {"name": "now", "description": _described, "inputSchema": schema}
            return {"tools": [tool]}
        case "tools/call":
            _described = "Something else."
            _send(method="notifications/tools/list_changed")
            return {"content": [{"type": "text", "text": "noon"}]}
    return None


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = _answer(message["method"])
        if result is not None:
            _send(id=message["id"], result=result)
        else:
            _send(id=message["id"], error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    main()
