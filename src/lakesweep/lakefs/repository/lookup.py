"""Find a repository by its name on a server, or by the address of its storage namespace."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from lakesweep.errors import DeniedError, IncompleteError, MissingError, NotFoundError
from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lakefs.client.access import ConfiguredServer, ServerAccess, access_from
from lakesweep.lakefs.client.api import Server
from lakesweep.lakefs.repository.interface import Repository
from lakesweep.lakefs.repository.served import ServedRepository, find_namespace, trim_namespace
from lakesweep.lakefs.repository.stored import StoredRepository
from lakesweep.storage.address import folder_identity
from lakesweep.storage.stores import Stores


def is_address(name: str) -> bool:
    """Whether this is an address; the names of repositories have no `/`."""
    return "/" in name


def open_repository(
    name: str,
    stores: Stores,
    places: tuple[ConfiguredServer, ...],
    environment: Mapping[str, str],
) -> Repository:
    """A repository by name or address; only names need a server."""
    if is_address(name):
        return StoredRepository(stores, name)
    access, local_root = _find_server(name, places, environment)
    try:
        return ServedRepository(Server(access), name, stores, local_root=local_root)
    except MissingError as error:
        raise NotFoundError(
            f"the lakeFS server {access.endpoint} has no repository {name!r}: {error.reason}",
            hint="lakectl repo list shows all repositories; check the configured endpoint",
        ) from error


def open_alone(
    name: str,
    stores: Stores,
    places: tuple[ConfiguredServer, ...],
    environment: Mapping[str, str],
    named: Collection[str] = (),
) -> Repository:
    """A repository; IncompleteError if another one, which is not configured, shares its folder.

    Servers allow that: a repository is renamed by creating a bare one in the same folder.
    """
    repository = open_repository(name, stores, places, environment)
    own = folder_identity(repository.namespace.location)
    for other, namespace in siblings_of(name, places, environment).items():
        if other not in named and folder_identity(namespace.location) == own:
            raise IncompleteError(
                f"{name} has its objects in one folder with {other}, which its root does not name,"
                " so that it is not known what that one needs of them; name it, or delete it on the"
                " server if it is no longer used: that leaves all objects"
            )
    return repository


def siblings_of(
    name: str, places: tuple[ConfiguredServer, ...], environment: Mapping[str, str]
) -> Mapping[str, StorageNamespace]:
    """All other repositories of its server that we can read.

    A server may keep some in its memory, or on an unknown disk. Empty for an address.
    IncompleteError if the server is not allowed to say.
    """
    if is_address(name):
        return {}
    access, local_root = _find_server(name, places, environment)
    try:
        told = {each.id: each.storage_namespace for each in Server(access).repositories()}
    except DeniedError as error:
        raise IncompleteError(
            f"{name} may share its folder with others, as its server does not say which"
            f" repositories it has; grant fs:ListRepositories: {error.message}"
        ) from error
    hidden = ("mem://",) if local_root else ("mem://", "local://")
    return {
        other: find_namespace(trim_namespace(namespace), local_root)
        for other, namespace in told.items()
        if other != name and not namespace.startswith(hidden)
    }


def _find_server(
    name: str, places: tuple[ConfiguredServer, ...], environment: Mapping[str, str]
) -> tuple[ServerAccess, str | None]:
    """The server of a repository, and where it stores `local://` namespaces."""
    place = _find_place(name, places)
    access = access_from(environment, place.endpoint if place else None)
    if place is None:
        return access, None
    return replace(access, pace=place.pace), place.local_root


def _find_place(name: str, places: tuple[ConfiguredServer, ...]) -> ConfiguredServer | None:
    """The server that is configured for this repository, or else the only one."""
    named = [place for place in places if name in place.repositories]
    return next(iter(named or (places if len(places) == 1 else ())), None)
