"""The agent's life beside the HTTP app: it is put together in the background, and stopped last.

Importing and opening what an agent is made of takes longer than a probe may wait, so the app
answers from the first moment, and a route waits for the agent when it needs it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import anyio
import anyio.to_thread
from fastapi import Depends, Request

from service.config import Settings
from service.domain.errors import RondoError
from service.loop.unexpected_errors import in_words, leaves, one_of

if TYPE_CHECKING:
    from service.agent.agent import Agent

log = logging.getLogger(__name__)

LEAST_FREE_BYTES = 5_000_000
_PATIENCE_SECONDS = 20.0


class StartingUpError(RondoError):
    """The agent is not there yet."""

    kind = "starting-up"
    title = "The daemon is still starting"


class StoppingError(RondoError):
    """The daemon is on its way out."""

    kind = "stopping"
    title = "The daemon is stopping"


class Daemon:
    """An agent that starts, works and stops together with the app."""

    def __init__(
        self,
        settings: Settings,
        agent: Agent | None,
        *,
        least_free_bytes: int = LEAST_FREE_BYTES,
    ) -> None:
        """Name what it works with.

        Args:
            settings: all of them.
            agent: the one to work with; None: it is made from the settings.
            least_free_bytes: with less room than this, the disk is told to be full.
        """
        self.least_free_bytes = least_free_bytes
        self.settings = settings
        self.closing = anyio.Event()
        """Set when the daemon stops: whoever streams or waits comes to an end."""
        self.failure: RondoError | None = None
        """Why the agent could not start or go on."""
        self.failed = anyio.Event()
        """Set when the agent could not start or go on."""
        self._given = agent
        self._agent: Agent | None = None
        self._settled = anyio.Event()
        self._leaving = anyio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Begin to start the agent; on leaving, stop it."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._live, name="agent")
            try:
                yield
            finally:
                self.closing.set()
                self._leaving.set()

    async def agent(self) -> Agent:
        """The agent, as soon as it works.

        Raises:
            StartingUpError: it takes longer than a client should wait.
            RondoError: it cannot start.
        """
        with anyio.move_on_after(_PATIENCE_SECONDS):
            await self._settled.wait()
        if self.failure is not None:
            raise StoppingError(
                self.failure.problem().in_words(), advice="Look at the daemon's output."
            )
        if self._agent is None:
            raise StartingUpError("its memory is being opened", advice="Try again in a moment.")
        return self._agent

    async def started(self) -> Agent | None:
        """Wait until the agent works, however long; None when it cannot."""
        await self._settled.wait()
        return self._agent

    @property
    def agent_now(self) -> Agent | None:
        """The agent, if it works already."""
        return self._agent

    async def _live(self) -> None:
        try:
            agent = self._given
            if agent is None:
                agent = await anyio.to_thread.run_sync(self._make)
            if self._leaving.is_set():  # stopped while it was starting
                return
            async with agent:
                self._agent = agent
                self._settled.set()
                async with anyio.create_task_group() as beside:
                    beside.start_soon(_spare_the_collector, agent)
                    await self._leaving.wait()
                    beside.cancel_scope.cancel()
        except BaseException as error:
            if self._is_asked_for(error):
                raise
            cause = one_of(error)
            if isinstance(cause, RondoError):
                self._fail(cause)
                return
            log.exception("the agent cannot go on")
            self._fail(
                RondoError(
                    in_words(cause),
                    title="The assistant cannot go on",
                    advice="Please report it; the daemon's log has the details.",
                )
            )

    @staticmethod
    def _is_asked_for(error: BaseException) -> bool:
        """Whether the process is to end; the agent's own tasks cancelling it is a failure."""
        if isinstance(error, asyncio.CancelledError):
            return anyio.current_effective_deadline() == -math.inf
        return isinstance(error, GeneratorExit) or any(
            isinstance(leaf, KeyboardInterrupt) for leaf in leaves(error)
        )

    def _make(self) -> Agent:
        from service.agent.agent_factory import agent_from_settings  # slow, so not at start

        return agent_from_settings(self.settings)

    def _fail(self, error: RondoError) -> None:
        self.failure = error
        self._agent = None
        self._settled.set()
        self.failed.set()


async def _spare_the_collector(agent: Agent) -> None:
    """Once all is loaded: let the garbage collector look no more at what stays for good.

    The modules of PyTorch and Chroma alone make a full collection, which stops everything, take
    0.4 seconds (https://docs.python.org/3/library/gc.html#gc.freeze).
    """
    await agent.memory.warmed_up()
    gc.freeze()


def _daemon(request: Request) -> Daemon:
    daemon = request.app.state.daemon
    if not isinstance(daemon, Daemon):
        raise TypeError("the app has no daemon")
    return daemon


TheDaemon = Annotated[Daemon, Depends(_daemon)]
"""The daemon that a route belongs to."""
