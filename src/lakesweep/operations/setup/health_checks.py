"""Health checks: Python, Java, extras, store, locations, plans, catalogs, repositories, Spark.

Each check yields findings and never raises.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import util
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from lakesweep.errors import (
    DeniedError,
    LakesweepError,
    MissingError,
    NewerSchemaError,
    RealmMissingError,
    RefusedError,
    SchemaError,
    UnavailableError,
)
from lakesweep.redaction import masked

if TYPE_CHECKING:
    from lakesweep.app import App
    from lakesweep.config import Config
    from lakesweep.storage.address import Address
    from lakesweep.storage.stores import Stores
    from lakesweep.store import Store

#: The schemes of buckets that need no section of their own.
_SCHEMES = ("s3://", "gs://")
_PATIENCE = 10.0


class CheckStatus(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `mend` says how to fix the problem."""

    check: str
    status: CheckStatus
    detail: str
    mend: str | None = None


def check_python() -> Iterator[Finding]:
    """The version of Python."""
    yield Finding("python", CheckStatus.OK, platform.python_version())


def check_java(config: Config) -> Iterator[Finding]:
    """Whether Spark will find a usable Java."""
    from lakesweep.spark.java import find_java

    if (config.spark.remote or "").startswith("sc://"):
        yield Finding("java", CheckStatus.OK, "not needed: Spark is reached over Spark Connect")
        return
    try:
        java, version = find_java()
    except LakesweepError as error:
        yield Finding("java", CheckStatus.FAIL, error.message, error.hint)
        return
    yield Finding("java", CheckStatus.OK, f"version {version} at {java}")


def check_extras() -> Iterator[Finding]:
    """Which optional libraries are installed."""
    yield _extra("spark", ("pyspark",), "sweeps over whole lakes")
    yield _extra("google", ("google.auth",), "accounts of Google Cloud")
    yield _extra("azure", ("azure.identity",), "identities of Azure")
    yield _extra("lakefs", ("lakefs_sdk",), "repositories of lakeFS servers")
    yield _extra("postgresql", ("psycopg",), "a store in PostgreSQL")
    yield _extra("mysql", ("pymysql",), "a store in MariaDB or MySQL")
    yield _extra("mongodb", ("pymongo",), "a store in MongoDB")


def _extra(extra: str, modules: tuple[str, ...], purpose: str) -> Finding:
    if all(_is_installed(module) for module in modules):
        from importlib import metadata

        version = metadata.version(modules[0])
        return Finding(f"extra {extra}", CheckStatus.OK, f"{modules[0]} {version}")
    mend = f"pip install 'lakesweep[{extra}]'"
    return Finding(
        f"extra {extra}", CheckStatus.WARN, f"not installed: {purpose} cannot be used", mend
    )


def _is_installed(module: str) -> bool:
    try:
        return util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def check_spark(config: Config, *, verbose: bool = False) -> Iterator[Finding]:
    """Start a session as configured, and count rows in Python on its executors."""
    where = masked(config.spark.remote or config.spark.master)
    try:
        yield from _try_spark(config, where, verbose=verbose)
    except LakesweepError as error:
        yield Finding("spark", CheckStatus.FAIL, f"{where}: {error.message}", error.hint)


def _try_spark(config: Config, where: str, *, verbose: bool) -> Iterator[Finding]:
    from lakesweep.spark.kernels import count_rows
    from lakesweep.spark.session import open_session

    with open_session(config.spark, verbose=verbose, is_rehearsal=True) as session:
        count = count_rows(session)
        detail = f"{session.version} on {where}: executors counted {count} rows in Python"
    yield Finding("spark", CheckStatus.OK, detail)


def check_store(app: App) -> Iterator[Finding]:
    """Whether the store's database answers and has its tables, and whether the realm is active."""
    try:
        store = app.store
    except NewerSchemaError as error:
        yield Finding("store", CheckStatus.FAIL, error.message, error.hint)
    except SchemaError:
        yield _missing_store(app.store_url)
    except LakesweepError as error:
        yield Finding("store", CheckStatus.FAIL, error.message, error.hint)
    else:
        yield Finding("store", CheckStatus.OK, masked(app.store_url))
        yield _check_realm(store, app.config.store.realm)


