"""What running writers left in a table's history, and still look for.

A streaming sink writes into the summary of each commit how far it came: Flink its checkpoint,
Spark its epoch, Kafka Connect its offsets. After a restart it walks from the head of its branch
back to its newest marker. If the chain is cut before, it commits the same data again. So a
marker keeps not only its own snapshot but every one between it and the head.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakesweep.upkeep.history import HistorySnapshot

_FLINK_CHECKPOINT = "flink.max-committed-checkpoint-id"
_SPARK_QUERY = "spark.sql.streaming.queryId"
_KAFKA_OFFSETS = "kafka.connect.offsets."


@dataclass(frozen=True, slots=True)
class WriterMarker:
    """The newest marker of one writer on a branch."""

    writer: str
    snapshot: int
    timestamp_ms: int


def newest_markers(ancestors: Iterable[HistorySnapshot]) -> list[WriterMarker]:
    """The newest marker of each writer, for the snapshots of a branch from its head back."""
    found: dict[str, WriterMarker] = {}
    for snapshot in ancestors:
        for writer in _writers(snapshot.summary or {}):
            found.setdefault(writer, WriterMarker(writer, snapshot.id, snapshot.timestamp_ms))
    return list(found.values())


def _writers(summary: Mapping[str, Any]) -> Iterator[str]:
    if _FLINK_CHECKPOINT in summary:
        job, operator = summary.get("flink.job-id"), summary.get("flink.operator-id")
        yield f"Flink job {job}" + (f", operator {operator}" if operator else "")
    if _SPARK_QUERY in summary:
        yield f"Spark query {summary[_SPARK_QUERY]}"
    for key in summary:
        if key.startswith(_KAFKA_OFFSETS):
            yield f"Kafka Connect {key.removeprefix(_KAFKA_OFFSETS)}"
