"""Check the installation and the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from lakesweep.app import App
from lakesweep.errors import ConfigError
from lakesweep.operations.interaction import SILENT_IO, Interaction
from lakesweep.operations.setup import health_checks
from lakesweep.operations.setup.health_checks import CheckStatus, Finding
from lakesweep.units import format_count

_CONFIGURATION = "configuration"


@dataclass(frozen=True, slots=True)
class CheckHealthRequest:
    """Run all checks. `load_app` reads the configuration: an error in it is a finding too.

    With `spark`, a session is started and runs a small job.
    """

    load_app: Callable[[], App]
    spark: bool = False


class HealthReport(msgspec.Struct, frozen=True):
    """The findings of all checks."""

    checks: tuple[Finding, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether nothing failed; warnings are not failures."""
        return not any(finding.status is CheckStatus.FAIL for finding in self.checks)

    @property
    def is_config_valid(self) -> bool:
        """Whether the configuration could be read."""
        return all(
            finding.status is not CheckStatus.FAIL
            for finding in self.checks
            if finding.check == _CONFIGURATION
        )


def check_health(request: CheckHealthRequest, io: Interaction = SILENT_IO) -> HealthReport:
    """Check Java, Spark, the store, roots, locations and permissions. Nothing is deleted."""
    return HealthReport(tuple(_check_all(request, io)))


def _check_all(request: CheckHealthRequest, io: Interaction) -> Iterator[Finding]:
    yield from health_checks.check_python()
    yield from health_checks.check_extras()
    try:
        app = request.load_app()
        catalogs = app.catalogs
    except ConfigError as error:
        yield Finding(_CONFIGURATION, CheckStatus.FAIL, error.message, error.hint)
        return
    detail = f"{format_count(len(app.config.lakes), 'lake')}, "
    detail += format_count(len(catalogs), "Iceberg catalog")
    yield Finding(_CONFIGURATION, CheckStatus.OK, detail)
    yield from health_checks.check_java(app.config)
    yield from health_checks.check_store(app)
    yield from health_checks.check_locations(app)
    yield from health_checks.check_plans(app)
    yield from health_checks.check_catalogs(app)
    yield from health_checks.check_repositories(app)
    if request.spark:
        yield from health_checks.check_spark(app.config, verbose=io.verbose)
