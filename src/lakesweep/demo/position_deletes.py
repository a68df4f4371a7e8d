"""Delete rows by a position delete file, as engines do and PyIceberg cannot yet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestWriterV2,
)
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table

#: The columns of a position-delete file, with the ids that the format gives them.
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False).with_metadata(
            {"PARQUET:field_id": "2147483546"}
        ),
        pa.field("pos", pa.int64(), nullable=False).with_metadata(
            {"PARQUET:field_id": "2147483545"}
        ),
    ]
)


def delete_rows(table: Table, positions: list[int]) -> None:
    """Delete rows of the table's first data file by a delete file that lies beside it."""
    task = next(iter(table.scan().plan_files()))
    path = _write(task.file.file_path, positions)
    with table.transaction() as transaction:
        append = _DeleteAppend(Operation.DELETE, transaction, table.io)
        append.append_data_file(_entry(task.file, path, len(positions)))
        append.commit()


def _write(data_file: str, positions: list[int]) -> Path:
    path = Path(data_file).with_name(f"00000-0-{uuid4()}-00001-deletes.parquet")
    columns = {"file_path": [data_file] * len(positions), "pos": positions}
    pq.write_table(pa.table(columns, schema=_SCHEMA), path)
    return path


def _entry(data_file: DataFile, path: Path, rows: int) -> DataFile:
    entry = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=str(path),
        file_format=FileFormat.PARQUET,
        partition=data_file.partition,
        record_count=rows,
        file_size_in_bytes=path.stat().st_size,
    )
    entry.spec_id = data_file.spec_id
    return entry


class _DeleteManifest(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _DeleteAppend(_FastAppendFiles):
    """A commit whose new files are deletes; PyIceberg's own know data files only."""

    def new_manifest_writer(self, spec: PartitionSpec) -> ManifestWriterV2:
        return _DeleteManifest(
            spec, self.schema(), self.new_manifest_output(), self.snapshot_id, self._compression
        )
