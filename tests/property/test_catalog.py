"""Batches of random mutations, against a dictionary of paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from lakesweep.catalog import (
    Catalog,
    CatalogPolicy,
    Create,
    Drop,
    Entity,
    GenericTable,
    MutationStatus,
    Namespace,
    Rename,
    Undrop,
    Update,
)
from lakesweep.catalog.commits import Mutation, Remember
from tests.random_tests import Machine, examples
from tests.realms import open_catalogs, table

Path = tuple[str, ...]

NAMES = st.sampled_from(["a", "b"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
VERSIONS = st.sampled_from([None, None, None, 1, 2])
BODIES: st.SearchStrategy[Entity] = st.sampled_from(
    [
        *(Namespace(), Namespace(properties={"a": "b"})),
        *(Namespace(), table("x"), table("x", 2), table("y")),
        *(GenericTable(format="csv", location="s3://lake/z"), CatalogPolicy(type="t", content="1")),
    ]
)
MUTATIONS: st.SearchStrategy[Mutation] = st.one_of(
    st.builds(Create, PATHS, BODIES),
    st.builds(Update, PATHS, BODIES, VERSIONS),
    st.builds(Rename, PATHS, PATHS, VERSIONS),
    st.builds(Drop, PATHS, VERSIONS),
    st.builds(Undrop, PATHS, st.none() | PATHS),
)


class ImpossibleError(Exception):
    """The model says that this cannot be."""


def need(is_so: object) -> None:
    if not is_so:
        raise ImpossibleError


@dataclass(frozen=True)
class Known:
    """What the model has of an entity: what was said of it, how often, and which one it is."""

    body: Entity
    version: int
    number: int


class Model:
    """Entities by path, the slow way."""

    def __init__(self) -> None:
        self.known: dict[Path, Known] = {}
        self.dropped: list[tuple[Path, Known]] = []
        self.count = 0

    def make(self, mutation: Mutation) -> MutationStatus:
        assert not isinstance(mutation, Remember)
        path = mutation.name
        assert isinstance(path, tuple)
        match mutation:
            case Create():
                return self._create(path, mutation.what)
            case Update():
                return self._update(path, mutation.what, mutation.version)
            case Rename(to=new):
                assert isinstance(new, tuple)
                return self._rename(path, new, mutation.version)
            case Drop():
                return self._drop(path, mutation.version)
            case Undrop(to=to):
                assert to is None or isinstance(to, tuple)
                return self._undrop(path, to or path)

    def _create(self, path: Path, body: Entity) -> MutationStatus:
        self._free(path)
        self.count += 1
        self.known[path] = Known(body, 1, self.count)
        return MutationStatus.CREATED

    def _update(self, path: Path, body: Entity, version: int | None) -> MutationStatus:
        old = self._expect(path, version)
        need(type(old.body) is type(body))
        if old.body == body:
            return MutationStatus.UNCHANGED
        self.known[path] = Known(body, old.version + 1, old.number)
        return MutationStatus.UPDATED

    def _rename(self, path: Path, new: Path, version: int | None) -> MutationStatus:
        old = self._expect(path, version)
        if path == new:
            return MutationStatus.UNCHANGED
        self._free(new)
        need(new[: len(path)] != path)
        inside = [each for each in self.known if each[: len(path)] == path]
        moved = {(*new, *each[len(path) :]): self.known.pop(each) for each in inside}
        self.known |= {**moved, new: Known(old.body, old.version + 1, old.number)}
        return MutationStatus.RENAMED

    def _drop(self, path: Path, version: int | None) -> MutationStatus:
        self._expect(path, version)
        need(not any(each[:-1] == path for each in self.known))
        known = self.known.pop(path)
        if not isinstance(known.body, Namespace | CatalogPolicy):
            self.dropped.append((path, known))
        return MutationStatus.DROPPED

    def _undrop(self, path: Path, new: Path) -> MutationStatus:
        fitting = [each for each in self.dropped if each[0] == path]
        need(fitting)
        # The clock stands still, so it is the youngest of them.
        found = max(fitting, key=lambda each: each[1].number)
        self._free(new)
        self.dropped.remove(found)
        _, known = found
        self.known[new] = Known(known.body, known.version + 1, known.number)
        return MutationStatus.UNDROPPED

    def _expect(self, path: Path, version: int | None) -> Known:
        need(path in self.known)
        need(version in {None, self.known[path].version})
        return self.known[path]

    def _free(self, path: Path) -> None:
        need(path not in self.known)
        parent = self.known.get(path[:-1])
        need(len(path) == 1 or (parent is not None and isinstance(parent.body, Namespace)))


class Batches(Machine):
    """A catalog and its model do the same, all of it or nothing."""

    shop: Catalog
    model: Model
    ids: dict[int, int]

    @initialize()
    def begin(self) -> None:
        self.shop = open_catalogs().create("shop", allow_overlaps=True)
        self.model = Model()
        self.ids = {}

    @rule(path=PATHS, body=BODIES)
    def add(self, path: Path, body: Entity) -> None:
        self._apply([Create(path, body)])

    @rule(data=st.data(), to=PATHS, body=BODIES)
    def change_what_is_there(self, data: st.DataObject, to: Path, body: Entity) -> None:
        """Most of what is drawn blindly is not there."""
        if self.model.known:
            path = data.draw(st.sampled_from(sorted(self.model.known)))
            choices: list[Mutation] = [Drop(path), Rename(path, to), Update(path, body)]
            choices += [Undrop(gone, to) for gone, _ in self.model.dropped[-1:]]
            self._apply([data.draw(st.sampled_from(choices))])

    @rule(mutations=st.lists(MUTATIONS, min_size=1, max_size=4))
    def mix(self, mutations: Sequence[Mutation]) -> None:
        self._apply(mutations)

    def _apply(self, mutations: Sequence[Mutation]) -> None:
        before, count = dict(self.model.known), self.model.count
        dropped = list(self.model.dropped)
        commits = self._commits()
        expected = [self._try(mutation) for mutation in mutations]
        outcome = self.shop.attempt(mutations)
        if None in expected:
            self.model.known, self.model.count, self.model.dropped = before, count, dropped
            failed = [status is None for status in expected]
            assert [bool(each.error) for each in outcome.results] == failed
            assert self._commits() == commits
            return
        assert [each.status for each in outcome.results] == expected
        changed = any(status is not MutationStatus.UNCHANGED for status in expected)
        assert self._commits() == commits + changed
        assert (outcome.commit is not None) == changed

    @invariant()
    def holds_the_same(self) -> None:
        view = self.shop.snapshot(fresh=True)
        found = dict(view.all())
        assert set(found) == set(self.model.known)
        for path, known in self.model.known.items():
            entity = view.get(path)
            assert (entity.version, type(entity)) == (known.version, type(known.body))
            assert entity.properties == known.body.properties
            # An entity keeps its id for life, and no other ever gets it.
            assert self.ids.setdefault(known.number, entity.id) == entity.id
            assert view.by_id(entity.id) == entity
            assert view.path(entity) == path
        stored = {
            path
            for path, known in self.model.known.items()
            if not isinstance(known.body, Namespace | CatalogPolicy)
        }
        assert {path for _, path in self.shop.at("s3://lake")} == stored
        gone = sorted(each.path for _, each in self.shop.dropped())
        assert gone == sorted(path for path, _ in self.model.dropped)

    def _try(self, mutation: Mutation) -> MutationStatus | None:
        try:
            return self.model.make(mutation)
        except ImpossibleError:
            return None

    def _commits(self) -> int:
        return next(iter(self.shop.realm.log(self.shop.reference))).value.seq


TestBatches = Batches.TestCase
TestBatches.settings = examples(15, steps=20)
