"""Polaris' privileges in the words of the realm, where both mean the same.

Polaris tells tables from views in its privileges; here what a privilege is granted on does that.
So `VIEW_DROP` is `drop` on a view, but has no counterpart on a namespace, where `drop` would take
tables, too: it is refused there. Every privilege can also be given by our own name for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakesweep.catalog.grants import Privilege, parse_privilege
from lakesweep.catalog.warehouse.problems import bad_request
from lakesweep.errors import UsageError

P = Privilege
_FOLDER = {
    "NAMESPACE_CREATE": P.CREATE_NAMESPACE,
    "TABLE_CREATE": P.CREATE_TABLE,
    "VIEW_CREATE": P.CREATE_VIEW,
    "POLICY_CREATE": P.CREATE_POLICY,
    "TABLE_READ_DATA": P.READ_DATA,
}
#: What is the same here, by the kind of what it is granted on.
_SAME: Mapping[str, Mapping[str, Privilege]] = {
    "catalog": {
        **_FOLDER,
        "CATALOG_MANAGE_CONTENT": P.MANAGE_CONTENT,
        "CATALOG_MANAGE_ACCESS": P.MANAGE_ACCESS,
        "CATALOG_ATTACH_POLICY": P.ATTACH_POLICY,
    },
    "namespace": _FOLDER,
    "table": {
        "TABLE_LIST": P.LIST,
        "TABLE_READ_PROPERTIES": P.READ_METADATA,
        "TABLE_WRITE_PROPERTIES": P.WRITE_METADATA,
        "TABLE_READ_DATA": P.READ_DATA,
        "TABLE_WRITE_DATA": P.WRITE_DATA,
        "TABLE_DROP": P.DROP,
        "TABLE_ATTACH_POLICY": P.ATTACH_POLICY,
    },
    "view": {
        "VIEW_LIST": P.LIST,
        "VIEW_READ_PROPERTIES": P.READ_METADATA,
        "VIEW_WRITE_PROPERTIES": P.WRITE_METADATA,
        "VIEW_DROP": P.DROP,
    },
    "policy": {
        "POLICY_LIST": P.LIST,
        "POLICY_READ": P.READ_METADATA,
        "POLICY_WRITE": P.WRITE_METADATA,
        "POLICY_DROP": P.DROP,
        "POLICY_ATTACH": P.ATTACH_POLICY,
    },
}


def parse_polaris_privilege(kind: str, name: str) -> Privilege:
    """The privilege of a grant on this kind. WarehouseError (400) if there is none like it."""
    found = _SAME.get(kind, {}).get(name)
    if found is not None:
        return found
    try:
        return parse_privilege(name)
    except UsageError:
        same = ", ".join(sorted(_SAME.get(kind, {})))
        ours = ", ".join(each.value for each in Privilege)
        raise bad_request(
            f"{name[:80]} on a {kind[:20]} is not the same as any privilege here;"
            f" there are {same}, and {ours}"
        ) from None


def show_polaris_privilege(kind: str, privilege: Privilege) -> str:
    """The name that Polaris has for a privilege on this kind, or else our own."""
    names = (name for name, ours in _SAME.get(kind, {}).items() if ours is privilege)
    return next(names, privilege.value)
