"""Why weights could not be fetched.

Both are `ModelStoreError`s of Rondo; these tell callers what makes no sense to try again.
"""

from __future__ import annotations

from service.domain.errors import ModelStoreError


class PullFailedError(ModelStoreError):
    """No source gave the file. The detail says of each source what failed."""

    def __init__(self, detail: str, *, advice: str, wrong_hash: bool = False) -> None:
        super().__init__(detail, advice=advice)
        self.wrong_hash = wrong_hash
        """Whether every source gave another file than the known one: they will do so again."""


class PullCancelledError(ModelStoreError):
    """The pull was asked to stop. What was fetched is kept."""

    title = "Fetching a model was stopped"


class SourceFailed(Exception):
    """One source did not give the file; the text says why, in words."""

    def __init__(self, reason: str, *, wrong_hash: bool = False, was_slow: bool = False) -> None:
        super().__init__(reason)
        self.wrong_hash = wrong_hash
        self.was_slow = was_slow
        """Whether it may give the file to somebody who waits longer."""