def _missing_store(url: str) -> Finding:
    """How to create the store."""
    from lakesweep.store.backends.urls import sqlite_file

    where, file = masked(url), sqlite_file(url)
    if file is not None and not file.exists():
        folder = next(parent for parent in file.absolute().parents if parent.exists())
        if not (folder.is_dir() and os.access(folder, os.W_OK)):
            mend = "grant this user write permission, or set [store] url"
            return Finding("store", CheckStatus.FAIL, f"{where}: cannot write in {folder}", mend)
    mend = "lakesweep store init creates its tables"
    return Finding("store", CheckStatus.WARN, f"{where} holds no store yet", mend)


def _check_realm(store: Store, name: str) -> Finding:
    from lakesweep.store.realms.registry import check_name

    check = f"realm {name}"
    try:
        check_name(name)
        store.realm(name)
    except RealmMissingError:
        return Finding(
            check, CheckStatus.WARN, "it does not exist", f"lakesweep realm create {name}"
        )
    except RefusedError as error:
        return Finding(check, CheckStatus.WARN, error.message, error.hint)
    except LakesweepError as error:
        return Finding(check, CheckStatus.FAIL, error.message, error.hint)
    return Finding(check, CheckStatus.OK, "active")


def check_locations(app: App) -> Iterator[Finding]:
    """Whether each configured location can be listed and a file in it read.

    Locations of lakes are also tried with an object of our own, which is written and deleted.
    """
    stores = _impatient(app)
    swept = {location for lake in app.config.lakes.values() for location in lake.locations}
    for address in _locations(app.config):
        found = _check_location(stores, address)
        if found.status is CheckStatus.OK and address in swept:
            found = _check_changes(stores, address, found)
        yield found


def _locations(config: Config) -> list[str]:
    from lakesweep.config import PaimonWarehouseRoot

    found = [address for address in config.storage if not address.endswith("://")]
    for lake in config.lakes.values():
        found += lake.locations
        found += [root.path for root in lake.roots if isinstance(root, PaimonWarehouseRoot)]
    return list(dict.fromkeys(found))


def check_plans(app: App) -> Iterator[Finding]:
    """Whether the plans of each lake can be written."""
    stores = _impatient(app)
    for name in app.config.lakes:
        yield _check_plans(stores, f"plans of {name}", app.lake(name).plans)


def _check_plans(stores: Stores, check: str, place: str) -> Finding:
    from lakesweep.storage.address import StoreKind, parse

    try:
        address = parse(place)
        if address.kind is StoreKind.FILE:
            return _check_folder(check, Path(address.identity))
        left = _try_writing(stores, address)
    except LakesweepError as error:
        return Finding(check, *_diagnose(error, "write"))
    if left:
        mend = "grant permission to delete"
        return Finding(check, CheckStatus.WARN, f"files in {place} cannot be deleted: {left}", mend)
    return Finding(check, CheckStatus.OK, f"{place} can be written to")


