"""The endpoint and the credentials of an Azure container."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from lakesweep.errors import ConfigError, DeniedError, UnavailableError
from lakesweep.storage.options import StorageOptions

# Metadata names hosts, and every request carries a token or a signature. So these go to Microsoft's
# own domains only, unless the configuration has an endpoint.
_DOMAINS = (
    *("core.windows.net", "core.chinacloudapi.cn", "core.usgovcloudapi.net"),
    *("storage.azure.net", "storage.azure.cn", "storage.usgovcloudapi.net"),
    *("fabric.microsoft.com", "pbidedicated.windows.net"),
)
_HOST = re.compile(
    rf"([a-z0-9][a-z0-9.-]*?)\.(?:dfs|blob)\.({'|'.join(map(re.escape, _DOMAINS))})", re.IGNORECASE
)
_SCOPE = "https://storage.azure.com/.default"
_KEYS = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_KEY")
_TOKENS = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")
_NAMES = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT")
#: The headers that a signature covers, in its order.
_SIGNED = (
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
)


@dataclass(frozen=True, slots=True)
class AzureEndpoint:
    """Where a container is reached: `origin` is scheme and host, `root` precedes the key."""

    origin: str
    root: str
    account: str


@dataclass(frozen=True, slots=True)
class _Secrets:
    """What requests are authorised with: a key, a token in the query, or neither."""

    key: bytes | None = field(default=None, repr=False)
    sas: str | None = field(default=None, repr=False)


def find_endpoint(container: str, host: str, options: StorageOptions) -> AzureEndpoint:
    """The endpoint of a container at a host as written: no other cloud is ever assumed.

    ConfigError for a host that is neither of Azure nor configured.
    """
    found = _HOST.fullmatch(host)
    account = found[1].partition(".")[0] if found else host.partition(".")[0]
    endpoint = options.endpoint or _connection_string(account).get("BlobEndpoint")
    if endpoint is None and found is None:
        raise ConfigError(
            f"{host!r} is not a host of Azure Storage",
            hint="write account.dfs.core.windows.net, or set endpoint for this container",
        )
    parts = urlsplit(endpoint or f"https://{found[1]}.blob.{found[2]}" if found else endpoint)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(
            f"{endpoint!r} is not a valid endpoint", hint="write endpoint = 'https://host:port'"
        )
    return AzureEndpoint(
        f"{parts.scheme}://{parts.netloc}", f"{parts.path.rstrip('/')}/{container}", account
    )


class AzureAccount:
    """Authorises requests to one account."""

    def __init__(self, endpoint: AzureEndpoint, options: StorageOptions) -> None:
        self._account = endpoint.account
        self._where = endpoint.origin + endpoint.root
        self._secrets = _find_secrets(endpoint.account, options)
        self._is_anonymous = options.anonymous
        self._identity: Any = None
        self._finding = threading.Lock()

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters that every request needs."""
        pairs = parse_qsl((self._secrets.sas or "").lstrip("?"), keep_blank_values=True)
        return dict(pairs)

    def authorise(self, method: str, target: str, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers of a request, with its authorisation."""
        if self._is_anonymous or self._secrets.sas is not None:
            return dict(headers)
        if self._secrets.key is None:
            return {**headers, "Authorization": f"Bearer {self._token()}"}
        text = _string_to_sign(self._account, method, target, headers)
        digest = hmac.new(self._secrets.key, text.encode(), hashlib.sha256).digest()
        signature = base64.b64encode(digest).decode()
        return {**headers, "Authorization": f"SharedKey {self._account}:{signature}"}

    def _token(self) -> str:
        """A token of Entra ID, from whatever identity the Azure SDK finds here."""
        with self._finding:
            if self._identity is None:
                self._identity = _open_identity()
        try:
            return str(self._identity.get_token(_SCOPE).token)
        except Exception as error:  # the SDK has no common class for what may fail here
            kind = UnavailableError if "timed out" in str(error) else DeniedError
            raise kind(
                self._where,
                f"no credentials were found: {str(error).splitlines()[0]}",
                hint="set account_key or sas_token, run az login, or set anonymous = true",
            ) from error


def _open_identity() -> Any:
    try:
        from azure.identity import DefaultAzureCredential
    except ImportError as error:
        raise ConfigError(
            "Azure needs an account_key, a sas_token, or the package azure-identity",
            hint="pip install 'lakesweep[azure]'",
        ) from error
    return DefaultAzureCredential()


def _find_secrets(account: str, options: StorageOptions) -> _Secrets:
    if options.anonymous:
        return _Secrets()
    if options.sas_token or options.account_key:
        return _secrets(options.account_key, options.sas_token)
    parts = _connection_string(account)
    # A key in the environment opens the account beside it, and must not be sent to another one.
    named = _first(_NAMES)
    is_other = named is not None and named != account
    key = parts.get("AccountKey") or (None if is_other else _first(_KEYS))
    sas = parts.get("SharedAccessSignature") or (None if is_other else _first(_TOKENS))
    return _secrets(key, sas)


def _secrets(key: str | None, sas: str | None) -> _Secrets:
    if sas:
        return _Secrets(sas=sas)
    try:
        return _Secrets(key=base64.b64decode(key, validate=True) if key else None)
    except binascii.Error as error:
        raise ConfigError("the account key of Azure is not base64") from error


def _connection_string(account: str) -> Mapping[str, str]:
    """The parts of the connection string in the environment, if it is that of the account."""
    text = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "")
    parts = dict(pair.split("=", 1) for pair in text.split(";") if "=" in pair)
    return parts if parts.get("AccountName", account) == account else {}


def _first(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _string_to_sign(account: str, method: str, target: str, headers: Mapping[str, str]) -> str:
    lower = {name.lower(): value for name, value in headers.items()}
    if lower.get("content-length") == "0":
        lower["content-length"] = ""
    plain = [lower.get(name, "") for name in _SIGNED]
    own = sorted(name for name in lower if name.startswith("x-ms-"))
    path, _, query = target.partition("?")
    pairs = sorted((name.lower(), value) for name, value in parse_qsl(query, True))
    lines = [
        method,
        *plain,
        *(f"{name}:{lower[name]}" for name in own),
        f"/{account}{path}",
        *(f"{unquote(name)}:{value}" for name, value in pairs),
    ]
    return "\n".join(lines)
