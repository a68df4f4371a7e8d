"""The contract suite of object stores: checks that every implementation must pass.

Each check takes a Subject with an empty store and raises AssertionError if the store breaks the
contract of `ObjectStore`. To check a store of your own:

    for check in CHECKS:
        check(Subject(open_an_empty_store()))
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from lakesweep.errors import (
    ChangedError,
    ExistsError,
    InexactKeyError,
    MissingError,
    UnsupportedError,
)
from lakesweep.storage.object_store import (
    ENTRY_SCHEMA,
    Deletion,
    ListingPage,
    ObjectStore,
    Outcome,
    expected_of,
)

#: Keys that are easily confused with one another, or corrupted in transit.
LOOK_ALIKES = (
    *("a/b", "a//b", "lead", "/lead", "trail", "trail/", "x/y", "x/./y", "x/../y", "x/y/"),
    *("percent%20sign", "percent sign", "percent+sign", "percent%2520sign", "slash%2Finside"),
    *("caf\u00e9", "cafe\u0301", "CAF\u00c9", "case", "Case"),
)
#: Keys with characters that URLs, XML or file systems treat specially.
ODD_KEYS = (
    *("question?mark", "hash#sign", "amp&ersand", "<angle>", "quote'\"s", "back\\slash"),
    *("semi;colon,comma", "equals=at@colon:", "star*", "[bracket]{brace}", "tilde~^|`$!()"),
    *(".hidden", "..dots", "dots..", "_under", "snow\u2603", "clef\U0001d11e", "line\u2028end"),
    *("tab\there", "line\nfeed", "space at end ", " space at begin"),
)
EXACT_KEYS = LOOK_ALIKES + ODD_KEYS


@dataclass(frozen=True, slots=True)
class Subject:
    """A store to check, and its known limitations.

    `keys` are those of EXACT_KEYS that it can hold; it must refuse the others with InexactKeyError,
    unless it `loses_keys` without noticing. With `nests`, it can hold `x` beside `x/y`. With
    `has_folders`, listing a missing folder is an error. `many` objects fill several pages; `fill`
    creates them if there is a quicker way than the store itself. `movable` are the keys to try
    moves with, all by default.
    """

    store: ObjectStore
    keys: Sequence[str] = EXACT_KEYS
    loses_keys: bool = False
    nests: bool = True
    has_folders: bool = False
    many: int = 1_100
    fill: Callable[[Sequence[str]], None] | None = None
    movable: Sequence[str] | None = None

    def put(self, *keys: str) -> None:
        """Write objects that hold their own keys."""
        for key in keys:
            self.store.write(key, key.encode())

    def put_many(self, keys: Sequence[str]) -> None:
        """Create many objects with arbitrary content."""
        (self.fill or _fill(self.store))(keys)

    def keys_there(self, prefix: str = "", after: str = "") -> list[str]:
        """All keys of a listing, in listing order."""
        pages = pages_of(self.store, prefix, after=after)
        return [key for page in pages for key in page.entries.column("key").to_pylist()]


def pages_of(
    store: ObjectStore, prefix: str, *, one_level: bool = False, after: str = ""
) -> Iterator[ListingPage]:
    """All pages of a listing."""
    page = store.list(prefix, one_level=one_level, after=after)
    yield page
    while page.next is not None:
        page = store.list(prefix, one_level=one_level, after=after, cursor=page.next)
        yield page


def keeps_every_key_exact(subject: Subject) -> None:
    """Each key is listed, read and measured as itself."""
    subject.put(*subject.keys)
    assert sorted(subject.keys_there()) == sorted(subject.keys)
    for key in subject.keys:
        assert subject.store.read(key) == key.encode()
        assert subject.store.head(key).size_bytes == len(key.encode())


def deletes_one_key_and_no_look_alike(subject: Subject) -> None:
    """A delete removes the named object and no other."""
    subject.put(*subject.keys)
    left = list(subject.keys)
    while left:
        key = left.pop(len(left) // 2)
        assert _outcomes(subject.store.delete([key])) == [(key, Outcome.DELETED)]
        assert sorted(subject.keys_there()) == sorted(left), f"after the delete of {key!r}"


def refuses_keys_that_it_cannot_hold(subject: Subject) -> None:
    """A key that the store cannot represent exactly is refused, and nothing changes."""
    refused = [key for key in EXACT_KEYS if key not in subject.keys]
    if subject.loses_keys:
        return
    subject.put("a/b", "lead", "trail", "x/y")
    for key in refused:
        for call in _single_calls(subject.store, key):
            with _raises(InexactKeyError):
                call()
        assert _outcomes(subject.store.delete([key])) == [(key, Outcome.FAILED)]
    assert sorted(subject.keys_there()) == ["a/b", "lead", "trail", "x/y"]


def lists_a_folder_and_not_its_neighbours(subject: Subject) -> None:
    """`t1/` contains nothing from `t10/` or `t1_bak/`."""
    subject.put("t1/a", "t1/b/c", "t10/a", "t1_bak/a", "t1.txt", "t/a", "other")
    assert sorted(subject.keys_there("t1/")) == ["t1/a", "t1/b/c"]
    assert sorted(subject.keys_there("t1/b/")) == ["t1/b/c"]


def lists_what_it_holds_of_each_object(subject: Subject) -> None:
    """Sizes and times in a listing agree with those of `head`."""
    subject.put("one", "folder/three")
    subject.store.write("empty", b"")
    (batch,) = [page.entries for page in pages_of(subject.store, "") if page.entries.num_rows]
    assert batch.schema == ENTRY_SCHEMA
    for row in batch.to_pylist():
        info = subject.store.head(row["key"])
        assert (info.key, info.size_bytes, info.etag) == (
            row["key"],
            row["size_bytes"],
            row["etag"],
        )
        assert info.modified is not None
        # Whole seconds in one response and fractions in the other are common; another zone is not.
        assert abs(info.modified - row["modified"]) < timedelta(minutes=1)


def lists_one_level(subject: Subject) -> None:
    """Deeper keys are folded into folders, and each folder is listed once."""
    subject.put("f/a", "f/b", "f/c/d", "f/c/e", "f/g/h/i", "f2/a")
    pages = list(pages_of(subject.store, "f/", one_level=True))
    keys = [key for page in pages for key in page.entries.column("key").to_pylist()]
    assert sorted(keys) == ["f/a", "f/b"]
    assert sorted(folder for page in pages for folder in page.folders) == ["f/c/", "f/g/"]
    top = list(pages_of(subject.store, "", one_level=True))
    assert sorted(folder for page in top for folder in page.folders) == ["f/", "f2/"]


def lists_nothing_where_nothing_is(subject: Subject) -> None:
    """An empty prefix lists as empty; a missing folder is an error if folders are real."""
    assert subject.keys_there() == []
    subject.put("here/a")
    if subject.has_folders:
        with _raises(MissingError):
            subject.store.list("nowhere/")
    else:
        assert subject.keys_there("nowhere/") == []


def lists_many_objects_once_each(subject: Subject) -> None:
    """Pages neither repeat nor lose objects, and come in order if that is promised.

    A page that was lost in transit can be requested again.
    """
    keys = [f"many/{number % 7}/{number:06}" for number in range(subject.many)]
    subject.put_many(keys)
    first = subject.store.list("many/")
    assert first.next is not None
    repeated = [subject.store.list("many/", cursor=first.next) for _ in range(2)]
    assert repeated[0].entries.equals(repeated[1].entries)
    found = subject.keys_there("many/")
    assert sorted(found) == sorted(keys)
    if subject.store.capabilities.ordered:
        assert found == sorted(found, key=str.encode)


def lists_only_keys_after(subject: Subject) -> None:
    """`after` cuts a listing in the order of UTF-8 bytes, whether or not the key exists."""
    keys = ["a", "a-b", "a/b", "a/c/d", "b", "b/0", "z", "\u00e9"]
    keys = keys if subject.nests else [key for key in keys if not _is_folder_of(key, keys)]
    subject.put(*keys)
    for after in ("", "a", "a-", "a/", "a/b", "a/c", "a/c/d", "b", "y", "z", "\u00e9", "\u00ea"):
        expected = [key for key in keys if key.encode() > after.encode()]
        assert sorted(subject.keys_there(after=after)) == sorted(expected), f"after {after!r}"


def reads_the_whole_and_ranges(subject: Subject) -> None:
    """A range is cut at the end of the object, and empty beyond it."""
    data = bytes(range(256)) * 40
    subject.store.write("data", data)
    subject.store.write("empty", b"")
    assert subject.store.read("data") == data
    assert subject.store.read("empty") == b""
    for start, length in ((0, 10), (5, 1), (10_000, 1_000), (10_239, 1), (10_240, 5), (99_999, 5)):
        assert subject.store.read_range("data", start, length) == data[start : start + length]
    assert subject.store.read_range("data", 7, 0) == b""
    assert subject.store.read_range("empty", 0, 9) == b""


def names_missing_objects(subject: Subject) -> None:
    """A missing object raises MissingError with the full address."""
    subject.put("folder/there")
    for key in ("missing", "folder/missing", "folder"):
        for call in (subject.store.head, subject.store.read):
            with _raises(MissingError) as caught:
                call(key)
            assert subject.store.base + key in str(caught[0])
        with _raises(MissingError):
            subject.store.read_range(key, 0, 5)
        for transfer in (subject.store.copy, subject.store.move):
            with _raises(MissingError):
                transfer(key, "target")
    assert subject.keys_there() == ["folder/there"]


def replaces_on_write(subject: Subject) -> None:
    """A write creates and replaces, and leaves nothing else behind."""
    for data in (b"first, and longer", b"second", b""):
        subject.store.write("deep/er/key", data)
        assert subject.store.read("deep/er/key") == data
    assert subject.keys_there() == ["deep/er/key"]


def creates_only_what_is_absent(subject: Subject) -> None:
    """The second `write_new` fails and changes nothing."""
    if not _can_create(subject.store):
        return
    subject.store.write_new("new/key", b"first")
    with _raises(ExistsError):
        subject.store.write_new("new/key", b"second")
    assert subject.store.read("new/key") == b"first"
    subject.store.delete(["new/key"])
    subject.store.write_new("new/key", b"third")
    assert subject.store.read("new/key") == b"third"
    assert subject.keys_there() == ["new/key"]


def lets_one_of_many_writers_win(subject: Subject) -> None:
    """Of 16 threads that create one key, exactly one succeeds, and its content is stored."""
    if not _can_create(subject.store):
        return

    def create(number: int) -> bool:
        try:
            subject.store.write_new("race/prize", b"%d" % number)
        except ExistsError:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(create, range(16)))
    assert won.count(True) == 1
    assert subject.store.read("race/prize") == b"%d" % won.index(True)
    assert subject.keys_there() == ["race/prize"]


def reports_each_delete_in_order(subject: Subject) -> None:
    """One outcome per key, in the requested order; a missing object is not a failure."""
    subject.put("d/a", "d/b", "d/c", "kept")
    absent = Outcome.ABSENT if subject.store.capabilities.reports_absent else Outcome.DELETED
    assert _outcomes(subject.store.delete(["d/c", "d/missing", "d/a"])) == [
        ("d/c", Outcome.DELETED),
        ("d/missing", absent),
        ("d/a", Outcome.DELETED),
    ]
    assert sorted(subject.keys_there()) == ["d/b", "kept"]
    assert list(subject.store.delete([])) == []


def refuses_wrong_deletes(subject: Subject) -> None:
    """Duplicate keys or too many keys are errors of the caller; nothing is deleted."""
    subject.put("once")
    too_many = [f"k{number}" for number in range(subject.store.capabilities.delete_batch + 1)]
    for keys in (["once", "once"], too_many):
        with _raises(ValueError):
            subject.store.delete(keys)
    assert subject.keys_there() == ["once"]


def copies_objects(subject: Subject) -> None:
    """A copy creates or replaces its target and leaves the source."""
    subject.put("source", "taken/target")
    subject.store.copy("source", "taken/target")
    subject.store.copy("source", "new/target")
    assert [subject.store.read(key) for key in ("source", "taken/target", "new/target")] == [
        b"source"
    ] * 3


def moves_every_key_and_back(subject: Subject) -> None:
    """A moved object has only its new key, and its old content."""
    keys = subject.movable or subject.keys
    subject.put(*keys)
    for key in keys:
        subject.store.move(key, f"moved/to/{key}")
    assert sorted(subject.keys_there()) == sorted(f"moved/to/{key}" for key in keys)
    for key in keys:
        subject.store.move(f"moved/to/{key}", key)
        assert subject.store.read(key) == key.encode()
    assert sorted(subject.keys_there()) == sorted(keys)


def moves_onto_no_object(subject: Subject) -> None:
    """If the target key is taken, both objects stay unchanged."""
    subject.put("source", "taken/target")
    with _raises(ExistsError):
        subject.store.move("source", "taken/target")
    assert [subject.store.read(key) for key in ("source", "taken/target")] == [
        b"source",
        b"taken/target",
    ]


def moves_only_what_was_listed(subject: Subject) -> None:
    """An object that changed since it was listed is not moved."""
    subject.put("source")
    listed = expected_of(subject.store.head("source"))
    with _raises(ChangedError):
        subject.store.move("source", "target", listed._replace(size_bytes=99))
    assert subject.keys_there() == ["source"]
    subject.store.move("source", "target", listed)
    assert subject.keys_there() == ["target"]


def deletes_only_what_was_listed(subject: Subject) -> None:
    """A store with verified deletes keeps changed objects; others must not claim to."""
    store = subject.store
    subject.put("same", "changed", "unknown")
    listed = [expected_of(store.head(key)) for key in ("same", "changed")]
    store.write("changed", b"something else")
    deletions = store.delete(["same", "changed", "unknown"], [*listed, None])
    verified = store.capabilities.verified_deletes
    assert _outcomes(deletions) == [
        ("same", Outcome.DELETED),
        ("changed", Outcome.CHANGED if verified else Outcome.DELETED),
        ("unknown", Outcome.DELETED),
    ]
    assert subject.keys_there() == (["changed"] if verified else [])


def brings_back_what_it_keeps(subject: Subject) -> None:
    """If versions are kept, a deleted object can be restored, however often it was deleted."""
    store = subject.store
    subject.put("k", "k2", *(["k/deep"] if subject.nests else []))
    if not store.keeps_versions():
        with _raises(UnsupportedError):
            store.undelete("k")
        return
    listed = expected_of(store.head("k"))
    for key in ("k", "k2", "k"):
        store.delete([key])
    with _raises(ChangedError):
        store.undelete("k", listed._replace(etag="another"))
    store.undelete("k", listed)
    assert (store.read("k"), subject.keys_there()) == (b"k", ["k", "k/deep"])
    for key in ("k", "never/there"):
        with _raises(MissingError):
            store.undelete(key)


def travels_to_another_process(subject: Subject) -> None:
    """A pickled store accesses the same objects."""
    subject.put("a/b")
    other: ObjectStore = pickle.loads(pickle.dumps(subject.store))  # noqa: S301
    assert (other.base, other.read("a/b")) == (subject.store.base, b"a/b")


#: The whole suite.
CHECKS: tuple[Callable[[Subject], None], ...] = (
    keeps_every_key_exact,
    deletes_one_key_and_no_look_alike,
    refuses_keys_that_it_cannot_hold,
    lists_a_folder_and_not_its_neighbours,
    lists_what_it_holds_of_each_object,
    lists_one_level,
    lists_nothing_where_nothing_is,
    lists_many_objects_once_each,
    lists_only_keys_after,
    reads_the_whole_and_ranges,
    names_missing_objects,
    replaces_on_write,
    creates_only_what_is_absent,
    lets_one_of_many_writers_win,
    reports_each_delete_in_order,
    refuses_wrong_deletes,
    copies_objects,
    moves_every_key_and_back,
    moves_onto_no_object,
    moves_only_what_was_listed,
    deletes_only_what_was_listed,
    brings_back_what_it_keeps,
    travels_to_another_process,
)


def _fill(store: ObjectStore) -> Callable[[Sequence[str]], None]:
    def fill(keys: Sequence[str]) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: store.write(key, b""), keys))

    return fill


def _outcomes(deletions: Iterable[Deletion]) -> list[tuple[str, Outcome]]:
    return [(deletion.key, deletion.outcome) for deletion in deletions]


def _single_calls(store: ObjectStore, key: str) -> Iterator[Callable[[], object]]:
    yield lambda: store.head(key)
    yield lambda: store.read(key)
    yield lambda: store.read_range(key, 0, 1)
    yield lambda: store.write(key, b"")
    yield lambda: store.write_new(key, b"")
    yield lambda: store.copy(key, "target")
    yield lambda: store.copy("a/b", key)
    yield lambda: store.move(key, "target")
    yield lambda: store.move("a/b", key)


def _can_create(store: ObjectStore) -> bool:
    """Whether the store has conditional writes; one without them must say so."""
    try:
        store.write_new("probe", b"")
    except UnsupportedError:
        assert not store.capabilities.write_new
        return False
    store.delete(["probe"])
    return True


def _is_folder_of(key: str, keys: Sequence[str]) -> bool:
    """Whether the key is also a folder of other keys, which a file cannot be."""
    return any(other.startswith(key + "/") for other in keys)


@contextmanager
def _raises(expected: type[Exception]) -> Iterator[list[Exception]]:
    caught: list[Exception] = []
    try:
        yield caught
    except expected as error:
        caught.append(error)
    else:
        raise AssertionError(f"{expected.__name__} was not raised")
