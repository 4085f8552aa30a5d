"""The API described: as OpenAPI (https://spec.openapis.org/oas/v3.1.0), as it really answers, and
as the page ``/docs`` to look at and to try, which asks no other host for anything."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI, Response
from starlette.staticfiles import StaticFiles

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


router = APIRouter(include_in_schema=False)

ASSETS_PATH = "/docs/assets"

# The page may load nothing from elsewhere, and send the token that is typed into it nowhere else.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

# Addresses are relative, so that it works behind a prefix too.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Rondo: the API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/assets/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<noscript>This page needs JavaScript. <a href="openapi.json">The description itself</a> does
not.</noscript>
<script src="docs/assets/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""

# https://swagger.io/docs/open-source-tools/swagger-ui/usage/configuration/: without a word about
# it, addresses that are not local would be sent to a validator on the web.
_START = """SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
  persistAuthorization: false,
});
"""


@router.api_route("/docs", methods=["GET", "HEAD"])
async def docs() -> Response:
    """The page."""
    headers = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}
    return Response(_PAGE, media_type="text/html", headers=headers)


@router.api_route("/docs/start.js", methods=["GET", "HEAD"])
async def start() -> Response:
    """What begins the page."""
    return Response(_START, media_type="text/javascript")


def assets() -> StaticFiles:
    """The code and the style of the page: https://github.com/swagger-api/swagger-ui, packaged."""
    return StaticFiles(packages=[("fastapi_swagger", "resources")])
