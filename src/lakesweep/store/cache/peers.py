"""Cache invalidation between processes, optionally by UDP datagrams with a keyed hash.

Messages say what changed, never to what. Nothing depends on them: references are cached only
briefly, so a lost datagram does no harm. With them, references can be cached for longer, and
deleted rows leave the caches of other processes. Anyone who knows the secret can only cause
needless reads.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

import msgspec

from lakesweep.decoding import msgpack_decoder
from lakesweep.store.backends.rows import Reference

_MOST_KEYS = 50


class ReferenceMoved(msgspec.Struct, frozen=True, tag="moved", array_like=True):
    """A reference now has this version; a deletion counts as one more, without a pointer."""

    realm: str
    name: str
    created_at: int
    version: int
    pointer: int | None


class RowsGone(msgspec.Struct, frozen=True, tag="rows", array_like=True):
    """These rows, by id and part, were deleted."""

    realm: str
    keys: tuple[tuple[int, int], ...]


class RealmGone(msgspec.Struct, frozen=True, tag="realm", array_like=True):
    """All rows and references of a realm were deleted."""

    realm: str


Message: TypeAlias = ReferenceMoved | RowsGone | RealmGone


class Peers(Protocol):
    """The caches of other processes."""

    def publish(self, messages: Sequence[Message]) -> None:
        """Send messages to all others, each of which passes them to its `StoreCache.accept`.

        Called right after a change by the thread that made it, so it should not block. A message
        may be lost, duplicated, late or out of order. Errors are counted and have no other effect:
        the change has happened.
        """
        ...


def moved(realm: str, reference: Reference) -> ReferenceMoved:
    """The message for a reference that was created or swapped."""
    created_at, version = reference.created_at, reference.version
    return ReferenceMoved(realm, reference.name, created_at, version, reference.pointer)


def deleted(realm: str, reference: Reference) -> ReferenceMoved:
    """The message for a reference that was deleted."""
    created_at, version = reference.created_at, reference.version + 1
    return ReferenceMoved(realm, reference.name, created_at, version, None)


def rows_gone(realm: str, keys: Sequence[tuple[int, int]]) -> Sequence[RowsGone]:
    """The messages for rows that were deleted, each of limited size."""
    return [
        RowsGone(realm, tuple(keys[start : start + _MOST_KEYS]))
        for start in range(0, len(keys), _MOST_KEYS)
    ]


#: The host, as an address or a name, and the port.
Address: TypeAlias = tuple[str, int]

_HASH_BYTES = 16
_LARGEST = 65_535
_SHORTEST_SECRET = 16
_decoder = msgpack_decoder(Message)


class DatagramPeers:
    """The processes at some other addresses, which share the same secret.

    Host names are resolved once. With port 0 the system chooses one; see `address`.
    """

    def __init__(self, address: Address, others: Collection[Address], secret: bytes) -> None:
        if len(secret) < _SHORTEST_SECRET:
            raise ValueError(f"a secret needs at least {_SHORTEST_SECRET} bytes")
        self._key = hashlib.sha256(secret).digest()
        family, place = _resolve(address)
        self._others = [_resolve(other, family)[1] for other in others]
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.bind(place)
        self._listener: threading.Thread | None = None
        self._closed = False

    @property
    def address(self) -> Address:
        host, port = self._socket.getsockname()[:2]
        return host, port

    def publish(self, messages: Sequence[Message]) -> None:
        """Send each message to each of the others, without blocking."""
        errors = []
        for message in messages:
            datagram = self._seal(msgspec.msgpack.encode(message))
            for place in self._others:
                try:
                    self._socket.sendto(datagram, socket.MSG_DONTWAIT, place)
                except OSError as error:
                    errors.append(error)
        if errors:
            raise errors[0]

    def listen(self, accept: Callable[[Message], None]) -> None:
        """Pass messages of others to `accept` (such as `StoreCache.accept`) on a separate thread.

        Messages with another secret, or from a newer program that are not understood, are ignored.
        """
        self._listener = threading.Thread(
            target=self._listen, args=(accept,), name="store-peers", daemon=True
        )
        self._listener.start()

    def close(self) -> None:
        """Stop sending and receiving."""
        self._closed = True
        if self._listener is not None:
            self._socket.sendto(b"", self._socket.getsockname())  # wakes it up
            self._listener.join()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _listen(self, accept: Callable[[Message], None]) -> None:
        while not self._closed:
            message = self._open(self._socket.recv(_LARGEST))
            if message is not None:
                accept(message)

    def _seal(self, payload: bytes) -> bytes:
        return self._hash(payload) + payload

    def _open(self, datagram: bytes) -> Message | None:
        sealed, payload = datagram[:_HASH_BYTES], datagram[_HASH_BYTES:]
        if not hmac.compare_digest(sealed, self._hash(payload)):
            return None
        try:
            message: Message = _decoder.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return message

    def _hash(self, payload: bytes) -> bytes:
        return hashlib.blake2b(payload, key=self._key, digest_size=_HASH_BYTES).digest()


def _resolve(address: Address, family: int = 0) -> tuple[int, Any]:
    found = socket.getaddrinfo(*address, family=family, type=socket.SOCK_DGRAM)
    return found[0][0], found[0][4]
