"""Reading a page of the web. Each host waits for a yes, as an address can carry words out."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

import anyio.to_thread
from pydantic import Field

from service.domain.text import in_one_line
from service.tools.decorator import FunctionTool, tool
from service.tools.protocol import ToolFailure
from service.tools.web.page_download import MOST_BYTES, download, host_of
from service.tools.web.page_text import text_of
from service.tools.web.public_addresses import Resolve, resolved


def web_fetch_tool(
    *,
    private_hosts: Collection[str] = (),
    resolve: Resolve = resolved,
    timeout_seconds: float = 20,
    most_bytes: int = MOST_BYTES,
) -> FunctionTool:
    """The `web_fetch` tool.

    Args:
        private_hosts: names of hosts that may be asked wherever they are, at any port.
        resolve: tells the addresses of a name.
        timeout_seconds: how long a page may take, with all its redirects.
        most_bytes: how large it may be, unpacked.
    """
    hosts = frozenset(each.strip().lower() for each in private_hosts)

    @tool(
        effect="read_only",
        needs_approval=True,
        scope=lambda given: host_of(str(given["address"]), hosts),
        timeout_seconds=timeout_seconds + 20,
        outside=True,
    )
    async def web_fetch(
        address: Annotated[str, Field(min_length=1, description="Of the page: https://…")],
    ) -> str:
        """Read a page of the web. The user is asked first, once for each host."""
        page = await download(
            address,
            resolve=resolve,
            private_hosts=hosts,
            timeout_seconds=timeout_seconds,
            most_bytes=most_bytes,
        )
        words = await anyio.to_thread.run_sync(text_of, page, abandon_on_cancel=True)
        if not words.text:
            raise ToolFailure("The page holds no text: it may need a browser. Try another.")
        head = filter(None, (in_one_line(words.title), page.address, _dated(words.date)))
        return "\n".join((*head, "", words.text))

    return web_fetch


def _dated(date: str) -> str:
    return f"Published: {in_one_line(date)}" if date else ""
