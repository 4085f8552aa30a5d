"""Where an endpoint sends its callers on to, in words that can be shown."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

_MOST = 200  # characters of an address


@dataclass(frozen=True, slots=True)
class Redirect:
    """An answer that says: ask elsewhere. It is not followed: a key goes where its owner sent it,
    and nowhere else.
    """

    target: str
    """Where to; without user, query and fragment, which may hold secrets. Empty: nowhere that can
    be read."""
    base_url: str
    """What the base of the address would have to be; empty where that cannot be told."""

    def detail(self, place: str) -> str:
        """What happened.

        Args:
            place: that was asked, as people know it.
        """
        return f"{place} redirects to {self.target or 'an address that cannot be read'}"

    def advice(self, setting: str) -> str:
        """What to do.

        Args:
            setting: that the base of the address stands in.
        """
        why = "Redirects are not followed, so that nothing goes where you did not send it."
        if self.base_url:
            return f"Set {setting} to {self.base_url} if that is right. {why}"
        return f"Set {setting} to the address of the API itself. {why}"


def redirect(asked: str, base_url: str, location: str) -> Redirect:
    """What a ``Location`` says.

    Args:
        asked: the address that was called.
        base_url: what it was made from.
        location: the header, see https://www.rfc-editor.org/rfc/rfc9110#section-10.2.2.

    >>> redirect("http://x/v1/chat", "http://x/v1", "https://me:pw@y/api/v1/chat?key=1").base_url
    'https://y/api/v1'
    >>> redirect("http://x/v1/chat", "http://x/v1", "/login?next=/v1/chat")
    Redirect(target='http://x/login', base_url='')
    """
    try:
        target = shown(urljoin(asked, location))
    except ValueError:
        target = ""
    path = urlsplit(asked).path.removeprefix(urlsplit(base_url).path.rstrip("/"))
    base = target.removesuffix(path) if path.strip("/") and target.endswith(path) else ""
    return Redirect(target, "" if base == base_url.rstrip("/") else base)


def shown(address: str) -> str:
    """An address as it can be shown: without what may be secret. Empty: it cannot be read.

    >>> shown("https://me:pw@x:8080/v1?key=1#2")
    'https://x:8080/v1'
    """
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    address = f"{parts.scheme}://{host}{port}{parts.path}"
    return address if address.isprintable() and len(address) <= _MOST else ""
