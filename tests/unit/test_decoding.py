"""Threads that decode a class for the first time at once, in a process that may die of it."""

import subprocess
import sys

import msgspec
import pytest

from lakesweep.decoding import convert, json_decoder, typed_json, typed_msgpack

# Short turns, so that threads meet while the classes inside are being learned: decoding by msgspec
# itself in place of `lakesweep.decoding` ends this program by a segmentation fault.
_AT_ONCE = """
import sys, threading
import msgspec
from lakesweep.decoding import convert, typed_json, typed_msgpack

sys.setswitchinterval(1e-6)
value = {f"f{field}": {"n": 1} for field in range(6)}
ways = [
    lambda kind: typed_json(msgspec.json.encode(value), kind),
    lambda kind: typed_msgpack(msgspec.msgpack.encode(value), kind),
    lambda kind: convert(value, kind),
]
for turn in range(100):
    inside = [msgspec.defstruct(f"In{turn}x{at}", [("n", "int")]) for at in range(6)]
    outside = msgspec.defstruct(f"Out{turn}", [(f"f{at}", kind) for at, kind in enumerate(inside)])
    start = threading.Barrier(6)
    def decode(way):
        start.wait()
        assert way(outside).f5.n == 1
    threads = [threading.Thread(target=decode, args=(ways[at % 3],)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("alive")
"""


class Inner(msgspec.Struct):
    count: int


class Outer(msgspec.Struct):
    inner: Inner


def test_threads_may_decode_a_class_for_the_first_time_at_once() -> None:
    run = subprocess.run(
        [sys.executable, "-c", _AT_ONCE], check=False, capture_output=True, text=True
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "alive\n", "")


def test_every_way_gives_typed_values() -> None:
    expected = Outer(Inner(3))
    assert typed_json(b'{"inner": {"count": 3}}', Outer) == expected
    assert typed_msgpack(msgspec.msgpack.encode(expected), Outer) == expected
    assert convert({"inner": {"count": 3}}, Outer) == expected
    assert convert({"count": "3"}, Inner, strict=False) == Inner(3)


def test_a_wrong_value_is_refused_unless_told_otherwise() -> None:
    with pytest.raises(msgspec.ValidationError):
        typed_json(b'{"count": "3"}', Inner)
    assert json_decoder(Inner, strict=False).decode(b'{"count": "3"}') == Inner(3)
