"""No telemetry: the SDK traces each request with OpenTelemetry, and sends the trace along.

It has no switch for that. Whoever traces the program that Rondo runs in, or sets
``OTEL_PYTHON_TRACER_PROVIDER``, would get the names of tools, and servers the ids of traces.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from mcp.shared import _otel
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import INVALID_SPAN, Span, Tracer


class _NoTracer:
    """Traces nothing, and hides the trace and the baggage of whoever called."""

    @contextmanager
    def start_as_current_span(self, name: str, **options: object) -> Iterator[Span]:
        token = attach(Context())
        try:
            yield INVALID_SPAN
        finally:
            detach(token)


def switch_off() -> None:
    """For all that this process does with the SDK, from now on."""
    _otel._tracer = cast(Tracer, _NoTracer())
