"""Takes connections within a sandbox, and leads each to a socket that was put there.

A program that may use some hosts only has a network of its own, which leads nowhere, and no way to
that socket. It is run by its path (``python -I -S forwarder.py FD SOCKET``), with a socket that
listens already.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys

_PIECE = 1 << 16


async def main(listening: socket.socket, path: str) -> None:
    """Forward without end, which comes with that of the sandbox."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_proxy, to_proxy = await asyncio.open_unix_connection(path)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, to_proxy), _copy(from_proxy, writer))
        for each in (writer, to_proxy):
            each.close()

    server = await asyncio.start_server(forward, sock=listening)
    await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction to its end, and end it on the other side."""
    with contextlib.suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()


if __name__ == "__main__":
    asyncio.run(main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2]))
