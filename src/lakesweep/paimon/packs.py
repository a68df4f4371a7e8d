"""Packs of large values, which no manifest names but the sidecars of data files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import MissingError
from lakesweep.paimon.blob_references import SUFFIX, parse_blob_references
from lakesweep.paimon.table import PaimonTable


class Sidecar(NamedTuple):
    """A file that names packs, and the data file that it belongs to."""

    path: str
    data_path: str


def find_sidecars(
    extra_paths: pa.Array, data_paths: pa.Array, rows: npt.NDArray[np.int64]
) -> Iterator[Sidecar]:
    """The sidecars among extra files; `rows` tells which data file each of them belongs to."""
    places = pc.indices_nonzero(pc.ends_with(extra_paths, SUFFIX)).to_numpy()
    beside = data_paths.take(pa.array(rows[places])).to_pylist()
    yield from map(Sidecar, extra_paths.take(pa.array(places)).to_pylist(), beside)


def read_packs(table: PaimonTable, sidecar: Sidecar) -> list[str]:
    """The addresses of the packs that a sidecar names.

    A sidecar goes when its data file has gone, which manifests may name for long. But one that is
    not there while its data file is leaves unknown what the data file needs: MissingError.
    """
    try:
        return parse_blob_references(sidecar.path, table.read(sidecar.path))
    except MissingError:
        if table.exists(sidecar.data_path):
            raise
        return []
