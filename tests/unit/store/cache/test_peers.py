from __future__ import annotations

import queue
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import pytest

from lakesweep.bench.processes import fresh_processes
from lakesweep.store import Store
from lakesweep.store.cache.peers import (
    Address,
    DatagramPeers,
    Message,
    RealmGone,
    ReferenceMoved,
    RowsGone,
)
from tests.stores import Note

_HERE = ("127.0.0.1", 0)
_SECRET = b"sixteen bytes or more"
_MESSAGES: list[Message] = [
    ReferenceMoved("acme", "main", 1_000, 4, 8),
    ReferenceMoved("acme" * 63, "\u00e4" * 500, 2**62, 2**62, None),
    RowsGone("acme", tuple((2**62 + number, number) for number in range(50))),
    RealmGone("acme"),
]


@contextmanager
def _listener(secret: bytes = _SECRET) -> Iterator[tuple[Address, Callable[[], Message]]]:
    heard: queue.Queue[Message] = queue.Queue()
    with DatagramPeers(_HERE, [], secret) as peers:
        peers.listen(heard.put)
        yield peers.address, heard.get


def test_all_others_hear_what_is_said() -> None:
    with (
        _listener() as (first, hear_first),
        _listener() as (second, hear_second),
        DatagramPeers(_HERE, [first, second], _SECRET) as peers,
    ):
        peers.publish(_MESSAGES)
        assert [hear_first() for _ in _MESSAGES] == _MESSAGES
        assert [hear_second() for _ in _MESSAGES] == _MESSAGES


def test_messages_fit_in_what_any_network_carries() -> None:
    assert max(len(msgspec.msgpack.encode(message)) for message in _MESSAGES) < 1_400


@pytest.mark.parametrize("datagram", [b"", b"x", b"x" * 16, b"x" * 500])
def test_what_was_not_sent_by_a_peer_is_left_out(datagram: bytes) -> None:
    with _listener() as (address, hear), socket.socket(type=socket.SOCK_DGRAM) as stranger:
        stranger.sendto(datagram, address)
        with DatagramPeers(_HERE, [address], b"another secret than theirs") as other:
            other.publish(_MESSAGES)
        with DatagramPeers(_HERE, [address], _SECRET) as peers:
            # A message of a newer program.
            unknown = msgspec.msgpack.encode(["comet", "acme"])
            stranger.sendto(peers._seal(unknown), address)
            peers.publish([RealmGone("this one")])
        assert hear() == RealmGone("this one")


def test_others_that_are_not_there_are_nobodys_concern() -> None:
    with _listener() as (gone, _):
        pass
    with _listener() as (there, hear), DatagramPeers(_HERE, [gone, there], _SECRET) as peers:
        peers.publish(_MESSAGES)
        assert [hear() for _ in _MESSAGES] == _MESSAGES


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16 bytes"):
        DatagramPeers(_HERE, [], b"short")


def _remember(url: str, pipe: Connection) -> None:
    """A process that remembers a reference for an hour, unless it is told better."""
    with (
        DatagramPeers(_HERE, [], _SECRET) as peers,
        Store.open(url, types={"note": Note}, reference_seconds=3_600) as store,
    ):
        realm = store.realm("acme")
        before = realm.references.fetch("root")
        pipe.send((peers.address, before.version, realm.references.fetch("root").version))
        pipe.recv()  # the other one has committed
        unaware = realm.references.fetch("root").version
        peers.listen(store.cache.accept)
        pipe.send(unaware)
        while (after := realm.references.fetch("root")) == before:
            pass
        pipe.send(after.version)


def test_a_process_hears_of_the_commits_of_another(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    Store.create_tables(url)
    with Store.open(url, types={"note": Note}) as store:
        store.create_realm("acme")
    processes = fresh_processes()
    here, there = processes.Pipe()
    process = processes.Process(target=_remember, args=(url, there))
    process.start()
    address, *versions = here.recv()
    assert versions == [0, 0]
    with (
        DatagramPeers(_HERE, [address], _SECRET) as peers,
        Store.open(url, types={"note": Note}, peers=peers) as store,
    ):
        store.realm("acme").commit("root", lambda _: Note(), Note)
        here.send("committed")
        # What was said before it listened waits for it; what it says now it had not heard yet.
        assert here.recv() == 0
        assert here.recv() == 1
    process.join()
    assert process.exitcode == 0
