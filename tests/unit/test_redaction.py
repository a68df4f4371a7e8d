from __future__ import annotations

import pytest

from lakesweep.errors import ConfigError, DeniedError
from lakesweep.redaction import masked, masked_settings

OURS = "lsw_0123456789ab_hktO600zT-X170XudHe6zB8eMmMbMOeH0W1zYTZCJWM"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:hunter2@db:5432/x", "postgresql://me:***@db:5432/x"),
        ("postgresql+psycopg://me:h@nter/2?@db/x", "postgresql+psycopg://me:***@db/x"),
        ("mysql://me:1/2@db/x is down", "mysql://me:***@db/x is down"),
        ("mysql://me:a b@db/x is down", "mysql://me:***@db/x is down"),
        ("mysql://me:x 'b\"@db/x is down", "mysql://me:***@db/x is down"),
        ("mysql://the cook:h@db/x is down", "mysql://the cook:***@db/x is down"),
        ("http://a is down; http://me:h@b too", "http://a is down; http://me:***@b too"),
        ("mongodb://me:p:q@a:1,b:2/x?authSource=y", "mongodb://me:***@a:1,b:2/x?authSource=y"),
        ("jdbc:mysql://db/x?user=me&password=p&a=1", "jdbc:mysql://db/x?user=me&password=***&a=1"),
        ("at http://me:hunter2@host:9000/a, again", "at http://me:***@host:9000/a, again"),
        ("'https://ghp_abc@host/a'", "'https://***@host/a'"),
        ("http://host:8181/v1/a@b", "http://host:8181/v1/a@b"),
        ("http://host:80/x?mail=a@b&Token=t", "http://host:80/x?mail=a@b&Token=***"),
        ("https://a/b?sv=1&sig=s%3D&se=2", "https://a/b?sv=1&sig=***&se=2"),
        ("https://a/b?X-Amz-Signature=s&X-Amz-Credential=c", None),
        ("sc://host:15002/;token=abc;user_id=me", "sc://host:15002/;token=***;user_id=me"),
        ("spark.hadoop.fs.s3a.secret.key=abc d", "spark.hadoop.fs.s3a.secret.key=*** d"),
        ("{'s3.secret-access-key': 'a b', 'x': 'y'}", "{'s3.secret-access-key': '***', 'x': 'y'}"),
        ('{"token":"abc","uri":"u"}', '{"token":"***","uri":"u"}'),
        ("credential = 'id:secret'", "credential = ***"),
        ("Authorization: Bearer abcdefgh.ijk", "Authorization: Bearer ***"),
        (f"try: curl -u x:{OURS}", "try: curl -u x:lsw_0123456789ab_***"),
        (f"/api/v1/tokens/{OURS}", "/api/v1/tokens/lsw_0123456789ab_***"),
        (f"at http://host:80/{OURS}?a=1", "at http://host:80/lsw_0123456789ab_***?a=1"),
    ],
)
def test_secrets_are_hidden_in_text(text: str, shown: str | None) -> None:
    assert masked(text) == (shown or "https://a/b?X-Amz-Signature=***&X-Amz-Credential=***")
    assert masked(masked(text)) == masked(text)


@pytest.mark.parametrize(
    "text",
    [
        "s3://lake/a:b@c/token=1/x?key=2",
        "abfss://box@account.dfs.core.windows.net/a",
        "gs://lake/user@example.com/f",
        "/data/t/api_token=5/f.parquet is missing",
        "sqlite:////srv/a:b@c/store.db",
        'lakesweep.toml, line 3, storage."s3://a".secret_access_key: must be text in quotes',
        "export LAKE_SECRET=…",
        "http://host:8181 does not know me@example.com",
        "http://host: ask me@example.com",
        '["http://host:8181","me@example.com"]',
        "this is no page token of this listing",
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    ],
)
def test_paths_of_objects_and_plain_words_stay(text: str) -> None:
    assert masked(text) == text


def test_settings_are_hidden_by_name() -> None:
    settings = {"s3.secret-access-key": "a", "header.X-Token": "b", "uri": "http://u:p@h", "n": "1"}
    assert masked_settings(settings) == {
        "s3.secret-access-key": "***",
        "header.X-Token": "***",
        "uri": "http://u:***@h",
        "n": "1",
    }


def test_no_error_of_ours_quotes_a_secret() -> None:
    error = ConfigError("no answer from http://me:hunter2@h", hint="curl http://me:hunter2@h")
    denied = DeniedError("s3://lake/x", "http://me:hunter2@h said no")
    shown = f"{error} {error.message} {error.hint} {denied} {denied.message} {denied.reason}"
    assert "hunter2" not in shown


def test_a_long_text_takes_no_longer_than_it_is() -> None:
    assert masked("a" * 1_000_000) == "a" * 1_000_000
    assert masked("a-" * 100_000) == "a-" * 100_000
    assert masked("'" * 100_000 + "token") == "'" * 100_000 + "token"
