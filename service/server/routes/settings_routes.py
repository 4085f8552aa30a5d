"""``/v1/settings``: what the daemon works with, which may be other than what a shell would set."""

from __future__ import annotations

from fastapi import APIRouter

from service.domain.run_loops import DEFAULT_MODEL_NAME
from service.llm.model_descriptions import disclaimer, model_in_words
from service.server.daemon import TheDaemon
from service.server.http.request_body import JSONRoute
from service.wire.daemon_bodies import EffectiveSettings

router = APIRouter(prefix="/v1", route_class=JSONRoute)


@router.get("/settings", tags=["settings"])
async def settings(daemon: TheDaemon) -> EffectiveSettings:
    """The settings in effect, with secrets hidden. They change when the daemon starts again."""
    current = daemon.settings
    return EffectiveSettings(
        model=model_in_words(current),
        models={
            DEFAULT_MODEL_NAME: model_in_words(current),
            **{name: model_in_words(current, current.of_model(name)) for name in current.models},
        },
        disclaimer=disclaimer(current.llm),
        settings=current.shown(),
    )
