"""Hide secrets in text for people: in messages, hints, reports, records and tracebacks.

Hidden are passwords in the user part of URLs, secret parameters of queries, the values of settings
whose names say that they are secret, and tokens of our own service. Paths of objects are never
changed, since people need them exactly: they may contain `@`, `?` and folders such as `token=1`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_HIDDEN = "***"
_AFTER_NAME = rf"\1{_HIDDEN}"
_AFTER_USER = rf"\1:{_HIDDEN}@"
#: Schemes of addresses of objects, whose text after the scheme is a bucket and a key.
_OBJECTS = frozenset(
    {
        *("s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "wasb", "wasbs", "az", "adl", "azure"),
        *("file", "hdfs", "viewfs", "oss", "cosn", "obs", "memory", "local", "lakefs"),
    }
)
#: Here a user without a password may be a token; elsewhere users are shown.
_WEB = frozenset({"http", "https"})

_KEYS = r"(?:access|account|api|private|storage)[._-]?key"
_NAME = rf"(?:[\w.-]*(?:secret|passw|pwd|token|credential|signature|{_KEYS})[\w.-]*|sig|sas)"
_OURS = r"\blsw_[0-9a-f]{12}_"
# Drivers take blanks and quotes in users and passwords as they are. A port is no password, and what
# follows "host: " is a sentence.
_LOGIN = r"""[^:/?\#@\n]{0,100}:(?!//|\d{1,5}(?:[/?\#,;)\]\s"'<>]|$))\S[^@\n]{0,200}?@"""
# One pattern, read from left to right, so that nothing inside an address is taken for a setting.
_SECRETS = re.compile(
    rf"""(?P<token>{_OURS})[\w-]{{20,}}
    | (?P<scheme>\b[a-z][a-z0-9+.-]{{0,30}})://(?P<rest>(?:{_LOGIN})?[^\s"'<>]*)
    | (?P<bearer>\b(?:bearer|basic)\s+)[\w.~+/=-]{{8,}}
    | (?P<quoted>(?P<quote>["']){_NAME}(?P=quote)\s*[:=]\s*)(?P<open>["'])(?!…).*?(?P=open)
    | (?P<setting>(?<![/\w.-]){_NAME}\s?=\s?)(?!…)(?:"[^"]*"|'[^']*'|[^\s&,;"'(){{}}\]]+)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_PARAMETER = re.compile(rf"([?&;](?:{_NAME}|[^=&;]*(?:pass|key)[^=&;]*)=)[^&;#]*", re.IGNORECASE)
_IN_URL = re.compile(rf"({_OURS})[\w-]{{20,}}")
_IS_SECRET = re.compile(_NAME, re.IGNORECASE)
# From the first colon after the user to the last @, in case the password contains one.
_PASSWORD = re.compile(r"^([^:/?#@]*):.*@", re.DOTALL)
# A server and its port: what follows is a path, in which an @ means nothing.
_SERVER = re.compile(r"[^:/?#@]*:\d+(?:[/?#]|$)|\[[0-9a-f:.]+\]", re.IGNORECASE)


def masked(text: str) -> str:
    """The text with `***` in place of every secret."""
    return _SECRETS.sub(_hide, text)


def masked_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings by name, with `***` as the value of those that are secret."""
    return {
        name: _HIDDEN if _IS_SECRET.fullmatch(name) else masked(value)
        for name, value in settings.items()
    }


def _hide(found: re.Match[str]) -> str:
    if found["scheme"]:
        return _hide_in_url(found["scheme"], found["rest"])
    if found["quoted"]:
        return f"{found['quoted']}{found['open']}{_HIDDEN}{found['open']}"
    return f"{found['token'] or found['bearer'] or found['setting']}{_HIDDEN}"


def _hide_in_url(scheme: str, rest: str) -> str:
    kind = scheme.lower().partition("+")[0]
    if kind in _OBJECTS:
        return f"{scheme}://{rest}"
    place, mark, query = rest.partition("?")
    if "@" in query and ":" in place and not _SERVER.match(place):
        place, mark, query = rest, "", ""  # the question mark belongs to a password
    shown = _PARAMETER.sub(_AFTER_NAME, _hide_user(kind, place) + mark + query)
    return f"{scheme}://{_IN_URL.sub(_AFTER_NAME, shown)}"


def _hide_user(kind: str, place: str) -> str:
    if kind in _WEB:
        if _SERVER.match(place):
            return place
        user, at, _ = place.partition("/")[0].rpartition("@")
        if at and ":" not in user:
            return f"{_HIDDEN}@{place[len(user) + 1 :]}"
    return _PASSWORD.sub(_AFTER_USER, place)
