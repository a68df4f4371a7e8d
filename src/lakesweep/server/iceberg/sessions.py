"""How a client begins: it asks for the configuration of a warehouse, and logs in."""

from __future__ import annotations

import base64
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote_plus

import msgspec

from lakesweep.catalog.containers.content_batch import REMEMBERED_SECONDS
from lakesweep.catalog.warehouse.problems import bad_request
from lakesweep.catalog.warehouse.storage_access import handed_out
from lakesweep.server.http.problems import HttpError
from lakesweep.server.iceberg.call import IcebergCall, IcebergReply, encoded, find_catalog

_LIFETIME = f"PT{REMEMBERED_SECONDS // 60}M"
_GRANT = "client_credentials"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a kind
_NO_STORE = {"cache-control": "no-store"}


class WarehouseConfig(msgspec.Struct, frozen=True, rename="kebab"):
    """What a client should use, unless it knows better (`defaults`) or in any case.

    With the last field, clients may send a change again under the same key.
    """

    defaults: dict[str, str]
    overrides: dict[str, str]
    endpoints: tuple[str, ...]
    idempotency_key_lifetime: str


class OAuthRefusal(msgspec.Struct, frozen=True):
    """Errors of the login have the form of OAuth 2, not that of Iceberg."""

    error: str
    error_description: str


def show_config(call: IcebergCall) -> IcebergReply:
    """Where the catalog of a warehouse is, and what can be done with it."""
    name = call.query.get("warehouse", "")
    if not name:
        raise bad_request("warehouse is missing: it names a catalog of this service")
    catalog = find_catalog(call.catalogs, name)
    # The id goes into paths as it is, and stays when the catalog gets another name.
    overrides = {"prefix": str(catalog.id)}
    defaults = {"token-exchange-enabled": "false", **handed_out(catalog)}
    endpoints = tuple(call.around.endpoints)
    return encoded(WarehouseConfig(defaults, overrides, endpoints, _LIFETIME))


def log_in(call: IcebergCall) -> IcebergReply:
    """A session for a principal. All its roles count, whatever scope is asked for."""
    try:
        form = dict(parse_qsl(call.body.decode("ascii"), keep_blank_values=True, errors="strict"))
    except ValueError:
        return _refused(HTTPStatus.BAD_REQUEST, "invalid_request", "the form cannot be read")
    if form.get("grant_type") != _GRANT:
        return _refused(HTTPStatus.BAD_REQUEST, "unsupported_grant_type", f"only {_GRANT}")
    client, secret = _credentials(call, form)
    if not client or not secret:
        return _refused(HTTPStatus.UNAUTHORIZED, "invalid_client", "client id and secret, please")
    try:
        session = call.around.authenticator.log_in(client, secret, call.address, needs_role=False)
    except HttpError as error:
        if error.status is not HTTPStatus.UNAUTHORIZED:
            raise
        return _refused(error.status, "invalid_client", str(error))
    found = {**msgspec.structs.asdict(session), "issued_token_type": _ACCESS_TOKEN}
    return IcebergReply(msgspec.json.encode(found), headers=_NO_STORE)


def _credentials(call: IcebergCall, form: dict[str, str]) -> tuple[str, str]:
    """From the form, or from a Basic header; any other header is of an older session."""
    scheme, _, given = call.headers.get("authorization", "").partition(" ")
    if form.get("client_secret") or scheme.lower() != "basic":
        return form.get("client_id", ""), form.get("client_secret", "")
    try:
        client, _, secret = base64.b64decode(given, validate=True).decode().partition(":")
    except ValueError:
        return "", ""
    return unquote_plus(client), unquote_plus(secret)


def _refused(status: HTTPStatus, error: str, description: str) -> IcebergReply:
    body = msgspec.json.encode(OAuthRefusal(error, description))
    return IcebergReply(body, status, _NO_STORE)
