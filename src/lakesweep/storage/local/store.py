"""The local file system as an object store."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import BinaryIO, NamedTuple

from lakesweep.errors import (
    ChangedError,
    ExistsError,
    InexactKeyError,
    LakesweepError,
    MissingError,
    StorageError,
    UnsupportedError,
)
from lakesweep.storage.cursor import Cursor, page_at
from lakesweep.storage.local.exclusive_rename import rename_new
from lakesweep.storage.local.folders import (
    FolderDescriptors,
    LocalFolders,
    is_absent,
    is_denied,
    reason_of,
    translated,
)
from lakesweep.storage.local.listing import FolderWalk, WalkRequest, escaped, is_utf8
from lakesweep.storage.object_store import (
    CHANGED,
    Deletion,
    Expected,
    ListingPage,
    ObjectInfo,
    Outcome,
    StorageCapabilities,
    check_expected,
    check_keys,
)

TEMPORARY_PREFIX = ".lakesweep-tmp-"

_PIECE_BYTES = 1 << 20
#: An empty segment, `.` or `..`.
_ODD_SEGMENT = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNKNOWN = LocalFolders()
#: What systems answer that cannot create files without a name.
_NO_UNNAMED = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL})
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})


class LocalStore:
    """The files below one folder, by default the root of the file system.

    Only files are objects. A key is the path below `root`; one with an empty, `.` or `..` segment
    would name another key's file and is refused. Folders appear with their first file and are
    never removed.

    A link to a file is one object. Its size and content are those of the file; its time is the
    newer one of the link and the file. A write or a delete replaces or removes the link, never the
    file behind it, and a move moves the link. Links to folders are neither followed nor listed, so
    a listing never leaves its folder. Dangling links, pipes, sockets and devices are not objects.

    Deletes, moves and writes follow no linked folder below a location (see `FolderDescriptors`), so
    a folder that is replaced by a link at any moment leads none of them elsewhere. Reads are
    resolved by the system: tables may be linked from other disks.

    A write first creates a file without a name, so that a process that is killed leaves nothing.
    Where the system cannot do that, it is a hidden file `.lakesweep-tmp-…` in the same folder. A
    crash may leave that behind: it is listed like any other file, and a sweep removes it once it
    is old.

    `base` is the prefix of addresses; another value maps a bucket onto a folder, for tests.
    `folders` names the locations and private folders; `root` itself is a location, unless it is the
    whole file system.
    """

    #: More threads would not delete faster: they only contend for the interpreter lock.
    capabilities = StorageCapabilities(
        delete_batch=1000,
        parallel_deletes=1,
        reports_absent=True,
        verified_deletes=True,
        detects_rewrites=True,
        renames=True,
    )

    def __init__(
        self, root: str = "/", base: str | None = None, folders: LocalFolders = _UNKNOWN
    ) -> None:
        self._root = root if root.endswith("/") else root + "/"
        self.base = self._root if base is None else base
        self._known = folders if self._root == "/" else folders.adding([""])

    def __repr__(self) -> str:
        return f"LocalStore({self._root!r}, {self.base!r})"

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        if cursor is None:
            self._check_prefix(prefix)
            cursor = Cursor(
                FolderWalk(WalkRequest(self._root, self.base, prefix, one_level, after))
            )
        return page_at(cursor)

    def list_level(self, prefix: str, after: str, until: str, cursor: object | None) -> ListingPage:
        """A page of one level, with only the files after `after` and up to `until`.

        Files outside the bounds cost no stat.
        """
        if cursor is None:
            self._check_prefix(prefix)
            request = WalkRequest(self._root, self.base, prefix, True, after, until)
            cursor = Cursor(FolderWalk(request))
        return page_at(cursor)

    def head(self, key: str) -> ObjectInfo:
        path = self._path(key)
        with self._translating(key):
            status, link = os.stat(path), os.lstat(path)
        self._check_file(key, status)
        newest = max(status.st_mtime_ns, link.st_mtime_ns)
        modified = _EPOCH + timedelta(microseconds=newest // 1000)
        return ObjectInfo(key, status.st_size, modified, None)

    def read(self, key: str) -> bytes:
        with self._open(key) as file:
            return file.read()

    def read_range(self, key: str, start: int, length: int) -> bytes:
        with self._open(key) as file:
            # Python allocates as many bytes as it is asked for, however few there are.
            size_bytes = os.fstat(file.fileno()).st_size
            file.seek(start)
            return file.read(max(min(length, size_bytes - start), 0))

    def write(self, key: str, data: bytes) -> None:
        self._write(key, (data,))

    def write_new(self, key: str, data: bytes) -> None:
        with self._writing(key, (data,)) as file:
            self._link(key, file)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        """Delete files; with `expected`, each is checked right before its delete.

        File systems have no conditional delete: a write in the microseconds between check and
        delete is lost.
        """
        check_keys(keys, self.capabilities.delete_batch)
        check_expected(keys, expected)
        # One set of descriptors for the batch: most files share their folder with the one before.
        with self._folders() as folders:
            if expected is None:
                return [self._delete_one(folders, key) for key in keys]
            pairs = zip(keys, expected, strict=True)
            return [self._delete_one(folders, *pair) for pair in pairs]

    def remove_folder(self, key: str) -> None:
        """Remove a folder with everything in it, as far as that is possible."""
        with self._folders() as folders, suppress(OSError):
            parent, name = folders.of(self._checked(key))
            shutil.rmtree(name, ignore_errors=True, dir_fd=parent)

    def copy(self, source: str, target: str) -> None:
        with self._open(source) as file:
            self._write(target, iter(partial(file.read, _PIECE_BYTES), b""))

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        """Rename the file; across file systems, copy it with its times and then delete it."""
        self._checked(source), self._checked(target)
        with self._folders() as folders, self._folders() as goals:
            with self._translating(source):
                origin = _Entry(*folders.of(source))
            self._check_movable(source, origin, expected)
            try:
                self._rename(origin, goals, target)
            except FileExistsError as error:
                raise ExistsError(self.base + target, "already exists") from error
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise self._not_moved(source, error) from error
                self._move_across(source, origin, target)

    def keeps_versions(self) -> bool:
        return False

    def undelete(self, key: str, expected: Expected | None = None) -> None:  # noqa: ARG002
        raise UnsupportedError(self.base + key, "a file system does not keep versions")

    def _folders(self, *, follow: bool = False) -> FolderDescriptors:
        return FolderDescriptors(self._root, self._known, follow=follow)

    def _check_movable(self, key: str, entry: _Entry, expected: Expected | None) -> None:
        """Check that it is a file: the system would rename a folder with everything in it."""
        with self._translating(key):
            found = _file_state(entry)
        if stat.S_ISDIR(found.mode):
            raise MissingError(self.base + key, "is not a file")
        if expected is not None and found.differs(expected):
            raise ChangedError(self.base + key, CHANGED)

    def _rename(self, origin: _Entry, goals: FolderDescriptors, target: str) -> None:
        try:
            goal = goals.of(target)
        except (FileNotFoundError, NotADirectoryError):
            # The folder usually exists, so it is created only when missing.
            goal = self._created(goals, target)
        rename_new(*origin, *goal)

    def _not_moved(self, source: str, error: OSError) -> LakesweepError:
        if error.errno == errno.EOPNOTSUPP:
            reason = "the file system cannot rename without risking to replace a file"
            return UnsupportedError(self.base + source, reason)
        return translated(self.base + source, error)

    def _move_across(self, source: str, origin: _Entry, target: str) -> None:
        opener = partial(self._open_file, source, dir_fd=origin.folder)
        with self._translating(source), open(origin.name, "rb", opener=opener) as file:
            pieces = iter(partial(file.read, _PIECE_BYTES), b"")
            # Copy, sync and link the target before the source is unlinked: a crash leaves one or
            # both.
            with self._writing(target, pieces, like=file.fileno()) as written:
                self._link(target, written)
        with self._translating(source):
            os.unlink(origin.name, dir_fd=origin.folder)

    def _write(self, key: str, pieces: Iterable[bytes]) -> None:
        with self._writing(key, pieces) as file:
            file.take_name()
            os.replace(file.temporary, file.name, src_dir_fd=file.folder, dst_dir_fd=file.folder)

    @contextmanager
    def _writing(
        self, key: str, pieces: Iterable[bytes], like: int | None = None
    ) -> Iterator[_NewFile]:
        """A file with this content, still without its name; removed if it does not get it."""
        self._checked(key)
        mode = 0o600 if self._known.is_private(key) else 0o666
        with self._translating(key), self._folders(follow=True) as folders:
            file = _NewFile(*self._created(folders, key), mode)
            with file.filled(pieces, like):
                yield file

    def _created(self, folders: FolderDescriptors, key: str) -> _Entry:
        """Where to write; creates the folder if necessary."""
        try:
            return _Entry(*folders.of(key, create=True))
        except (FileExistsError, NotADirectoryError) as error:
            raise StorageError(self.base + key, "a file exists where a folder is needed") from error

    def _delete_one(
        self, folders: FolderDescriptors, key: str, expected: Expected | None = None
    ) -> Deletion:
        if (inexact := _inexactness(key)) is not None:
            return Deletion(key, Outcome.FAILED, inexact)
        try:
            folder, name = folders.of(key)
            if expected is not None and _file_state(_Entry(folder, name)).differs(expected):
                return Deletion(key, Outcome.CHANGED, CHANGED)
            os.unlink(name, dir_fd=folder)
        except OSError as error:
            return _failed_deletion(key, error)
        return Deletion(key, Outcome.DELETED)

    def _link(self, key: str, file: _NewFile) -> None:
        try:
            # A link fails if the name exists, unlike a rename, which would replace it.
            file.link(file.name)
        except FileExistsError as error:
            raise ExistsError(self.base + key, "already exists") from error
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            raise UnsupportedError(
                self.base + key, "write-if-absent needs hard links, which the file system lacks"
            ) from error

    @contextmanager
    def _open(self, key: str) -> Iterator[BinaryIO]:
        opener = partial(self._open_file, key)
        with self._translating(key), open(self._path(key), "rb", opener=opener) as file:
            yield file

    def _open_file(self, key: str, path: str, flags: int, dir_fd: int | None = None) -> int:
        # Without O_NONBLOCK, opening a pipe would wait for its other end.
        descriptor = os.open(path, flags | os.O_NONBLOCK, dir_fd=dir_fd)
        try:
            self._check_file(key, os.fstat(descriptor))
        except MissingError:
            os.close(descriptor)
            raise
        return descriptor

    def _path(self, key: str) -> str:
        return self._root + self._checked(key)

    def _checked(self, key: str) -> str:
        """The key, if it stands for exactly one file."""
        if (inexact := _inexactness(key)) is not None:
            raise InexactKeyError(self.base + escaped(key), inexact)
        return key

    def _check_prefix(self, prefix: str) -> None:
        if prefix:
            self._path(prefix.removesuffix("/"))

    def _check_file(self, key: str, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise MissingError(self.base + key, "is not a file")

    @contextmanager
    def _translating(self, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise translated(self.base + key, error) from error


def _inexactness(key: str) -> str | None:
    """Why no path of the file system stands for exactly this key, or None."""
    if "\0" in key:
        return "a file name cannot contain NUL"
    if not is_utf8(key):
        return "the file name is not valid UTF-8"
    if _ODD_SEGMENT.search(key):
        return "an empty, `.` or `..` segment would name a different file"
    return None


def _failed_deletion(key: str, error: OSError) -> Deletion:
    if is_absent(error):
        return Deletion(key, Outcome.ABSENT)
    if is_denied(error):
        return Deletion(key, Outcome.DENIED, reason_of(error))
    return Deletion(key, Outcome.FAILED, reason_of(error))


class _FileState(NamedTuple):
    """A file as a listing describes it: a link by its target's size and the newer time."""

    mode: int
    size_bytes: int
    modified_micros: int

    def differs(self, expected: Expected) -> bool:
        """Whether it changed since it was listed."""
        return expected.size_bytes not in (
            None,
            self.size_bytes,
        ) or expected.modified_micros not in (None, self.modified_micros)


