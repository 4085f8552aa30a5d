"""The HTTP app, put together: middleware from the outside in, then the routes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.middleware import Middleware

from service import __version__
from service.config import Settings
from service.server import api_docs
from service.server.api_docs import DescribedAPI
from service.server.daemon import LEAST_FREE_BYTES, Daemon
from service.server.http.request_body import BodyLimit, PlainBodies
from service.server.http.uvicorn_server import Crowded
from service.server.problems import add_problem_handlers
from service.server.routes import (
    audit_routes,
    event_routes,
    exchange_routes,
    file_routes,
    health_routes,
    memory_routes,
    run_loop_routes,
    schedule_routes,
    script_routes,
    send_routes,
    settings_routes,
    tool_server_routes,
    usage_routes,
)
from service.server.security.allowed_hosts import SameOrigin
from service.server.security.bearer_auth import BearerAuth
from service.server.security.bearer_token import load_token
from service.wire.daemon_bodies import ProblemDetails

if TYPE_CHECKING:
    from service.agent.agent import Agent


def create_app(
    settings: Settings, *, agent: Agent | None = None, least_free_bytes: int = LEAST_FREE_BYTES
) -> FastAPI:
    """The app of these settings. Its agent starts and stops with it.

    ``app.state.daemon`` is its `Daemon`.

    Args:
        settings: where the data folder is, which hosts are served, how long a body may be.
        agent: the one to work with; None: as the settings have it, put together in the background.
        least_free_bytes: with less room than this, the disk is told to be full.

    Raises:
        ConfigurationError: the token file cannot be used.
        StorageError: the data folder cannot be used.
    """
    daemon = Daemon(settings, agent, least_free_bytes=least_free_bytes)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with daemon.running():
            yield

    app = DescribedAPI(
        title="Rondo",
        version=__version__,
        description="A personal assistant that works on many tasks at once and remembers all "
        "of them. Errors are RFC 9457 problem details that say what to do.",
        lifespan=lifespan,
        docs_url=None,  # of our own, since this one's code is loaded from the web
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        responses={"default": {"model": ProblemDetails, "description": "A problem, in words"}},
        middleware=[
            Middleware(Crowded),
            Middleware(SameOrigin, host=settings.server.host),
            Middleware(BearerAuth, token=load_token(settings.data_dir)),
            Middleware(PlainBodies),
            Middleware(
                BodyLimit,
                max_bytes=settings.server.max_body_bytes,
                streamed=frozenset((exchange_routes.IMPORT_PATH,)),
            ),
        ],
    )
    app.state.daemon = daemon
    add_problem_handlers(app)
    for module in (
        health_routes,
        send_routes,
        event_routes,
        run_loop_routes,
        memory_routes,
        exchange_routes,
        schedule_routes,
        settings_routes,
        script_routes,
        tool_server_routes,
        usage_routes,
        file_routes,
        audit_routes,
    ):
        app.include_router(module.router)
    app.include_router(run_loop_routes.details_router)
    app.include_router(api_docs.router)
    app.mount(api_docs.ASSETS_PATH, api_docs.assets())
    return app
