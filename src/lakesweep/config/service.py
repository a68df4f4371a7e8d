"""The sections of the service: schedules, webhooks, sign-in, where it listens."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from lakesweep.config.fields import Duration, Properties, Section, as_tuple


class ScheduleSection(Section):
    """A job that the service runs by itself, when cron or every says so.

    With `every = "auto"` it runs more often when plans find much, and less often when they find
    little, between `shortest` and `longest`.
    """

    job: Literal[
        "sweep",
        "check",
        "maintain",
        "paimon-orphans",
        "paimon-expire",
        "quarantine-empty",
        "lifecycle",
        "iceberg-expire",
        "policy",
    ]
    lake: str | None = None
    target: str | None = None
    options: Properties = Field(default_factory=dict)
    cron: str | None = None
    zone: str = "UTC"
    every: Literal["auto"] | Duration | None = None
    shortest: Duration = timedelta(hours=1)
    longest: Duration = timedelta(days=7)
    jitter: Duration = timedelta()
    timeout: Duration | None = None
    catch_up: Literal["once", "none"] = "once"

    @model_validator(mode="after")
    def _is_due_some_time(self) -> Self:
        if self.job == "policy":
            raise PydanticCustomError(
                "missing_command", "the job {job} has no command yet", {"job": self.job}
            )
        if (self.cron is None) == (self.every is None):
            raise PydanticCustomError("missing_key", "must have either cron or every")
        return self


WebhookEvent = Literal[
    "run.done",
    "run.failed",
    "approval.needed",
    "limit.reached",
    "root.unreadable",
    "files.missing",
]


class WebhookSection(Section):
    """An address that is told what happens. Requests are signed with `secret`."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s]+$", repr=False)]
    secret: Annotated[str, Field(min_length=8, repr=False)]
    events: Annotated[tuple[WebhookEvent, ...], BeforeValidator(as_tuple)] = (
        "run.failed",
        "approval.needed",
        "limit.reached",
        "root.unreadable",
        "files.missing",
    )


class OidcSection(Section):
    """Whose tokens the service accepts: `roles` leads from values of a claim to our roles.

    With a `client_id`, people sign in to the console at the issuer; it must know the client as a
    public one, with the address of the console and `/sign-in/callback` behind it.
    """

    issuer: str
    audience: str
    client_id: str | None = None
    roles_claim: str = "roles"
    roles: dict[str, Literal["viewer", "operator", "approver", "admin"]] = Field(
        default_factory=dict
    )


class ServerSection(Section):
    """The service: where it listens, how many jobs it starts at once, and who may use it.

    Headers about the client are believed only of `trusted_proxies`.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    workers: Annotated[int, Field(ge=1)] = 2
    certificate: str | None = None
    key: str | None = None
    trusted_proxies: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    log: Literal["lines", "json"] = "lines"
    oidc: OidcSection | None = None

    @model_validator(mode="after")
    def _certificate_has_a_key(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise PydanticCustomError("missing_key", "must have both certificate and key, or none")
        return self
