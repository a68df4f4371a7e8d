"""Secrets of principals: shown once, and kept only as salted hashes."""

from __future__ import annotations

import hashlib
import hmac
from secrets import token_bytes, token_hex, token_urlsafe

from lakesweep.catalog.entities import SecretHash

#: scrypt with 16 MiB and some tens of milliseconds a try.
_COST = 2**14
_BLOCK = 8
_MEMORY = 64 * 2**20


def new_client_id() -> str:
    """A name to log in with."""
    return token_hex(8)


def new_secret() -> str:
    """A secret that nobody can guess."""
    return token_urlsafe(24)


def hash_secret(secret: str) -> SecretHash:
    """All that is kept of a secret."""
    salt = token_bytes(16)
    return SecretHash(salt, _scrypt(secret, salt, _COST), _COST)


def proves(secret: str, kept: SecretHash) -> bool:
    """Whether this is the secret that was hashed."""
    return hmac.compare_digest(_scrypt(secret, kept.salt, kept.cost), kept.hash)


def _scrypt(secret: str, salt: bytes, cost: int) -> bytes:
    data = secret.encode(errors="surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=cost, r=_BLOCK, p=1, maxmem=_MEMORY, dklen=32)
