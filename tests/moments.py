"""Fixed points in time for tests."""

from __future__ import annotations

from datetime import UTC, datetime

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
