"""What the tests of the command line share: running commands, and what answers them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from click.testing import CliRunner, Result

from service.cli.rondo_command import rondo
from service.cli.terminal.output import aside, out


@dataclass(frozen=True, slots=True)
class Terminal:
    """Runs commands as they are typed, with a data folder and an address of their own."""

    data_dir: Path
    port: int

    def run(self, *arguments: str, stdin: str | bytes | None = None, **variables: str) -> Result:
        """Run ``rondo ARGUMENTS…``; its exit code, and what it wrote where."""
        environment: Mapping[str, str | None] = {
            "RONDO_DATA_DIR": str(self.data_dir),
            "RONDO_SERVER__PORT": str(self.port),
            "RONDO_CONFIG": None,
            "OPENAI_API_KEY": None,
            "OPENAI_BASE_URL": None,
            "ANTHROPIC_API_KEY": None,
            "ANTHROPIC_BASE_URL": None,
            "TAVILY_API_KEY": None,
            "COLUMNS": "100",
            **variables,
        }
        for console in (out, aside):  # a command has a process, and so a terminal, of its own
            console.cache_clear()
        return CliRunner().invoke(
            rondo, list(arguments), input=stdin, env=environment, prog_name="rondo"
        )


@contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[int]:
    """A server that answers each request as told; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer(self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def write(
    handler: BaseHTTPRequestHandler, body: str, *, status: int = 200, media_type: str = "text/html"
) -> None:
    """Answer with this, and close the connection."""
    raw = body.encode()
    handler.send_response(status)
    handler.send_header("Content-Type", media_type)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(raw)
    handler.close_connection = True


def on_screen(written: str) -> str:
    """What is left on a terminal, once the cursor has been moved as it was told to."""
    lines, row = [""], 0
    for piece in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", written):
        if piece == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif piece == "\x1b[1A":
            row -= 1
        elif piece == "\x1b[2K":
            lines[row] = ""
        elif piece and not re.match(r"\x1b\[|\r", piece):
            lines[row] += piece
    return "\n".join(line.rstrip() for line in lines)
