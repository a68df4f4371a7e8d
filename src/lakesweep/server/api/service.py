"""Health, metrics, the OpenAPI document and the page to read it."""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from lakesweep.errors import LakesweepError
from lakesweep.server.api.call import Call, Nothing, Reply
from lakesweep.server.http.problems import HttpError
from lakesweep.server.metrics import CONTENT_TYPE
from lakesweep.version import __version__


class Liveness(msgspec.Struct, frozen=True):
    """The service answers."""

    status: str
    version: str


class Readiness(msgspec.Struct, frozen=True):
    """The service can work: its store answers, and has the tables that it knows."""

    status: str


def show_live(call: Call[Nothing]) -> Liveness:
    """Whether the service answers."""
    del call
    return Liveness("live", __version__)


def show_ready(call: Call[Nothing]) -> Readiness:
    """Whether the store answers and its tables are right."""
    if call.around.is_stopping():
        raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "the service is stopping")
    try:
        call.app.store.backend.check_schema()
        call.app.runs.realm.verify()
    except LakesweepError as error:
        # No details for callers without a role: messages name databases.
        name = type(error).__name__
        raise HttpError(
            HTTPStatus.SERVICE_UNAVAILABLE, f"the store does not answer: {name}"
        ) from None
    return Readiness("ready")


def show_metrics(call: Call[Nothing]) -> Reply:
    """Metrics for Prometheus."""
    return Reply(call.around.metrics.text(), media_type=CONTENT_TYPE)
