"""Pointers in metastores: parameters of tables in AWS Glue and Hive.

Everything else that a metastore holds of a table is kept as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakesweep.errors import CommitConflictError, LakesweepError, RefusedError
from lakesweep.iceberg.commits.catalog_pointer import CatalogPointer, no_answer, refused_by_aws
from lakesweep.iceberg.commits.table_handle import LoadedTable
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.generic_catalog import client_error
from lakesweep.untrusted.documents import JsonObject

if TYPE_CHECKING:
    from lakesweep.iceberg.metastores import GlueCatalogAdapter, HiveCatalogAdapter

_LOCATION, _PREVIOUS = "metadata_location", "previous_metadata_location"
#: What a Hive metastore answers if a parameter is not as expected.
_MODIFIED = "The table has been modified"


@dataclass(frozen=True)
class GluePointer(CatalogPointer):
    """A table of AWS Glue, updated if it still has the version that was read."""

    adapter: GlueCatalogAdapter

    def swap(self, before: str, after: str, document: RawDocument, /) -> bool:
        from botocore.exceptions import BotoCoreError, ClientError

        table = self.adapter.ask(self.table, self._described)
        if table.get("Parameters", {}).get(_LOCATION) != before:
            return False
        if "VersionId" not in table:
            raise RefusedError("version", f"AWS Glue gives no version of {self.name} to compare")
        try:
            self.adapter.catalog.glue.update_table(**self._request(table, before, after, document))
        except ClientError as error:
            return refused_by_aws(self, error, "ConcurrentModificationException")
        except BotoCoreError as error:
            raise no_answer(self, error) from error
        return True

    def expired_by(self, table: LoadedTable) -> str | None:
        found = super().expired_by(table)
        if found is None and self._has_optimizer():
            return "the retention optimizer of AWS Glue expires snapshots of this table"
        return found

    def _described(self) -> JsonObject:
        return dict(self.adapter.catalog._get_glue_table(*self.table))  # noqa: SLF001

    def _request(
        self, table: Mapping[str, Any], before: str, after: str, document: RawDocument
    ) -> JsonObject:
        glue, properties = self.adapter.catalog.glue, self.adapter.catalog.properties
        # The service tells more of a table than it takes; the model knows what it takes.
        taken = glue.meta.service_model.shape_for("TableInput").members
        kept = {name: value for name, value in table.items() if name in taken}
        parameters = _parameters(table["Parameters"], before, after, document)
        skip = str(properties.get("glue.skip-archive", "true")).lower() == "true"
        return {
            "DatabaseName": self.table[0],
            "TableInput": {**kept, "Parameters": parameters},
            "SkipArchive": skip,
            "VersionId": table["VersionId"],
        }

    def _has_optimizer(self) -> bool:
        """Whether the optimizer is on; those who may not ask are taken to have none."""
        from botocore.exceptions import BotoCoreError, ClientError

        database, table = self.table
        try:
            answer = self.adapter.catalog.glue.get_table_optimizer(
                CatalogId=self.adapter.catalog.properties.get("glue.id", ""),
                DatabaseName=database,
                TableName=table,
                Type="retention",
            )
        except (BotoCoreError, ClientError):
            return False
        return bool(answer.get("TableOptimizer", {}).get("configuration", {}).get("enabled"))


@dataclass(frozen=True)
class HivePointer(CatalogPointer):
    """A table of a Hive metastore, under its lock.

    Writers without locks exist, so the metastore is told to compare the parameter, too.
    """

    adapter: HiveCatalogAdapter

    def swap(self, before: str, after: str, document: RawDocument, /) -> bool:
        self.adapter.pace()
        try:
            with self.adapter.catalog._client as client, self._lock(client):  # noqa: SLF001
                return self._swap(client, before, after, document)
        except LakesweepError:
            raise
        except Exception as error:
            raise client_error(self.adapter.name, self.table, error) from error

    def _swap(self, client: Any, before: str, after: str, document: RawDocument) -> bool:
        database, name = self.table
        table = client.get_table(dbname=database, tbl_name=name)
        if table.parameters.get(_LOCATION) != before:
            return False
        if "metadata_hash" in table.parameters:
            raise RefusedError(
                "encrypted",
                f"{self.name} is encrypted: its metastore only accepts metadata of its own writer",
            )
        table.parameters = _parameters(table.parameters, before, after, document)
        return self._alter(client, table, before)

    def _alter(self, client: Any, table: Any, before: str) -> bool:
        from hive_metastore.ttypes import EnvironmentContext, MetaException
        from thrift.Thrift import TApplicationException
        from thrift.transport.TTransport import TTransportException

        expected = {
            "expected_parameter_key": _LOCATION,
            "expected_parameter_value": before,
            "DO_NOT_UPDATE_STATS": "true",
        }
        try:
            client.alter_table_with_environment_context(
                dbname=self.table[0],
                tbl_name=self.table[1],
                new_tbl=table,
                environment_context=EnvironmentContext(properties=expected),
            )
        except MetaException as error:
            if _MODIFIED in str(error.message):
                return False
            raise no_answer(self, error) from error
        except (TTransportException, TApplicationException, OSError) as error:
            raise no_answer(self, error) from error
        return True

    @contextmanager
    def _lock(self, client: Any) -> Iterator[None]:
        from hive_metastore.ttypes import LockState, UnlockRequest

        catalog: Any = self.adapter.catalog
        found = client.lock(catalog._create_lock_request(*self.table))  # noqa: SLF001
        try:
            if found.state == LockState.WAITING:
                found = catalog._wait_for_lock(*self.table, found.lockid, client)  # noqa: SLF001
            if found.state != LockState.ACQUIRED:
                raise CommitConflictError(f"another writer holds the lock of {self.name}")
            yield
        finally:
            with suppress(Exception):  # a lock that is not released ends after its time
                client.unlock(UnlockRequest(lockid=found.lockid))


def _parameters(
    stored: Mapping[str, str], before: str, after: str, document: RawDocument
) -> dict[str, str]:
    """The parameters with the new pointer. Copies of what the document says follow it."""
    properties = document.properties()
    copies = {name: properties[name] for name in stored if name in properties}
    if "snapshot-count" in stored:
        copies["snapshot-count"] = str(len(document.snapshots()))
    return {**stored, **copies, _LOCATION: after, _PREVIOUS: before}
