"""Policy mappings: which policies are attached to which catalogs, namespaces and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from lakesweep.catalog.commits import MappingsCommit
from lakesweep.catalog.grants import EntityRef
from lakesweep.clock import micros
from lakesweep.errors import EntityExistsError
from lakesweep.store import BYTES, Attempt, Change, Packed, Realm, key, seal
from lakesweep.store.index.keys import decode
from lakesweep.store.reserved_names import POLICY_MAPPINGS


class PolicyMapping(msgspec.Struct, frozen=True, array_like=True):
    """A policy that is attached to a target, with what it is told there."""

    target: EntityRef
    policy: EntityRef
    type: str
    created_at: int
    parameters: dict[str, str] = {}

    @property
    def key(self) -> bytes:
        return key(self.target.id, self.type, self.policy.id)


MAPPINGS = Packed(PolicyMapping)


class PolicyMappings:
    """All mappings of a realm. A target has one policy of a type at most."""

    def __init__(self, realm: Realm) -> None:
        self.realm = realm

    def attach(
        self,
        policy: EntityRef,
        type_: str,
        target: EntityRef,
        parameters: dict[str, str] | None = None,
    ) -> bool:
        """Attach a policy; whether anything changed. EntityExistsError if another one is there."""
        now = micros(self.realm.clock.now())
        new = PolicyMapping(target, policy, type_, now, dict(parameters or {}))

        def change(attempt: Attempt[MappingsCommit]) -> MappingsCommit | None:
            batch = _MappingBatch(attempt)
            return batch.head() if batch.put(new) else None

        message = f"attach policy {policy.id}"
        return self.realm.commit(POLICY_MAPPINGS, change, MappingsCommit, message=message).changed

    def detach(self, policy: EntityRef, target: EntityRef) -> bool:
        """Detach a policy; whether it was attached."""
        found = [each for each in self.on(target.id) if each.policy.id == policy.id]
        return self.remove(found, f"detach policy {policy.id}") > 0

    def on(self, target: int) -> Iterator[PolicyMapping]:
        """The policies of a target."""
        index = self.realm.index(self._head().mappings, MAPPINGS)
        return (mapping for _, mapping in index.prefix(key(target)))

    def of(self, policy: int) -> Iterator[PolicyMapping]:
        """What a policy is attached to."""
        head = self._head()
        mappings = self.realm.index(head.mappings, MAPPINGS)
        for found, type_ in self.realm.index(head.policies, BYTES).prefix(key(policy)):
            mapping = mappings.get(key(decode(found)[1], type_.decode(), policy))
            if mapping is not None:
                yield mapping

    def all(self, behind: bytes = b"") -> Iterator[PolicyMapping]:
        """All mappings, or those from a key on."""
        index = self.realm.index(self._head().mappings, MAPPINGS)
        return (mapping for _, mapping in index.items(behind))

    def remove(self, mappings: Iterable[PolicyMapping], message: str) -> int:
        """Remove mappings that have not changed; returns how many."""
        wanted, removed = list(mappings), 0

        def change(attempt: Attempt[MappingsCommit]) -> MappingsCommit | None:
            nonlocal removed
            batch = _MappingBatch(attempt)
            removed = sum(batch.remove(mapping) for mapping in wanted)
            return batch.head() if removed else None

        self.realm.commit(POLICY_MAPPINGS, change, MappingsCommit, message=message)
        return removed

    def _head(self) -> MappingsCommit:
        found = self.realm.head(POLICY_MAPPINGS, MappingsCommit, fresh=True)
        return MappingsCommit() if found is None else found.value


class _MappingBatch:
    """Changes to mappings within one attempt."""

    def __init__(self, attempt: Attempt[MappingsCommit]) -> None:
        head = attempt.head or MappingsCommit()
        self._attempt = attempt
        self._mappings = attempt.index(head.mappings, MAPPINGS)
        self._policies = attempt.index(head.policies, BYTES)

    def put(self, new: PolicyMapping) -> bool:
        """Add or change a mapping; whether that changes anything."""
        old = None
        for _, each in self._mappings.prefix(key(new.target.id, new.type)):
            if each.policy.id != new.policy.id:
                raise EntityExistsError(
                    f"another policy of type {new.type} is attached there already",
                    hint="detach that one first",
                )
            old = each
        if old is not None and old.parameters == new.parameters:
            return False
        self._mappings.put(new.key, new)
        self._policies.put(key(new.policy.id, new.target.id), new.type.encode())
        self._attempt.record(Change("update" if old else "add", new.key))
        return True

    def remove(self, mapping: PolicyMapping) -> bool:
        """Remove a mapping if it has not changed; returns whether it was removed."""
        if self._mappings.get(mapping.key) != mapping:
            return False
        self._mappings.remove(mapping.key)
        self._policies.remove(key(mapping.policy.id, mapping.target.id))
        self._attempt.record(Change("remove", mapping.key))
        return True

    def head(self) -> MappingsCommit:
        """The head after all changes."""
        return MappingsCommit(mappings=seal(self._mappings), policies=seal(self._policies))
