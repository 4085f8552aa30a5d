"""Downloading a page: one host, few redirects, a bound size, a bound time, and text only."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from service.tools.protocol import ToolFailure
from service.tools.web.public_addresses import Resolve, checked_address

if TYPE_CHECKING:
    import httpx2

MOST_BYTES = 5_000_000
"""Of a page, unpacked."""
_MOST_REDIRECTS = 5
_LONGEST_ADDRESS = 2_000
_SECONDS_OF_SILENCE = 10
_HEADERS = {
    "Accept": "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.8",
    "Accept-Encoding": "gzip",  # unpacked here, as the HTTP library bounds nothing
    "User-Agent": "Rondo (personal assistant)",
}
_TEXT = frozenset(("application/json", "application/xhtml+xml", "application/xml"))


@dataclass(frozen=True, slots=True)
class Download:
    """A page as it came."""

    address: str
    """After all redirects."""
    media_type: str
    charset: str | None
    """As the server says."""
    body: bytes


def host_of(address: str, private_hosts: Collection[str] = ()) -> str:
    """The host that an address names, in ASCII and lower case.

    Raises:
        ToolFailure: the address is not one that may be fetched.
    """
    return _checked(address, private_hosts).raw_host.decode("ascii")


async def download(
    address: str,
    *,
    resolve: Resolve,
    private_hosts: Collection[str] = (),
    timeout_seconds: float = 20,
    most_bytes: int = MOST_BYTES,
) -> Download:
    """Get a page. No cookie is kept, and no proxy of the environment is used.

    Raises:
        ToolFailure: it cannot be had; says why, and what to do.
    """
    import httpx2

    url = _checked(address, private_hosts)
    try:
        with anyio.fail_after(timeout_seconds):
            for _ in range(_MOST_REDIRECTS + 1):
                got = await _ask(url, resolve, private_hosts, most_bytes)
                if isinstance(got, Download):
                    return got
                url = _followed(url, got, private_hosts)
    except TimeoutError as error:
        raise ToolFailure(
            f"The page was not there within {timeout_seconds:g} seconds. Go on without it."
        ) from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ToolFailure(
            f"{url.host} cannot be reached ({type(error).__name__}). Try another page."
        ) from error
    raise ToolFailure("The page leads from one address to the next without end. Try another.")


def _checked(address: str, private_hosts: Collection[str]) -> httpx2.URL:
    import httpx2

    try:
        url = httpx2.URL(address)
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise ToolFailure(f"{address[:100]!r} is no address: write https://… .") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ToolFailure(f"{address[:100]!r} is no address of the web: write https://… .")
    if len(str(url)) > _LONGEST_ADDRESS:
        raise ToolFailure(f"The address has more than {_LONGEST_ADDRESS:,} characters.")
    if url.userinfo:
        raise ToolFailure("The address holds a user name. Leave out what stands before the @.")
    if url.port is not None and url.raw_host.decode("ascii") not in private_hosts:
        raise ToolFailure(f"Port {url.port} may not be asked: only the usual ones, 80 and 443.")
    return url.copy_with(fragment=None)


def _followed(url: httpx2.URL, location: str, private_hosts: Collection[str]) -> httpx2.URL:
    """Where a redirect leads. Another host is another question: a yes covers one."""
    following = _checked(str(url.join(location)), private_hosts)
    if following.raw_host != url.raw_host:
        raise ToolFailure(
            f"The page is at another host now: {following}. Call again with that address."
        )
    if url.scheme == "https" and following.scheme == "http":
        raise ToolFailure(f"The page leads to an address without encryption, {following}.")
    return following


async def _ask(
    url: httpx2.URL, resolve: Resolve, private_hosts: Collection[str], most_bytes: int
) -> Download | str:
    """The page, or where it has gone."""
    import httpx2

    host = url.raw_host.decode("ascii")
    port = url.port or (443 if url.scheme == "https" else 80)
    address = await checked_address(host, port, resolve=resolve, private_hosts=private_hosts)
    timeout = httpx2.Timeout(_SECONDS_OF_SILENCE)
    async with (
        httpx2.AsyncClient(trust_env=False, timeout=timeout) as client,
        client.stream(
            "GET",
            url.copy_with(host=address),
            headers={**_HEADERS, "Host": url.netloc.decode("ascii")},
            extensions={"sni_hostname": host},  # the certificate is checked against the name
        ) as response,
    ):
        if response.is_redirect and "location" in response.headers:
            return response.headers["location"]
        if not response.is_success:
            raise ToolFailure(f"The page cannot be had: HTTP status {response.status_code}.")
        media_type, charset = _type_of(response)
        body = b"".join([piece async for piece in _unpacked(response, most_bytes)])
    return Download(address=str(url), media_type=media_type, charset=charset, body=body)


def _type_of(response: httpx2.Response) -> tuple[str, str | None]:
    given = response.headers.get("content-type", "text/html")
    media_type = given.partition(";")[0].strip().lower()
    if not media_type.startswith("text/") and media_type not in _TEXT:
        raise ToolFailure(f"It is no page, but {media_type[:60]!r}, which cannot be read.")
    return media_type, response.charset_encoding


async def _unpacked(response: httpx2.Response, most_bytes: int) -> AsyncIterator[bytes]:
    """The body, never more of it than may be."""
    packing = response.headers.get("content-encoding", "identity").strip().lower()
    if packing not in ("identity", "gzip", "x-gzip"):
        raise ToolFailure(f"The page is packed with {packing[:40]!r}, which cannot be read.")
    unpacking = None if packing == "identity" else zlib.decompressobj(31)
    left = most_bytes
    async for raw in response.aiter_raw():
        try:
            piece = unpacking.decompress(raw, left + 1) if unpacking else raw
        except zlib.error as error:
            raise ToolFailure("The page is damaged: it cannot be unpacked.") from error
        left -= len(piece)
        if left < 0:
            raise ToolFailure(f"The page has more than {most_bytes:,} bytes. Try another.")
        yield piece
    if unpacking is not None and not unpacking.eof:
        raise ToolFailure("The page broke off before its end. Try once more.")
