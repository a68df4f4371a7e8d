"""Who tells maintenance what stays: our own packages, and others by entry points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points

from lakesweep.errors import ConfigError
from lakesweep.maintenance.identifiers import Plugin

#: Other packages offer a Plugin each under this name.
GROUP = "lakesweep.maintenance"


def _store() -> Plugin:
    from lakesweep.maintenance.own_realms import SystemIdentifier, UserIdentifier

    return Plugin("store", realms=(SystemIdentifier(), UserIdentifier()))


def _catalog() -> Plugin:
    from lakesweep.catalog.maintenance import PLUGIN

    return PLUGIN


#: Our own.
OURS: Mapping[str, Callable[[], Plugin]] = {"store": _store, "catalog": _catalog}


def load_plugins() -> Sequence[Plugin]:
    """All of them. ConfigError if one cannot be had: without it, what it keeps would be deleted."""
    return [*(make() for make in OURS.values()), *_offered()]


def _offered() -> Sequence[Plugin]:
    found = []
    for entry in entry_points(group=GROUP):
        try:
            plugin = entry.load()
        except Exception as error:
            raise _unusable(entry.name, str(error)) from error
        if not isinstance(plugin, Plugin):
            raise _unusable(entry.name, f"it is a {type(plugin).__name__}, not a Plugin")
        found.append(plugin)
    return found


def _unusable(name: str, reason: str) -> ConfigError:
    return ConfigError(
        f"the plug-in {name} of maintenance cannot be used: {reason}",
        hint="mend it, or uninstall the package that offers it if nothing of it is stored",
    )
