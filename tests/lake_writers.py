"""All that happens to a lake apart from sweeps, each act chosen by small numbers.

An act does nothing where there is nothing that it could be done to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from tests.sweeps import GRACE, World, reach

_MOST_TABLES = 4
_TICKS = (timedelta(seconds=50), timedelta(minutes=3), timedelta(hours=8), GRACE)


class Writers:
    """Writers, engines and people at work on a lake, and what is known of it all."""

    def __init__(self) -> None:
        self.world = World()
        #: What each metadata file keeps, as an oracle read it when it was written.
        self.reached: dict[str, frozenset[str]] = {}
        #: Where roots pointed, one move after the other; None where they went.
        self.history: list[tuple[str, str | None]] = []
        self._versions: dict[str, list[str]] = {}
        self._pending: dict[str, list[str]] = {}
        self._names = 0
        for number in (0, 1):
            self.create(0, 1)
            self.start(number, 0)
            self.commit(number, 1)
            for place in range(4):
                self.litter(number, 3 * place)
        self.world.clock.sleep((2 * GRACE).total_seconds())

    def held_since(self, begin: int, path: str) -> list[str]:
        """The roots that have referenced a file ever since the history was so long."""
        pointers: dict[str, list[str | None]] = {}
        for number, (name, pointer) in enumerate(self.history):
            before = pointers.setdefault(name, [])
            pointers[name] = [*before, pointer] if number >= begin else [pointer]
        return [
            name
            for name, seen in pointers.items()
            if all(pointer is not None and path in self.reached[pointer] for pointer in seen)
        ]

    def live(self) -> set[str]:
        """All that is referenced now."""
        pointers = self.world.catalog.pointers.values()
        return set().union(*(self.reached[pointer] for pointer in pointers))

    def act(self, name: str, a: int, b: int) -> None:
        """Do what is called so."""
        ACTS[name](self, a, b)

    def start(self, a: int, b: int) -> None:
        """A writer stores a file, and has not committed it."""
        if name := self._name(a):
            folder = "pool" if b % 4 == 3 else self._folder(name)
            path = self.world.put(self.world.new_path(folder))
            self._pending.setdefault(name, []).append(path)

    def commit(self, a: int, b: int) -> None:
        """A writer commits what it stored, as far as it is still there."""
        if name := self._name(a):
            paths = [path for path in self._pending.pop(name, ()) if path in self.world.files()]
            self._point(name, self.world.append(name, *paths, replaces=b % 4 == 0))

    def abort(self, a: int, _: int) -> None:
        """A writer leaves what it stored behind."""
        if name := self._name(a):
            self._pending.pop(name, None)

    def expire(self, a: int, b: int) -> None:
        """All snapshots but the last go, and their files with them if the engine cleans up."""
        if name := self._name(a):
            before = self.live()
            self._point(name, self.world.expire(name))
            for path in before - self.live() if b % 2 else ():
                self.world.bucket.delete(path)

    def roll_back(self, a: int, b: int) -> None:
        """The catalog points to earlier metadata, if all that it names is still there."""
        if name := self._name(a):
            pointer = self._versions[name][b % len(self._versions[name])]
            if self.reached[pointer] <= self.world.files():
                self._point(name, pointer)

    def drop(self, a: int, _: int) -> None:
        """A table is gone from the catalog, with all its files left behind."""
        if name := self._name(a):
            self._drop(name)

    def register(self, a: int, _: int) -> None:
        """A second name for the same metadata."""
        if (name := self._name(a)) and len(self.world.catalog.pointers) < _MOST_TABLES:
            self._point(self._new_name(), self.world.catalog.pointers[name])

    def create(self, a: int, b: int) -> None:
        """A table, perhaps in the folder of another."""
        if len(self.world.catalog.pointers) < _MOST_TABLES:
            name, other = self._new_name(), self._name(a)
            folder = self._folder(other) if other and not b % 3 else name
            self._point(name, self.world.create(name, folder))

    def add_files(self, a: int, b: int) -> None:
        """A table takes up a file that nothing referenced, however old."""
        live = self.live()
        orphans = [path for path in self._stored(".parquet") if path not in live]
        name = self._name(a)
        if name and orphans:
            self._point(name, self.world.append(name, orphans[b % len(orphans)]))

    def replace(self, a: int, _: int) -> None:
        """A table begins anew."""
        if name := self._name(a):
            self._point(name, self.world.change(name, snapshots=[]))

    def litter(self, a: int, b: int) -> None:
        """A file that no writer knows."""
        folder = self._folder(name) if (name := self._name(a)) else "pool"
        self.world.put(self.world.new_path(("pool", folder)[b % 2]), old=b % 3 < 2)

    def deny(self, a: int, _: int) -> None:
        """Some metadata cannot be read."""
        live = self.live()
        found = [path for path in self._stored(".avro", ".json") if path in live]
        if found:
            self.world.denied.add(found[a % len(found)])

    def fail(self, _: int, __: int) -> None:
        """The catalog ends in the middle of its answers."""
        self.world.catalog.is_down = True

    def mend(self, _: int = 0, __: int = 0) -> None:
        """All can be read again."""
        self.world.denied.clear()
        self.world.catalog.is_down = False

    def tick(self, a: int, _: int) -> None:
        """Time passes."""
        self.world.clock.sleep(_TICKS[a % len(_TICKS)].total_seconds())

    def forget_broken(self, gone: set[str]) -> None:
        """Drop the tables whose metadata is gone."""
        for name, pointer in list(self.world.catalog.pointers.items()):
            if any(not path.endswith(".parquet") for path in gone & self.reached[pointer]):
                self._drop(name)

    def _drop(self, name: str) -> None:
        del self.world.catalog.pointers[name]
        self.history.append((name, None))

    def _point(self, name: str, pointer: str) -> None:
        if pointer not in self.reached:
            self.reached[pointer] = reach(self.world.bucket, pointer)
        self._versions.setdefault(name, []).append(pointer)
        self.world.catalog.pointers[name] = pointer
        self.history.append((name, pointer))

    def _new_name(self) -> str:
        self._names += 1
        return f"t{self._names}"

    def _name(self, number: int) -> str | None:
        names = list(self.world.catalog.pointers)
        return names[number % len(names)] if names else None

    def _folder(self, name: str) -> str:
        return self.world.table(name).name

    def _stored(self, *endings: str) -> list[str]:
        return [path for path in sorted(self.world.files()) if path.endswith(endings)]


#: Every act, by its name.
ACTS: Mapping[str, Callable[[Writers, int, int], None]] = {
    "start": Writers.start,
    "commit": Writers.commit,
    "abort": Writers.abort,
    "expire": Writers.expire,
    "roll back": Writers.roll_back,
    "drop": Writers.drop,
    "register": Writers.register,
    "create": Writers.create,
    "add files": Writers.add_files,
    "replace": Writers.replace,
    "litter": Writers.litter,
    "deny": Writers.deny,
    "fail": Writers.fail,
    "mend": Writers.mend,
    "tick": Writers.tick,
}
