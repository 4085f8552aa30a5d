"""An MCP server from before the protocol was stateless (2025-06-18), by hand: it answers an
``initialize``, keeps a session, tells by itself that its tools are others, and starts in no time.

``[FOLDER]``: there it notes its process and that of a careless child, and whether any that was
noted before was still there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_described = "The time."


def _send(**message: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None where there is no such method."""
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
            tools = {
                "now": _described,
                "end": "End.",
                "babble": "Write what is no message.",
                "trap": "Give what takes for ever to be looked at.",
            }
            endless = {"type": "object", "properties": {"x": {"pattern": "^(a+)+$"}}}
            return {
                "tools": [
                    {
                        "name": name,
                        "description": words,
                        "inputSchema": schema,
                        "outputSchema": endless if name == "trap" else schema,
                    }
                    for name, words in tools.items()
                ]
            }
        case "tools/call" if params["name"] == "end":
            os._exit(3)
        case "tools/call" if params["name"] == "trap":
            return {"content": [], "structuredContent": {"x": "a" * 40 + "!"}}
        case "tools/call" if params["name"] == "babble":
            print("x" * 1000, "\n{}\n[1]\n", "再见", flush=True)
            os.close(1)
        case "tools/call":
            _described = "Something else."
            _send(method="notifications/tools/list_changed")
            return {"content": [{"type": "text", "text": "noon"}]}
    return None


def _note(folder: Path) -> None:
    file = folder / "processes"
    before = file.read_text().split() if file.exists() else []
    late = [number for number in before[-4:] if Path(f"/proc/{number}").exists()]
    if late:
        with (folder / "late").open("a") as told:
            told.write(f"{' '.join(late)}\n")
    child = subprocess.Popen(["sleep", "600"])
    with file.open("a") as processes:
        processes.write(f"{os.getpid()} {child.pid}\n")


def main() -> None:
    """Answer until the input ends."""
    if sys.argv[1:]:
        _note(Path(sys.argv[1]))
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(message["method"], message.get("params", {}))
        if result is not None:
            _send(id=message["id"], result=result)
        else:
            _send(id=message["id"], error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    main()