def _check_folder(check: str, folder: Path) -> Finding:
    """Whether a folder can be written to or created; nothing is created here."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if there.is_dir() and os.access(there, os.W_OK):
        return Finding(check, CheckStatus.OK, f"{folder} can be written to")
    mend = "grant this user write permission, or set plans of the lake"
    return Finding(check, CheckStatus.FAIL, f"{folder}: cannot write in {there}", mend)


def _try_writing(stores: Stores, address: Address) -> str | None:
    """Write an empty object and delete it; the reason if the delete failed.

    A bucket offers no other way to find out who may write.
    """
    key = f"{address.folder}doctor-{token_hex(8)}"
    store = stores.open(address)
    store.write(key, b"")
    return store.delete([key])[0].reason


def _impatient(app: App) -> Stores:
    """The configured stores, but with one attempt and a short timeout."""
    from lakesweep.storage.options import StorageOptions
    from lakesweep.storage.stores import Stores

    options = {**{scheme: StorageOptions() for scheme in _SCHEMES}, **app.storage_options}
    hasty = {
        address: replace(option, retries=0, timeout_seconds=min(option.timeout_seconds, _PATIENCE))
        for address, option in options.items()
    }
    return Stores(hasty, clock=app.clock)


def _check_location(stores: Stores, location: str) -> Finding:
    from lakesweep.storage.address import parse

    check = f"location {location}"
    try:
        address = parse(location)
        store = stores.open(address)
        entries = store.list(address.folder, one_level=True).entries
    except LakesweepError as error:
        return Finding(check, *_diagnose(error, "list"))
    if entries.num_rows == 0:
        return Finding(
            check, CheckStatus.OK, "can be listed; no file at its top level to try reading"
        )
    try:
        store.read_range(entries.column("key")[0].as_py(), 0, 1)
    except LakesweepError as error:
        return Finding(check, *_diagnose(error, "read"))
    return Finding(check, CheckStatus.OK, "can be listed and read")


def _check_changes(stores: Stores, location: str, found: Finding) -> Finding:
    """The finding of a location that can be read, with what may be changed in it.

    A location that is read-only is a warning: it can be planned, but not swept.
    """
    from lakesweep.runs.records import home_folder
    from lakesweep.storage.address import StoreKind, parse

    address = parse(location)
    if address.kind is StoreKind.FILE:
        if os.access(address.identity, os.W_OK | os.X_OK):
            return replace(found, detail=f"{found.detail}, and files in it deleted")
        mend = "grant this user write permission; plans work without it"
        return replace(found, status=CheckStatus.WARN, detail="cannot be written to", mend=mend)
    try:
        left = _try_writing(stores, parse(home_folder("", location)))
    except LakesweepError as error:
        _, detail, mend = _diagnose(error, "write")
        mend = f"{mend}; plans work without it, apply does not"
        return replace(found, status=CheckStatus.WARN, detail=detail, mend=mend)
    if left:
        detail = f"files in it cannot be deleted: {left}"
        mend = "grant permission to delete; plans work without it"
        return replace(found, status=CheckStatus.WARN, detail=detail, mend=mend)
    return replace(found, detail=f"{found.detail}, and an object of our own written and deleted")


def _diagnose(error: LakesweepError, right: str) -> tuple[CheckStatus, str, str]:
    match error:
        case DeniedError():
            # Each store names the right by its own words.
            mend = error.hint or f"grant permission to {right}, or use other credentials"
            return CheckStatus.FAIL, f"no permission to {right}: {error.reason}", mend
        case MissingError():
            return CheckStatus.WARN, error.reason, "create it, or correct the address"
        case UnavailableError():
            mend = "check the endpoint, the network and the credentials"
            return CheckStatus.FAIL, f"no answer: {error.reason}", mend
        case _:
            return CheckStatus.FAIL, error.message, error.hint


def check_catalogs(app: App) -> Iterator[Finding]:
    """Whether each catalog can be loaded, its namespaces listed, and a table found."""
    for name, properties in app.catalogs.items():
        yield _check_catalog(name, dict(properties))


def _check_catalog(name: str, properties: dict[str, str]) -> Finding:
    from lakesweep.iceberg.catalogs import open_catalog

    try:
        first = next(open_catalog(name, properties).entries(), None)
    except Exception as error:
        mend = "check the properties of this root, and whether the catalog is running"
        return Finding(f"catalog {name}", CheckStatus.FAIL, _first_line(error), mend)
    detail = f"can be listed, such as {first.full_name}" if first else "can be listed; it is empty"
    return Finding(f"catalog {name}", CheckStatus.OK, detail)


def check_repositories(app: App) -> Iterator[Finding]:
    """Whether each lakeFS repository exists: on its server, or as a dump of its refs."""
    for name in app.repository_names:
        yield _check_repository(app, name)


def _check_repository(app: App, name: str) -> Finding:
    check = f"repository {name}"
    try:
        repository = app.repository(name)
        age = repository.dump_age()
    except LakesweepError as error:
        return Finding(check, CheckStatus.FAIL, error.message, error.hint)
    where = "on its server" if age is None else "by a dump of its refs"
    found = f"found {where}, in {repository.namespace.location}"
    if age is not None and _keeps_all(app, name):
        return Finding(
            check,
            CheckStatus.WARN,
            f"{found}; a dump does not show what is staged, so plans keep everything",
            "give its name and its server, or without_staging = true if nothing is staged any more",
        )
    return Finding(check, CheckStatus.OK, found)


def _keeps_all(app: App, namespace: str) -> bool:
    """Whether a root with this namespace does not state that nothing is staged."""
    from lakesweep.config import LakefsRoot

    roots = (root for lake in app.config.lakes.values() for root in lake.roots)
    return any(
        isinstance(root, LakefsRoot) and namespace in root.namespaces and not root.without_staging
        for root in roots
    )


def _first_line(error: Exception) -> str:
    return (masked(str(error)) or type(error).__name__).splitlines()[0]
