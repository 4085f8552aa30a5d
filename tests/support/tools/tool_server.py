"""An MCP server made with the official SDK, run in a process of its own: what it offers and how it
misbehaves is told by its arguments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations


def main() -> None:
    """``FOLDER [stubborn] [leaving]``; files in the folder tell and are told."""
    folder, modes = Path(sys.argv[1]), sys.argv[2:]
    with (folder / "starts").open("a") as starts:
        starts.write(f"{os.getpid()}\n")
    if "stubborn" in modes:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "600"])  # what a careless server leaves behind
    with (folder / "children").open("a") as children:
        children.write(f"{child.pid}\n")
    server = MCPServer("clock")
    words = folder / "description"
    described = words.read_text("utf-8") if words.exists() else "The time in a city."

    @server.tool(description=described, annotations=ToolAnnotations(read_only_hint=True))
    def now(city: str) -> str:
        print("about to look at the clock", file=sys.stderr)
        return f"noon in {city}"

    @server.tool()
    def fail() -> str:
        """Fail."""
        raise ToolError("the clock stands still 停了")

    @server.tool()
    def end() -> str:
        """End the process."""
        print(f"ended with {os.environ.get('CLOCK_KEY')}", file=sys.stderr, flush=True)
        os._exit(3)

    @server.tool()
    def environment() -> str:
        """What it is given."""
        return " ".join(sorted(os.environ))

    @server.tool()
    def doze() -> str:
        """Sleep."""
        time.sleep(600)
        return ""

    server.run()
    if "stubborn" in modes:
        time.sleep(600)


if __name__ == "__main__":
    main()
