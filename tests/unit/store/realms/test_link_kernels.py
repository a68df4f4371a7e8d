from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from lakesweep.errors import DamagedRowError
from lakesweep.store.objects.links import IndexRoot, Link, find_links, pack
from lakesweep.store.objects.row_format import encode_parts, encode_whole, whole_payload
from lakesweep.store.realms.link_scan import scan_rows

_ENCODER = msgspec.msgpack.Encoder(enc_hook=pack)
_LARGEST = 2**63 - 1


def _value(random: Random, depth: int = 0) -> Any:
    """Anything that an object may contain, in all sizes that msgpack tells apart."""
    plain = [
        None,
        random.choice([True, False]),
        random.choice([1, -1]) * random.getrandbits(random.choice([4, 7, 8, 16, 32, 63])),
        2**63 + random.getrandbits(62),
        random.random(),
        "ä" * random.choice([0, 3, 15, 16, 40, 200, 40_000]),
        bytes(random.choice([0, 5, 200, 300, 70_000])),
        Link(random.choice([0, _LARGEST, random.getrandbits(63)])),
        Link(random.getrandbits(40)),
    ]
    if depth == 3 or random.random() < 0.5:
        return random.choice(plain)
    count = random.choice([0, 1, 3, 15, 16, 30])
    if random.random() < 0.5:
        return [_value(random, depth + 1) for _ in range(count)]
    return {f"key {number}": _value(random, depth + 1) for number in range(count)}


def test_the_kernel_finds_the_links_that_decoding_finds() -> None:
    random = Random(7)
    payloads = [_ENCODER.encode(_value(random)) for _ in range(300)]
    payloads.append(_ENCODER.encode([Link(number) for number in range(70_000)]))
    found = scan_rows([encode_whole(payload) for payload in payloads])
    assert found.is_read.all()
    expected = [int(link) for payload in payloads for link in find_links(payload).objects]
    assert found.ids.tolist() == expected
    bare = scan_rows(payloads, framed=False)
    assert bare.is_read.all()
    assert bare.ids.tolist() == expected


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x01",
        encode_whole(b""),
        encode_whole(_ENCODER.encode({"index": IndexRoot(b"\x01abc")})),
        encode_whole(_ENCODER.encode(1) + b"\x01"),  # something follows
        encode_whole(b"\xc1"),
        encode_whole(b"\xd7\x02" + bytes(8)),  # an extension that is no link
        encode_whole(b"\xd7\x01\xff" + bytes(7)),  # a link to a negative number
        encode_whole(b"\xd7\x01\x00"),
        encode_whole(b"\xdf\xff\xff\xff\xff"),
        encode_whole(b"\xdb\xff\xff\xff\xff"),
        encode_whole(b"\xc6\x00"),
        encode_whole(_ENCODER.encode("text"))[:-1],
        b"\x03" + encode_whole(b"\x01")[1:],
        encode_parts(bytes(400_000), 1)[0],
    ],
)
def test_what_is_not_plain_is_left_to_the_exact_scan(value: bytes) -> None:
    good = encode_whole(_ENCODER.encode([Link(5)]))
    found = scan_rows([good, value, good])
    assert found.is_read.tolist() == [True, False, True]
    assert found.ids.tolist() == [5, 5]


def test_no_changed_byte_makes_the_kernel_find_what_decoding_does_not() -> None:
    """Of damaged bytes with a matching checksum it reads no more than decoding does."""
    random = Random(11)
    for _ in range(300):
        payload = bytearray(_ENCODER.encode([_value(random, 3) for _ in range(6)]))
        payload[random.randrange(len(payload))] = random.randrange(256)
        cut = bytes(payload[: random.choice([len(payload), random.randrange(len(payload))])])
        found = scan_rows([encode_whole(cut)])
        links = _decoded_links(cut)
        if found.is_read[0]:
            # Text that is not UTF-8 is not decoded for its links.
            assert links is None or found.ids.tolist() == links
        else:
            assert not len(found.ids)


def _decoded_links(payload: bytes) -> list[int] | None:
    """What decoding finds; None if it fails."""
    try:
        return [int(link) for link in find_links(payload).objects]
    except DamagedRowError:
        return None


def test_a_damaged_row_is_noticed_wherever_a_bit_flips() -> None:
    row = encode_whole(_ENCODER.encode({"text": "x" * 30, "link": Link(9)}))
    for place in range(len(row)):
        damaged = bytearray(row)
        damaged[place] ^= 1 << place % 8
        found = scan_rows([bytes(damaged)])
        assert not found.is_read[0], place
        assert whole_payload(bytes(damaged)) is None


def test_no_rows_have_no_links() -> None:
    found = scan_rows([])
    assert np.array_equal(found.ids, [])
    assert len(found.is_read) == 0
