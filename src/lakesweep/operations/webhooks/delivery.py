"""Deliver events to webhooks: CloudEvents in JSON, signed, again until they are taken.

An entry of the outbox is claimed before it is sent, so that of several services one sends it, and
removed when the address has taken it. A service that dies in between leaves it to the next one: an
event may come twice, with the same id.
"""

from __future__ import annotations

import hashlib
import hmac
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec
import urllib3

from lakesweep.app import App
from lakesweep.clock import micros, moment
from lakesweep.config import WebhookSection
from lakesweep.errors import NotFoundError
from lakesweep.redaction import masked
from lakesweep.runs.outbox import EventType, LakeEvent, OutboxEntry, WebhookTarget
from lakesweep.units import format_moment

SIGNATURE = "Lakesweep-Signature"
_TYPE_PREFIX = "io.lakesweep."
_TIMEOUT = urllib3.Timeout(connect=5.0, read=10.0)
#: While one service sends an entry, no other one does.
_CLAIM = timedelta(seconds=60)
_FIRST_PAUSE = timedelta(seconds=5)
_LONGEST_PAUSE = timedelta(hours=1)
#: An address that takes nothing for this long is not told any more.
_LONGEST = timedelta(days=3)
_LONGEST_ERROR = 200
_LAST_SUCCESS = 299


class WebhookState(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook: what it is told, and what it has to be told yet."""

    webhook: str
    url: str
    events: tuple[str, ...]
    waiting: int
    error: str


class WebhookTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a webhook took a test event."""

    webhook: str
    url: str
    delivered: bool
    error: str


@dataclass(frozen=True, slots=True)
class _Address:
    """A webhook of the configuration, by the name that the store knows."""

    name: str
    section: WebhookSection

    def send(self, event: LakeEvent, realm: str, now: datetime) -> str:
        """Send an event; the reason why it was not taken, empty if it was."""
        body = cloud_event(event, realm)
        headers = {
            "Content-Type": "application/cloudevents+json; charset=utf-8",
            SIGNATURE: signature(self.section.secret, body, now),
        }
        try:
            # Not followed: a redirect could send a signed event to another address.
            answer = urllib3.request(
                "POST",
                self.section.url,
                body=body,
                headers=headers,
                timeout=_TIMEOUT,
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            return masked(str(error))[:_LONGEST_ERROR]
        answer.close()
        return "" if answer.status <= _LAST_SUCCESS else f"it answered {answer.status}"


def cloud_event(event: LakeEvent, realm: str) -> bytes:
    """An event as CloudEvents 1.0 in JSON."""
    document: Mapping[str, Any] = {
        "specversion": "1.0",
        "id": event.id,
        "source": f"/lakesweep/realms/{realm}",
        "type": f"{_TYPE_PREFIX}{event.type}",
        "subject": event.subject,
        "time": format_moment(moment(event.at)),
        "datacontenttype": "application/json",
        "data": event.data,
    }
    return msgspec.json.encode(document)


def signature(secret: str, body: bytes, now: datetime) -> str:
    """`t=SECONDS,v1=HMAC`, where HMAC-SHA256 is over the seconds, a dot and the body."""
    seconds = str(int(now.timestamp()))
    digest = hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256)
    return f"t={seconds},v1={digest.hexdigest()}"


def deliver_events(app: App) -> Iterator[str]:
    """Deliver what is due, once each; yields what people should know."""
    addresses = {each.name: each for each in _addresses(app)}
    now = micros(app.clock.now())
    for entry in app.runs.outbox():
        if entry.next_at > now:
            continue
        address = addresses.get(entry.webhook)
        if address is None:  # it is not configured any more
            app.runs.change_entry(entry, None)
            continue
        yield from _deliver(app, address, entry)


def _deliver(app: App, address: _Address, entry: OutboxEntry) -> Iterator[str]:
    now = app.clock.now()
    claimed = msgspec.structs.replace(
        entry, attempts=entry.attempts + 1, next_at=micros(now + _CLAIM)
    )
    if not app.runs.change_entry(entry, claimed):
        return  # another service has it
    error = address.send(entry.event, app.config.store.realm, now)
    if not error:
        app.runs.change_entry(claimed, None)
        return
    if now - moment(entry.event.at) > _LONGEST:
        app.runs.change_entry(claimed, None)
        yield f"webhook {masked(address.section.url)} never took {entry.event.id}: {error}"
        return
    later = micros(app.clock.now() + pause_after(claimed.attempts))
    app.runs.change_entry(claimed, msgspec.structs.replace(claimed, next_at=later, error=error))
    if entry.attempts == 0:
        yield f"webhook {masked(address.section.url)}: {error}; trying again"


def pause_after(attempts: int) -> timedelta:
    """How long to wait after so many failed tries: twice as long each time, give or take a bit."""
    pause = min(_FIRST_PAUSE * (1 << min(attempts - 1, 20)), _LONGEST_PAUSE)
    return pause * random.uniform(0.8, 1.2)  # noqa: S311 - no secret


def list_webhooks(app: App) -> tuple[WebhookState, ...]:
    """The webhooks of the configuration, and what they have to be told yet."""
    outbox = () if app.is_new_store else app.runs.outbox()
    return tuple(_state(each, outbox) for each in _addresses(app))


def _state(address: _Address, outbox: Sequence[OutboxEntry]) -> WebhookState:
    own = [entry for entry in outbox if entry.webhook == address.name]
    return WebhookState(
        webhook=address.name,
        url=masked(address.section.url),
        events=address.section.events,
        waiting=len(own),
        error=next((entry.error for entry in own if entry.error), ""),
    )


def try_webhooks(app: App) -> tuple[WebhookTrial, ...]:
    """Send a test event to each webhook at once, without the outbox."""
    found = tuple(_addresses(app))
    if not found:
        raise NotFoundError("no webhook is configured", hint="add [[webhooks]] with url and secret")
    now = app.clock.now()
    event = LakeEvent(
        id=f"test/{uuid4()}", type=EventType.TEST, subject="lakesweep", at=micros(now), data={}
    )
    results = []
    for each in found:
        error = each.send(event, app.config.store.realm, now)
        results.append(
            WebhookTrial(
                webhook=each.name, url=masked(each.section.url), delivered=not error, error=error
            )
        )
    return tuple(results)


def _addresses(app: App) -> Iterator[_Address]:
    for section in app.config.webhooks:
        yield _Address(WebhookTarget.of(section.url, ()).name, section)
