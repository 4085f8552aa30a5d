"""The description of the API (https://spec.openapis.org/oas/v3.1.0), as it really answers."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from service.server.problems import MEDIA_TYPE
from service.wire.daemon_bodies import ProblemDetails


class DescribedAPI(FastAPI):
    """An app that describes its problems as what they are sent as.

    FastAPI knows one media type for all answers of a route.
    """

    def openapi(self) -> dict[str, Any]:
        """The description, made once."""
        if self.openapi_schema is None:
            schema = super().openapi()
            problems = {f"#/components/schemas/{each.__name__}" for each in _with_heirs()}
            for methods in schema["paths"].values():
                for operation in methods.values():
                    for response in operation["responses"].values():
                        _declare(response.get("content", {}), problems)
        return super().openapi()


def _with_heirs() -> list[type[ProblemDetails]]:
    return [ProblemDetails, *ProblemDetails.__subclasses__()]


def _declare(content: dict[str, Any], problems: set[str]) -> None:
    described = content.get("application/json", {})
    if described.get("schema", {}).get("$ref") in problems:
        content[MEDIA_TYPE] = content.pop("application/json")