class _Entry(NamedTuple):
    """A name in an open folder."""

    folder: int
    name: str


def _file_state(entry: _Entry) -> _FileState:
    # Both the link and its target count: replacing either is a change.
    folder, name = entry
    status = link = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(link.st_mode):
        status = os.stat(name, dir_fd=folder)
    newest = max(status.st_mtime_ns, link.st_mtime_ns)
    return _FileState(status.st_mode, status.st_size, newest // 1000)


class _NewFile:
    """A file that is written without a name, or under a temporary one in its folder."""

    def __init__(self, folder: int, name: str, mode: int) -> None:
        self.folder = folder
        self.name = name
        self.temporary = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        self._mode = mode
        self._unnamed: int | None = None

    def link(self, name: str) -> None:
        """Give the file a name that no other one has in the folder."""
        source = self.temporary if self._unnamed is None else f"/proc/self/fd/{self._unnamed}"
        # An absolute source is not looked up in the folder, and the link there is followed.
        os.link(source, name, src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def take_name(self) -> None:
        """Give the file its temporary name, if it has none."""
        if self._unnamed is None:
            return
        try:
            self.link(self.temporary)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self._copy(self._unnamed)

    def _copy(self, source: int) -> None:
        """Write the file once more, with a name: this system gives it none later."""
        with os.fdopen(self._open_named(), "wb") as target, os.fdopen(os.dup(source), "rb") as file:
            file.seek(0)
            shutil.copyfileobj(file, target, _PIECE_BYTES)
            shutil.copystat(f"/proc/self/fd/{source}", f"/proc/self/fd/{target.fileno()}")
            target.flush()
            os.fsync(target.fileno())

    def _open_named(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return os.open(self.temporary, flags, self._mode, dir_fd=self.folder)

    def _open(self) -> int:
        try:
            flags = os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC
            self._unnamed = os.open(".", flags, self._mode, dir_fd=self.folder)
        except OSError as error:
            if error.errno not in _NO_UNNAMED:
                raise
            return self._open_named()
        return self._unnamed

    @contextmanager
    def filled(self, pieces: Iterable[bytes], like: int | None) -> Iterator[None]:
        """Write and sync the content; with `like`, copy the times and rights of that file."""
        try:
            with os.fdopen(self._open(), "wb") as file:
                file.writelines(pieces)
                file.flush()
                if like is not None:
                    shutil.copystat(f"/proc/self/fd/{like}", f"/proc/self/fd/{file.fileno()}")
                # Sync the content before the file gets its name, and the folder after: a crash of
                # the machine must never leave the name of an incomplete file.
                os.fsync(file.fileno())
                yield
            self._sync_folder()
        finally:
            with suppress(FileNotFoundError):
                os.unlink(self.temporary, dir_fd=self.folder)

    def _sync_folder(self) -> None:
        """Make a new name survive a crash of the machine."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = os.open(".", flags, dir_fd=self.folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
