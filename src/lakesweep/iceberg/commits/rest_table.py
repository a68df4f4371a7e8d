"""A table of a REST catalog, changed by our own request.

The server applies the updates to whatever it finds, as long as the requirements hold. All refs are
asserted, but no requirement says that there are no other refs, so a tag that is created meanwhile
on a snapshot that we remove is removed in silence. Therefore the answer is compared with the file
that the server started from, which it names last in the metadata log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import msgspec
from msgspec import Raw

from lakesweep.clock import Clock, SystemClock
from lakesweep.decoding import typed_json
from lakesweep.errors import (
    CommitConflictError,
    IncompleteError,
    LakesweepError,
    UnknownOutcomeError,
)
from lakesweep.iceberg.catalogs import storage_options
from lakesweep.iceberg.commits.effects import are_visible
from lakesweep.iceberg.commits.other_services import expiring_service
from lakesweep.iceberg.commits.pointer_commit import next_file, read_table
from lakesweep.iceberg.commits.table_handle import (
    CommitOutcome,
    CommitStatus,
    LoadedTable,
    MetadataChange,
)
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.document.requirements import check_requirements
from lakesweep.iceberg.document.updates import RemoveSnapshotRef, RemoveSnapshots, TableUpdate
from lakesweep.iceberg.generic_catalog import (
    Name,
    client_error,
    full_name,
    table_missing,
    without_metadata,
)
from lakesweep.storage.stores import Stores, with_access
from lakesweep.untrusted.documents import JSON_ERRORS, JsonObject

if TYPE_CHECKING:
    from requests import PreparedRequest, Response

    from lakesweep.iceberg.rest_catalog import RestCatalogAdapter

_OK, _NOT_FOUND, _CONFLICT, _SERVER_FAILED = 200, 404, 409, 500
_TOKEN_EXPIRED = (401, 419)
#: What servers of Iceberg up to 1.8 say to an update that removes several snapshots.
_ONE_EXPECTED = "Expected one value but received"
#: How many snapshots one commit removes from such a server: it takes quadratic time.
_MOST_SINGLE = 1000
_LOOKS = 3
_PAUSE_SECONDS = 0.5
_one_by_one: WeakSet[Any] = WeakSet()


class _Answer(msgspec.Struct, rename="kebab"):
    """What a server answers to a load and to a commit."""

    metadata: Raw
    metadata_location: str | None = None
    config: dict[str, str] | None = None
    storage_credentials: list[JsonObject] | None = None


class _OneExpected(Exception):  # noqa: N818
    """The server takes one snapshot in each update."""


class _Verdict(Enum):
    """What a look at the table says of a commit without an answer."""

    LANDED = "landed"
    CANNOT_LAND = "cannot land any more"
    OPEN = "open"


@dataclass(frozen=True)
class RestTable:
    """A table behind a REST catalog."""

    adapter: RestCatalogAdapter
    table: Name
    stores: Stores
    clock: Clock = field(default_factory=SystemClock)

    @property
    def name(self) -> str:
        return full_name(self.adapter.name, self.table)

    def expired_by(self, table: LoadedTable) -> str | None:
        catalog = {"uri": self.adapter.catalog.uri, **self.adapter.catalog.properties}
        return expiring_service(catalog, table.document)

    def load(self) -> LoadedTable:
        return self._loaded(self.adapter.ask(self.table, self._load))

    def commit(self, base: LoadedTable, change: MetadataChange) -> CommitOutcome:
        if self.adapter.catalog not in _one_by_one:
            try:
                return self._commit(base, change)
            except _OneExpected:
                _one_by_one.add(self.adapter.catalog)
        return self._commit_singly(base, change)

    def _commit_singly(self, base: LoadedTable, change: MetadataChange) -> CommitOutcome:
        """Several commits, if there are very many snapshots; the first problem ends it."""
        outcome = CommitOutcome(CommitStatus.UNCHANGED, base)
        first = base
        for updates in _single_updates(change.updates):
            outcome = self._commit(base, MetadataChange(updates, change.requirements))
            if outcome.status is not CommitStatus.COMMITTED or outcome.lost_refs:
                return outcome
            if outcome.table is None or outcome.base is not base:
                return outcome
            base = outcome.table
        is_done = outcome.status is CommitStatus.COMMITTED
        return CommitOutcome(outcome.status, base, base=first) if is_done else outcome

    def _commit(self, base: LoadedTable, change: MetadataChange) -> CommitOutcome:
        try:
            after = self._post(base, change)
        except CommitConflictError as error:
            return CommitOutcome(CommitStatus.CONFLICT, reason=error.message)
        except UnknownOutcomeError as error:
            return self._settle(base, change, error)
        except IncompleteError as error:
            return CommitOutcome(CommitStatus.REFUSED, reason=error.message)
        try:
            return self._compare(base, after, change)
        except LakesweepError as error:
            return CommitOutcome(CommitStatus.COMMITTED, after, error.message)

    def _post(self, base: LoadedTable, change: MetadataChange) -> LoadedTable:
        body = {
            "identifier": {"namespace": self.table[:-1], "name": self.table[-1]},
            "requirements": change.requirements,
            "updates": change.updates,
        }
        response = self._send(msgspec.json.encode(body), base)
        if response.status_code in _TOKEN_EXPIRED:
            self.adapter.catalog._refresh_token()  # noqa: SLF001
            response = self._send(msgspec.json.encode(body), base)
        return self._read(response)

    def _send(self, body: bytes, base: LoadedTable) -> Response:
        from requests.exceptions import ConnectTimeout, RequestException

        session = self.adapter.catalog._session  # noqa: SLF001
        headers = {"Content-Type": "application/json"}
        try:
            return session.post(self._url(), data=body, headers=headers, auth=_token_of(base))
        except ConnectTimeout as error:
            raise client_error(self.adapter.name, self.table, error) from error
        except RequestException as error:
            if _never_connected(error):
                raise client_error(self.adapter.name, self.table, error) from error
            raise self._no_answer(str(error)) from error

    def _read(self, response: Response) -> LoadedTable:
        """The answer of a commit; 4xx is a sure refusal, 5xx is not."""
        status, text = response.status_code, response.text[:500]
        if _ONE_EXPECTED in text:
            raise _OneExpected
        if status == _OK:
            return self._decode(response)
        if status == _CONFLICT:
            raise CommitConflictError(text)
        if status == _NOT_FOUND:
            raise table_missing(self.adapter.name, self.table)
        if status >= _SERVER_FAILED:
            raise self._no_answer(f"{status} {text}")
        raise IncompleteError(f"catalog {self.adapter.name} refused to commit {self.name}: {text}")

    def _decode(self, response: Response) -> LoadedTable:
        """An answer that cannot be read says nothing, although the commit is likely done."""
        try:
            return self._loaded(typed_json(response.content, _Answer))
        except (*JSON_ERRORS, LakesweepError) as error:
            raise self._no_answer(f"the answer cannot be read: {error}") from error

    def _no_answer(self, reason: str) -> UnknownOutcomeError:
        return UnknownOutcomeError(
            f"catalog {self.adapter.name} did not confirm the commit of {self.name}: {reason}"
        )

    def _compare(
        self, base: LoadedTable, after: LoadedTable, change: MetadataChange
    ) -> CommitOutcome:
        """Find the state that the server started from, and the refs that it lost."""
        if after.location == base.location:
            return CommitOutcome(CommitStatus.UNCHANGED, after)
        log = after.document.metadata_log()
        started = base
        if not log or log[-1].metadata_file != base.location:
            found = self._read_base(log[-1].metadata_file if log else None, after)
            if found is None:
                reason = "the metadata that the server started from cannot be read"
                return CommitOutcome(CommitStatus.COMMITTED, after, reason)
            started = found
        lost = _lost_refs(started.document, after.document, change.updates)
        return CommitOutcome(CommitStatus.COMMITTED, after, base=started, lost_refs=lost)

    def _read_base(self, path: str | None, after: LoadedTable) -> LoadedTable | None:
        if path is None:
            return None
        try:
            return read_table(self.name, path, after.stores)
        except LakesweepError:
            return None

    def _settle(
        self, base: LoadedTable, change: MetadataChange, error: UnknownOutcomeError
    ) -> CommitOutcome:
        """Look until the commit is seen, or can no longer land. Not seen is not refused."""
        for attempt in range(_LOOKS):
            self.clock.sleep(_PAUSE_SECONDS * attempt)
            try:
                now = self.load()
            except LakesweepError:
                continue
            match _judge(base, now, change):
                case _Verdict.LANDED:
                    return self._landed(base, now, change)
                case _Verdict.CANNOT_LAND:
                    return CommitOutcome(CommitStatus.CONFLICT, reason=error.message)
        return CommitOutcome(CommitStatus.UNKNOWN, reason=error.message)

    def _landed(self, base: LoadedTable, now: LoadedTable, change: MetadataChange) -> CommitOutcome:
        """Follow the log from the loaded file to the first one that shows the change."""
        before: LoadedTable | None = base
        while before is not None and before.location != now.location:
            after = self._read_base(next_file(now, before.location), now)
            if after is not None and are_visible(change.updates, after.document):
                lost = _lost_refs(before.document, after.document, change.updates)
                return CommitOutcome(CommitStatus.COMMITTED, now, base=before, lost_refs=lost)
            before = after
        reason = "the metadata that the server started from cannot be found"
        return CommitOutcome(CommitStatus.COMMITTED, now, reason)

    def _load(self) -> _Answer:
        response = self.adapter.catalog._session.get(  # noqa: SLF001
            self._url(), params={"snapshots": "all"}
        )
        if response.status_code == _NOT_FOUND:
            raise table_missing(self.adapter.name, self.table)
        response.raise_for_status()
        return typed_json(response.content, _Answer)

    def _url(self) -> str:
        from pyiceberg.catalog.rest import Endpoints

        catalog = self.adapter.catalog
        place = catalog._split_identifier_for_path(self.table)  # noqa: SLF001
        return str(catalog.url(Endpoints.update_table, prefixed=True, **place))

    def _loaded(self, answer: _Answer) -> LoadedTable:
        location = answer.metadata_location
        if not location:
            raise without_metadata(self.adapter.name, self.table)
        access = {**self.adapter.catalog.properties, **(answer.config or {})}
        for credential in answer.storage_credentials or ():
            if location.startswith(credential.get("prefix", "")):
                access.update(credential.get("config", {}))
        stores = with_access(self.stores, storage_options(access))
        document = RawDocument.parse(location, bytes(answer.metadata), stores.limits)
        token = (answer.config or {}).get("token")
        return LoadedTable(self.name, location, document, stores, token)


def _token_of(base: LoadedTable) -> Callable[[PreparedRequest], PreparedRequest] | None:
    """How a request shows the token that the server gave for this table, if it gave one.

    For this request only: as a header of the session, it would be sent for all other tables, too.
    """
    if base.token is None:
        return None

    def show(request: PreparedRequest) -> PreparedRequest:
        request.headers["Authorization"] = f"Bearer {base.token}"
        return request

    return show


def _judge(base: LoadedTable, now: LoadedTable, change: MetadataChange) -> _Verdict:
    if now.location == base.location:
        return _Verdict.OPEN
    if are_visible(change.updates, now.document):
        return _Verdict.LANDED
    try:
        check_requirements(now.document, change.requirements)
    except CommitConflictError:
        return _Verdict.CANNOT_LAND
    return _Verdict.OPEN


def _lost_refs(
    before: RawDocument, after: RawDocument, updates: Iterable[TableUpdate]
) -> dict[str, int]:
    named = {each.ref_name for each in updates if isinstance(each, RemoveSnapshotRef)}
    left = after.refs().keys() | named
    return {name: ref.snapshot_id for name, ref in before.refs().items() if name not in left}


def _single_updates(updates: tuple[TableUpdate, ...]) -> Iterator[tuple[TableUpdate, ...]]:
    """The same updates, with one snapshot in each, in commits of bounded size."""
    waiting: list[TableUpdate] = []
    removed = 0
    for update in updates:
        if not isinstance(update, RemoveSnapshots):
            waiting.append(update)
            continue
        for snapshot_id in update.snapshot_ids:
            if removed and removed % _MOST_SINGLE == 0:
                yield tuple(waiting)
                waiting = []
            waiting.append(RemoveSnapshots(snapshot_ids=(snapshot_id,)))
            removed += 1
    yield tuple(waiting)


def _never_connected(error: BaseException | None) -> bool:
    """Whether no connection was made, so that the server cannot have seen the request."""
    seen = 0
    while error is not None and seen < 10:
        if type(error).__name__ in ("NewConnectionError", "NameResolutionError"):
            return True
        reason = getattr(error, "reason", None) or (error.args[0] if error.args else None)
        error = reason if isinstance(reason, BaseException) else None
        seen += 1
    return False
