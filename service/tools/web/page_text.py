"""The words of a page: what is read in it, without menus, advertisements and scripts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from service.tools.web.page_download import Download

_META = re.compile(
    rb"<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE
)
_HEAD_BYTES = 4_096
_CHINESE = frozenset(("gb2312", "gbk", "gb18030", "gb_2312-80", "x-gbk"))


@dataclass(frozen=True, slots=True)
class PageText:
    """What a page says."""

    title: str
    date: str
    """When it was published, ``2026-03-01``; empty where it does not say."""
    text: str


def text_of(page: Download) -> PageText:
    """The words of a page. Takes up to seconds for a large one: call it in a worker thread."""
    words = decoded(page)
    if "html" not in page.media_type:
        return PageText(title="", date="", text=words.strip())
    from trafilatura import bare_extraction, html2txt  # 0.5 s

    found = bare_extraction(words, url=page.address, with_metadata=True, include_comments=False)
    if found is None or not found.text:
        return PageText(title="", date="", text=html2txt(words).strip())
    return PageText(title=found.title or "", date=found.date or "", text=found.text.strip())


def decoded(page: Download) -> str:
    """The text of a page, in the charset that the server, or the page, says.

    >>> decoded(Download("http://a.example", "text/html", None, "好".encode("gb18030")))
    '好'
    """
    named = _META.search(page.body[:_HEAD_BYTES])
    told = (page.charset, named[1].decode("ascii") if named else None, "utf-8", "gb18030")
    for each in filter(None, told):
        try:
            return page.body.decode("gb18030" if each.lower() in _CHINESE else each)
        except (LookupError, UnicodeError):
            continue
    return page.body.decode("utf-8", "replace")
