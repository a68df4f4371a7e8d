"""Point tables and views of a warehouse to new metadata files: all of a request, or nothing.

Files are written first, each under a name of its own; then one commit of the store swaps all
pointers. Every pointer swaps only if its table is as it was read, so a swap that got no answer can
be sent again: it cannot take effect twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from lakesweep.catalog.commits import Create, Mutation, Update
from lakesweep.catalog.containers.snapshot import ContentSnapshot
from lakesweep.catalog.entities import Entity, Table, View
from lakesweep.catalog.warehouse.metadata_files import (
    StoredMetadata,
    location_in,
    memo_of_file,
)
from lakesweep.catalog.warehouse.places import check_apart, check_places
from lakesweep.catalog.warehouse.problems import Path, ProblemType, WarehouseError
from lakesweep.catalog.warehouse.warehouse import IcebergWarehouse, LoadedEntity
from lakesweep.errors import (
    EntityChangedError,
    EntityExistsError,
    EntityMissingError,
    LakesweepError,
    UnknownOutcomeError,
    UnreachableError,
)
from lakesweep.iceberg.document.fields import RawDocument

#: How often a change is made anew because others were faster; after that the client decides.
_TRIES = 5
_SENDS = 3
_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class PointerChange:
    """A table or view that is to get a new document; `before` is what was read of it."""

    path: Path
    kind: type[Table | View]
    before: LoadedEntity | None
    document: RawDocument

    @property
    def is_needed(self) -> bool:
        """Whether anything changes at all."""
        return self.before is None or self.document is not self.before.file.document


#: Makes the changes of a request from the present content. It raises what the client did wrong.
Preparation = Callable[[ContentSnapshot], Sequence[PointerChange]]


def swap_pointers(warehouse: IcebergWarehouse, prepare: Preparation) -> Sequence[LoadedEntity]:
    """Carry out a request, and return its tables and views as they are then.

    It is prepared again whenever one of them changed meanwhile. WarehouseError: CommitFailed if
    that happened too often, CommitStateUnknown if it cannot be said whether it took effect.
    """
    for _ in range(_TRIES):
        view = warehouse.look()
        changes = prepare(view)
        for change in changes:
            before = change.before.file.document if change.before else None
            entity = change.before.entity if change.before else None
            check_places(warehouse.catalog, before, change.document)
            check_apart(view, entity.id if entity else None, before, change.document)
        done = _swap(warehouse, changes)
        if done is not None:
            return done
    raise WarehouseError(
        ProblemType.COMMIT_FAILED, "Commit failed: others changed the same table too often"
    )


def _swap(
    warehouse: IcebergWarehouse, changes: Sequence[PointerChange]
) -> Sequence[LoadedEntity] | None:
    """One attempt; None if something changed since it was read."""
    files: dict[Path, StoredMetadata] = {}
    try:
        # The files first, under new names: a pointer never leads to a file that is not
        # completely written.
        for change in changes:
            if change.is_needed:
                files[change.path] = _write(warehouse, change)
        entities = _commit(warehouse, changes, files)
    except WarehouseError as error:
        # If the commit may have happened, a pointer may lead to these files. A sweep finds them if
        # none does.
        if error.type is not ProblemType.COMMIT_UNKNOWN:
            _remove(warehouse, files)
        raise
    except LakesweepError:
        _remove(warehouse, files)
        raise
    if entities is None:
        _remove(warehouse, files)
        return None
    return [_loaded(change, entities, files) for change in changes]


def _write(warehouse: IcebergWarehouse, change: PointerChange) -> StoredMetadata:
    replaced = change.before.file.location if change.before else None
    codec = "gzip" if change.kind is View else "none"
    return warehouse.files.write(change.document, replaced, usual_codec=codec)


def _remove(warehouse: IcebergWarehouse, files: dict[Path, StoredMetadata]) -> None:
    for file in files.values():
        warehouse.files.remove(file)


def _loaded(
    change: PointerChange, entities: dict[Path, Entity], files: dict[Path, StoredMetadata]
) -> LoadedEntity:
    if change.path not in files:
        assert change.before is not None
        return change.before
    entity = entities[change.path]
    assert isinstance(entity, Table | View)
    return LoadedEntity(entity, files[change.path])


def _commit(
    warehouse: IcebergWarehouse, changes: Sequence[PointerChange], files: dict[Path, StoredMetadata]
) -> dict[Path, Entity] | None:
    """Swap all pointers; None if one of them had moved."""
    mutations = [_mutation(each, files[each.path]) for each in changes if each.path in files]
    if not mutations:
        return {}
    is_unknown = False
    for _ in range(_SENDS):
        try:
            outcome = warehouse.apply(mutations)
        except (EntityChangedError, EntityExistsError, EntityMissingError):
            return _judged(warehouse, changes, files) if is_unknown else None
        except UnknownOutcomeError:
            is_unknown = True
        except UnreachableError:
            if not is_unknown:
                raise
        else:
            made = zip(mutations, outcome.results, strict=False)  # the request comes last
            return {_path(mutation): _there(result.entity) for mutation, result in made}
        warehouse.clock.sleep(_PAUSE_SECONDS)
    raise _unknown()


def _judged(
    warehouse: IcebergWarehouse, changes: Sequence[PointerChange], files: dict[Path, StoredMetadata]
) -> dict[Path, Entity] | None:
    """Whether an earlier send took effect: one table tells it for all, for they move together."""
    change = next(each for each in changes if each.path in files)
    found = warehouse.look().find(change.path)
    if not isinstance(found, change.kind):
        raise _unknown()
    assert isinstance(found, Table | View)
    # Later commits may have followed ours. Then the pointer names another file, but the metadata
    # log still names ours.
    ours = files[change.path].location
    log = warehouse.files.read(found.metadata_location).document.metadata_log()
    known = [*(line.metadata_file for line in log), found.metadata_location]
    if ours in known:
        view = warehouse.look()
        return {path: _there(view.find(path)) for path in files}
    before = change.before.file.location if change.before else None
    if before is None or any(old == before for old, _ in pairwise(known)):
        return None
    raise _unknown()


def _mutation(change: PointerChange, file: StoredMetadata) -> Mutation:
    memo, location = memo_of_file(file), location_in(file.document)
    entity = change.before.entity if change.before else None
    if entity is None:
        what = change.kind(metadata_location=file.location, location=location)
        return Create(change.path, what, memo)
    after = msgspec.structs.replace(entity, metadata_location=file.location, location=location)
    return Update(change.path, after, entity.version, memo)


def _path(mutation: Mutation) -> Path:
    assert isinstance(mutation, Create | Update)
    assert isinstance(mutation.name, tuple)
    return mutation.name


def _there(entity: Entity | None) -> Entity:
    if entity is None:
        raise _unknown()  # it was committed, and dropped or renamed since
    return entity


def _unknown() -> WarehouseError:
    return WarehouseError(
        ProblemType.COMMIT_UNKNOWN, "it is not known whether the commit took effect"
    )
