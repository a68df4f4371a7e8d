"""Find `lakesweep.toml`: in this folder or in a parent, where no other user could have put it.

A configuration decides where credentials are sent and what code Spark loads. A file that another
user could have written, or replaced, is passed over and reported; naming it with `--config` or
`LAKESWEEP_CONFIG` uses it on purpose.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

FILE_NAME = "lakesweep.toml"
ENVIRONMENT_VARIABLE = "LAKESWEEP_CONFIG"

_ROOT = 0
_ACL = "system.posix_acl_access"


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A configuration that was found and not used, and why."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"passed over {self.path}: {self.reason}; to use it, add: --config {self.path}"


@dataclass(frozen=True, slots=True)
class ConfigSearch:
    """The file to read, if there is one; the folders that were searched; what was passed over."""

    path: Path | None
    folders: tuple[Path, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()

    @property
    def places(self) -> str:
        """Where the file was looked for, in words."""
        if not self.folders:
            return str(self.path)
        first, last = self.folders[0], self.folders[-1]
        parents = f" and its parents up to {last}" if last != first else ""
        return f"{FILE_NAME} in {first}{parents}; {ENVIRONMENT_VARIABLE} is not set"


def find_config(
    explicit: Path | None,
    environment: Mapping[str, str],
    folder: Path,
    *,
    owners: Collection[int] | None = None,
) -> ConfigSearch:
    """The file as given, or from the environment, or else the nearest that can be trusted.

    Only files of `owners` are trusted: by default the user of this process, and root.
    """
    named = explicit or _path(environment.get(ENVIRONMENT_VARIABLE))
    if named is not None:
        return ConfigSearch(named)
    return _search(folder.absolute(), {_ROOT, os.geteuid()} if owners is None else owners)


def is_closed(folder: Path, owners: Collection[int] | None = None) -> bool:
    """Whether only `owners` can change what lies in a folder, or put another in its place."""
    trusted = {_ROOT, os.geteuid()} if owners is None else owners
    # Links on the way count by where they lie, and by where they lead to.
    paths = (folder.absolute(), folder.resolve())
    folders = dict.fromkeys(each for path in paths for each in (path, *path.parents))
    return all(_distrust_folder(each, trusted) is None for each in folders)


def _search(folder: Path, owners: Collection[int]) -> ConfigSearch:
    passed_over: list[PassedOver] = []
    folders = (folder, *folder.parents)
    # Above a folder that others can change nothing counts: they could have moved ours there.
    barrier: str | None = None
    for number, parent in enumerate(folders, start=1):
        barrier = barrier or _distrust_folder(parent, owners)
        file = parent / FILE_NAME
        if not _is_file(file):
            continue
        reason = barrier or _distrust_file(file, owners)
        if reason is None:
            return ConfigSearch(file, folders[:number], tuple(passed_over))
        passed_over.append(PassedOver(file, reason))
    return ConfigSearch(None, folders, tuple(passed_over))


def _distrust_folder(folder: Path, owners: Collection[int]) -> str | None:
    """Why files in a folder may be other people's work; None if they are not."""
    try:
        found = folder.stat()
    except OSError as error:
        return f"{folder} cannot be examined: {error.strerror}"
    # In a sticky folder such as /tmp, others can add files but not replace ours: each file is
    # judged by its own owner.
    if found.st_uid in owners and found.st_mode & stat.S_ISVTX:
        return None
    reason = _distrust(folder, found, owners)
    return reason and f"{folder} {reason}"


def _distrust_file(file: Path, owners: Collection[int]) -> str | None:
    # The link first: in a sticky folder another user may have linked to a file of ours.
    link = file.lstat()
    if link.st_uid not in owners:
        return f"it belongs to {_user_name(link.st_uid)}"
    target = file.resolve()
    reason = _distrust(target, target.stat(), owners)
    if reason:
        return f"it {reason}"
    return _distrust_folder(target.parent, owners) if target.parent != file.parent else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False  # a parent that we may not enter


def _distrust(path: Path, found: os.stat_result, owners: Collection[int]) -> str | None:
    """Who else can write to a file or a folder; None if it is only the user and root."""
    if found.st_uid not in owners:
        return f"belongs to {_user_name(found.st_uid)}"
    if found.st_mode & stat.S_IWOTH:
        return "can be written to by everyone"
    if found.st_mode & stat.S_IWGRP and not _is_private_group(path, found):
        return f"can be written to by the group {_group_name(found.st_gid)}"
    return None


def _is_private_group(path: Path, found: os.stat_result) -> bool:
    """Whether a group has no member but the owner: many systems give each user such a group."""
    if _has_acl(path):
        return False  # the bits of the group then stand for all users and groups in the list
    try:
        group, owner = grp.getgrgid(found.st_gid), pwd.getpwuid(found.st_uid)
    except KeyError:
        return False
    return group.gr_name == owner.pw_name and set(group.gr_mem) <= {owner.pw_name}


def _has_acl(path: Path) -> bool:
    try:
        return _ACL in os.listxattr(path)
    except (AttributeError, OSError):
        return False  # another system, or a file system without lists


def _user_name(user: int) -> str:
    try:
        return f"the user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"the user {user}"


def _group_name(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None
