"""Standing approvals: what a person has allowed for good, until they take it back.

One is written in the very transaction that writes the answer by which it was given. One that is
narrowed to a time goes in the transaction that writes anything at all after that: it stays over,
also where the clock is set back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from service.domain.errors import InvalidInputError, NotFoundError
from service.domain.history.approval_rules import NarrowedRule, rule_in_words

_ID_DIGITS = 12


@dataclass(frozen=True, slots=True)
class StandingApproval:
    """A yes that holds for good, or for as long as it was given."""

    owner: str
    scope: str
    """What it covers, see `service.tools.approval.ApprovalPolicy.scope`."""
    tool: str
    granted_at: datetime
    run_loop_id: str
    """Where it was given."""
    arguments: str | None = None
    """Covered are calls with these alone, see `NarrowedRule`; None: with any."""
    until: datetime | None = None
    """When it is over; None: never."""

    @property
    def id(self) -> str:
        """Tells it from others of its scope, which cover other arguments."""
        key = json.dumps((self.scope, self.arguments), ensure_ascii=False)
        return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_DIGITS]

    @property
    def is_narrowed(self) -> bool:
        """Whether it covers less than its scope."""
        return self.arguments is not None or self.until is not None

    def is_over(self, now: datetime) -> bool:
        """Whether its time is over."""
        return self.until is not None and now >= self.until

    @property
    def rule(self) -> NarrowedRule:
        """What it covers."""
        return NarrowedRule(
            scope=self.scope, arguments=self.arguments, since=self.granted_at, until=self.until
        )

    @property
    def in_words(self) -> str:
        """What it covers, in words."""
        return rule_in_words(
            self.scope, self.tool, self.rule.narrowing, arguments=self.arguments or ""
        )

    def narrowed(self, *, arguments: str | None, until: datetime | None) -> StandingApproval:
        """The same, narrower; None: in this it stays as it is.

        Raises:
            InvalidInputError: it would be wider, or just as wide.
        """
        if arguments is not None and self.arguments not in (None, arguments):
            raise InvalidInputError(
                f"it covers calls with other arguments alone: {self.in_words}",
                advice="Revoke it; a call with other arguments is asked for then.",
            )
        if until is not None and self.until is not None and until > self.until:
            raise InvalidInputError(
                f"it would hold for longer: {self.in_words}",
                advice="Say an earlier time; for longer it holds only by a new yes.",
            )
        narrower = replace(self, arguments=arguments or self.arguments, until=until or self.until)
        if narrower == self:
            raise InvalidInputError(
                f"it is that narrow already: {self.in_words}",
                advice="Give the arguments or an earlier time; or revoke it.",
            )
        return narrower


Narrow = Callable[[StandingApproval], Sequence[StandingApproval]]
"""Gives what is to stand in the place of an approval; see `StandingApproval.narrowed`."""


class StandingApprovals(Protocol):
    """What persons have allowed. Reading them asks no file; for the event loop's thread."""

    def of(self, owner: str) -> tuple[StandingApproval, ...]:
        """What an owner has allowed, newest first; what is over is not among it."""
        ...

    def scopes(self, owner: str) -> frozenset[str]:
        """The scopes of what an owner has allowed and nobody has narrowed."""
        ...

    def narrowed(self, owner: str) -> tuple[StandingApproval, ...]:
        """What an owner has allowed within narrower limits."""
        ...

    async def revoke(self, scope: str, *, owner: str) -> StandingApproval:
        """Take an approval back: from now on a person is asked again.

        Args:
            scope: all of this scope go; or the id of one.
            owner: whose it is.

        Returns:
            The newest of those that went.

        Raises:
            NotFoundError: this owner has not given it.
            StorageError: the disk refuses; it still holds.
        """
        ...

    async def narrow(self, approval: StandingApproval, narrow: Narrow) -> None:
        """Let narrower ones stand in an approval's place.

        Raises:
            InvalidInputError: as `narrow` raises it.
            NotFoundError: it does not stand any more.
            StorageError: the disk refuses; it stands as it was.
        """
        ...


def meant_by(standing: Sequence[StandingApproval], scope: str) -> list[StandingApproval]:
    """Those of a scope; or the one of an id."""
    of_scope = [each for each in standing if each.scope == scope]
    return of_scope or [each for each in standing if each.id == scope]


def one_of(standing: Sequence[StandingApproval], scope: str) -> StandingApproval:
    """The one approval that is meant, by its scope or its id.

    Raises:
        NotFoundError: there is none.
        InvalidInputError: there are several.
    """
    fitting = meant_by(standing, scope)
    if not fitting:
        raise no_such_approval(scope)
    if len(fitting) > 1:
        raise InvalidInputError(
            f"{len(fitting)} approvals are about {scope!r}",
            advice=f"Say which by its id: {', '.join(each.id for each in fitting)}.",
        )
    return fitting[0]


def no_such_approval(scope: str) -> NotFoundError:
    """That nothing of a scope stands."""
    return NotFoundError(
        f"there is no standing approval {scope!r}",
        advice="`rondo approvals` lists them; a scope is given as it stands there.",
    )
