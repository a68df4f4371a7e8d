from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.errors import UsageError
from lakesweep.store.urls import anchored, sqlite_file, without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:hidden@db:5432/x", "postgresql://me:***@db:5432/x"),
        ("mysql+pymysql://me:hid:den@db/x", "mysql+pymysql://me:***@db/x"),
        ("mongodb://me:hid/den@a:1,b:2/x?w=1", "mongodb://me:***@a:1,b:2/x?w=1"),
        ("postgresql://me:hid@den@db/x", "postgresql://me:***@db/x"),
        ("postgresql://:hidden@db/x", "postgresql://:***@db/x"),
        ("postgresql://db/x?user=me&password=hidden", "postgresql://db/x?user=me&password=***"),
        ("dynamodb://eu/x?SecretKey=hidden&a=b", "dynamodb://eu/x?SecretKey=***&a=b"),
        ("postgresql://me@db:5432/x", "postgresql://me@db:5432/x"),
        ("postgresql://db:5432/x", "postgresql://db:5432/x"),
        ("sqlite:///folder/store.db", "sqlite:///folder/store.db"),
        ("memory:", "memory:"),
    ],
)
def test_no_password_is_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:///store.db", "sqlite:////lake/store.db"),
        ("sqlite:///a b/../store.db?timeout=3", "sqlite:////lake/a b/../store.db?timeout=3"),
        ("sqlite+pysqlite:///store.db", "sqlite+pysqlite:////lake/store.db"),
        ("sqlite:////other/store.db", "sqlite:////other/store.db"),
        ("sqlite://", "sqlite://"),
        ("sqlite:///", "sqlite:///"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("sqlite:///file:store.db?uri=true", "sqlite:///file:store.db?uri=true"),
        ("postgresql:///x", "postgresql:///x"),
        ("memory:", "memory:"),
    ],
)
def test_a_relative_file_is_in_the_folder(url: str, expected: str) -> None:
    assert anchored(url, Path("/lake")) == expected


def test_a_folder_that_no_url_can_name_is_refused() -> None:
    with pytest.raises(UsageError, match="question mark"):
        anchored("sqlite:///store.db", Path("/why?"))


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:////lake/store.db?x=1", Path("/lake/store.db")),
        ("sqlite:///store.db", Path("store.db")),
        ("sqlite://", None),
        ("sqlite:///:memory:", None),
        ("mysql://db/store.db", None),
    ],
)
def test_only_sqlite_has_a_file(url: str, file: Path | None) -> None:
    assert sqlite_file(url) == file
