"""Partitions and buckets that hold nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from lakesweep.paimon.layout import Layout
from lakesweep.paimon.partitions import escape
from lakesweep.storage.local.emptying import find_empty_folders

_BUCKET = re.compile(r"bucket-(?:\d+|postpone)")


def old_empty_folders(layout: Layout, cut: datetime) -> Iterator[str]:
    """Those that have been as they are since before `cut`: a younger one waits for its files."""
    names = (re.escape(escape(name)) for name in layout.partitioning.names)
    levels = [*(re.compile(f"{name}=.+") for name in names), _BUCKET]
    return find_empty_folders(layout.data_folder, levels, cut)
