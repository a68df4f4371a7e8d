"""Append numbers to a table through some servers, one at a time, until each is there once.

A commit without an answer may have landed, so before it is tried again the table is asked.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, RESTError
from requests import RequestException

#: What says that somebody else was faster, or that nobody knows.
_AGAIN = (CommitFailedException, RESTError, RequestException)
_PROPERTY = "number"


def main(first: int, count: int, name: str, urls: Sequence[str]) -> None:
    """Append `count` numbers from `first` on."""
    for number in range(first, first + count):
        turn = number
        while not _is_appended(urls[turn % len(urls)], name, number):
            turn += 1
            time.sleep(0.02)


def _is_appended(url: str, name: str, number: int) -> bool:
    """Append a number unless it is there; False if that failed, or nobody knows."""
    try:
        table = RestCatalog("shop", uri=url, warehouse="shop").load_table(name)
        made = (each.summary for each in table.metadata.snapshots)
        if not any(summary and summary[_PROPERTY] == str(number) for summary in made):
            table.append(pa.table({"id": [number]}), snapshot_properties={_PROPERTY: str(number)})
    except _AGAIN:
        return False
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
