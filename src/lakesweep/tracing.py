"""Traces by OpenTelemetry, if its variables ask for them: requests, runs, stages, store commits.

Nothing of it is imported unless `OTEL_EXPORTER_OTLP_ENDPOINT` or its form for traces is set. Spans
are sent in the background and never fail or delay what they measure. Their names and attributes are
templates, kinds and names of lakes and runs: no paths of files and no secrets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol

from lakesweep.errors import ConfigError
from lakesweep.version import __version__

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_SERVICE = "lakesweep"


class Span(Protocol):
    """Something that takes time."""

    def update_name(self, name: str) -> None:
        """Call it otherwise, once more is known."""
        ...

    def set_attribute(self, name: str, value: str | int) -> None:
        """Say more of it."""
        ...


class _Nothing:
    def update_name(self, name: str) -> None:
        del name

    def set_attribute(self, name: str, value: str | int) -> None:
        del name, value


_NOTHING: Span = _Nothing()


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the variables of OpenTelemetry ask for traces."""
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return not is_disabled and any(environment.get(name) for name in _ENDPOINTS)


@contextmanager
def span(name: str, **attributes: str | int) -> Iterator[Span]:
    """Measure the block as a part of whatever is measured around it. Errors are recorded."""
    tracer = _tracer()
    if tracer is None:
        yield _NOTHING
        return
    with tracer.start_as_current_span(name, attributes=attributes) as measured:
        yield measured


@cache
def _tracer() -> Any:
    """The tracer of this process; None if nobody wants traces."""
    if not is_wanted(os.environ):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(
            f"the variables of OpenTelemetry ask for traces, which need the package {error.name}",
            hint="pip install 'lakesweep[otel]', or set OTEL_SDK_DISABLED=true",
        ) from error
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come first.
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": _SERVICE}
    provider = TracerProvider(resource=Resource.create(named | {"service.version": __version__}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider.get_tracer(_SERVICE, __version__)
