"""A small lake with everything that the console shows, and names that attack the pages."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from lakesweep.app import App
from lakesweep.catalog.entities import EntityType, join
from lakesweep.config.file import config_from_values
from lakesweep.operations.catalogs.access import CreatePrincipalRequest, create_principal
from lakesweep.operations.catalogs.catalogs import CreateCatalogRequest, create_catalog
from lakesweep.operations.catalogs.entities import CreateEntityRequest, create_entity
from lakesweep.operations.interaction import EngineName
from lakesweep.operations.lakes.apply import ApplyPlanRequest, apply_plan
from lakesweep.operations.lakes.approval import await_approval
from lakesweep.operations.lakes.check import CheckLakeRequest, check_lake
from lakesweep.operations.lakes.plan import PlanLakeRequest, plan_lake
from lakesweep.operations.schedules.schedules import add_schedule
from lakesweep.runs.schedules import JobKind, Schedule
from lakesweep.server.application import Service, ServiceOptions, create_app
from tests.small_lake import SmallLake

#: A script, an attribute, a template, an escape sequence, and text that runs from right to left.
HOSTILE = "<script>alert(1)</script>'\"{{7*7}}\x1b[31m\u202egnp.exe"
_OVERRIDDEN = ("first-run", "share")


@dataclass(frozen=True)
class ConsoleLake:
    """A service over a lake `prod` with a plan that was applied and one that waits."""

    lake: SmallLake
    service: Service
    applied: str
    waiting: str

    @property
    def app(self) -> App:
        return self.service.app

    @classmethod
    def make(cls, folder: Path, **settings: Any) -> ConsoleLake:
        lake = SmallLake.make(folder, orphans=3)
        values = tomllib.loads(lake.config.read_text())
        values |= {"store": {"url": "memory:"}, "engine": "local", **settings}
        app = App(config_from_values(values), folder=folder)
        applied = _plan(app)
        apply_plan(
            app,
            ApplyPlanRequest(
                applied, engine=EngineName.LOCAL, quarantine=True, overridden=_OVERRIDDEN
            ),
            lambda _: None,
        )
        (lake.data / HOSTILE.replace("/", "-")).write_bytes(b"hostile")
        lake.add_orphans(60)
        waiting = _plan(app)
        await_approval(app, waiting, (f"because of {HOSTILE}",))
        _schedule(app)
        _catalog(app)
        service = create_app(app, ServiceOptions(has_console=True))
        return cls(lake, service, applied, waiting)


def _plan(app: App) -> str:
    return plan_lake(app, PlanLakeRequest("prod", engine=EngineName.LOCAL)).plan


def _catalog(app: App) -> None:
    """A catalog with hostile names, a grant, and a check of the lake."""
    name = HOSTILE.replace("\x1b", "")  # the catalog refuses control characters
    create_catalog(app, CreateCatalogRequest("shop", location="s3://shop"))
    for request in (
        CreateEntityRequest("shop.first", EntityType.NAMESPACE),
        CreateEntityRequest(join(("shop", name)), EntityType.NAMESPACE),
    ):
        create_entity(app, request)
    create_principal(app, CreatePrincipalRequest(name))
    with check_lake(app, CheckLakeRequest("prod", engine=EngineName.LOCAL)):
        pass


def _schedule(app: App) -> None:
    schedule = Schedule(name="nightly", job=JobKind.MAINTAIN, every=86_400)
    add_schedule(app, schedule)
    name = HOSTILE.replace("/", "-").replace("@", "-")
    add_schedule(app, msgspec.structs.replace(schedule, name=name))
