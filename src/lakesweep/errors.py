"""All errors that Lakesweep raises on purpose, in one tree.

Each class has the exit code of the command that it ends, and each error a hint: the next command or
change to try, its own or else that of its class.

    LakesweepError            1  unexpected
        ├── UsageError            2  the arguments of the call are wrong
    │   ├── ConfigError       2  the configuration is wrong, or a secret is missing
        │   │   ├── SparkSetupError    2  Spark cannot be started as configured
    │   │   └── ServiceAccessError 2  a service does not know the token, or its role is too low
        │   ├── NameTooLongError       2  a name is longer than any that the store can hold
        │   └── InvalidUpdateError     2  an update does not fit the metadata of the table
        ├── RefusedError          3  a guard refused; nothing was deleted
        │   └── FilterTooSmallError 3  the references do not fit into the Bloom filter
    ├── IncompleteError       4  something could not be read, or some deletes failed
        │   ├── ServiceUnreachableError 4  a service does not answer
    │   ├── StorageError      4  a store returned an error
        │   │   ├── DeniedError        4  permission denied
    │   │   ├── LockedError        4  held by a retention rule, a legal hold or a lease
        │   │   ├── ThrottledError     4  the store throttles requests (retryable)
        │   │   ├── UnavailableError   4  no usable response: broken connection, 5xx (retryable)
        │   │   │   └── NoServerError  4  nothing accepts connections at the endpoint
        │   │   ├── InexactKeyError    4  a key that the store's client cannot represent exactly
        │   │   ├── ExistsError        4  a write-if-absent found an existing object
        │   │   ├── ChangedError       4  an object changed since it was listed
        │   │   └── UnsupportedError   2  the store does not support this
        │   ├── StoreError        4  a problem with the store's database or its content
        │   │   ├── UnreachableError     4  no response, and nothing changed (retryable)
        │   │   ├── UnknownOutcomeError  4  no response to a write: it may have taken effect
    │   │   ├── SchemaError          4  the tables are missing, or newer than this program
    │   │   │   └── NewerSchemaError 4  they are newer
        │   │   ├── DamagedRowError      4  a row, or the rows of one object, are damaged
    │   │   │   └── NewerRowError    4  a row was written by a newer program
        │   │   ├── WrongTypeError       4  an object does not have the requested type
        │   │   ├── RowLimitError        4  a value is too large for the one row it must fit in
        │   │   ├── ReferenceExistsError 4  a reference of that name already exists
        │   │   ├── RealmExistsError     4  a realm of that name already exists
        │   │   ├── HeadMissingError     4  a reference points to a missing commit
        │   │   ├── LogCutError          4  the log no longer reaches back to the requested start
        │   │   ├── EntityExistsError    4  the name is taken in the catalog
        │   │   ├── SnapshotExpiredError 4  the state that a page token refers to is no longer kept
        │   │   └── ContendedError       4  other writers kept the reference busy for too long
        │   │       └── EntityChangedError 4  another process changed it in the meantime
        │   ├── CommitConflictError 4  another writer changed the table; nothing was committed
        │   ├── SparkLostError    4  Spark, or a part of it, did not respond (retryable)
        │   ├── StoppedError      4  the run was told to stop; its outcomes say what it did
        │   │   └── PausedError   4  roots moved: the rest must be rechecked before deleting
    │   ├── UnreadableError   4  a file that names other files could not be read
        │   └── FormatError       4  a file does not have the expected content
    │       ├── TruncatedError     4  it ends too early
    │       ├── DamagedError       4  its bytes contradict the format
    │       ├── LimitError         4  reading it would take more than the limits allow
        │       └── EncryptedError     4  it is encrypted, and there is no key
        ├── SparkJobError         1  a job failed inside Spark for any other reason
        ├── LeaseHeldError        5  another run holds the lease
        ├── MissingFilesError     7  tables reference files that are not stored
        └── NotFoundError         6  what the call names does not exist
                ├── MissingError      6  an object does not exist
                ├── RealmMissingError      6  a realm does not exist
                ├── EntityMissingError     6  no entity in the realm or catalog has that name
                └── ReferenceMissingError  6  a reference does not exist
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lakesweep.redaction import masked


class LakesweepError(Exception):
    """The root of all errors that are meant for the user."""

    exit_code: ClassVar[int] = 1
    usual_hint: ClassVar[str] = "run the command again with -v for details"

    def __init__(self, message: str | Sequence[str], *, hint: str | None = None) -> None:
        lines = (message,) if isinstance(message, str) else message
        # Here, once: messages of libraries quote URLs and settings, and errors end up on screens,
        # in reports and in the records of runs.
        #: Each is printed as one line, whatever line breaks a name in it has.
        self.lines = tuple(map(masked, lines))
        self.message = "\n".join(self.lines)
        self.hint = masked(hint or self.usual_hint)
        super().__init__(self.message)


class UsageError(LakesweepError):
    """The arguments of the call are wrong."""

    exit_code = 2
    usual_hint = "lakesweep --help"


class NameTooLongError(UsageError, ValueError):
    """A name is longer than any that the store can hold."""

    usual_hint = "use a shorter name"


class ConfigError(UsageError):
    """The configuration is wrong, or a secret is missing."""

    usual_hint = "lakesweep init --output example.toml shows every key"


class SparkSetupError(ConfigError):
    """Spark cannot be started as configured."""

    usual_hint = "lakesweep doctor checks Java and Spark"


class ServiceAccessError(ConfigError):
    """A service does not know the token, or its role does not allow the call."""

    usual_hint = "put a token into LAKESWEEP_TOKEN"


class InvalidUpdateError(UsageError):
    """An update or a requirement is malformed, or does not fit the metadata of the table."""

    usual_hint = "load the table again, and check what is to be changed"


def override_options(guards: Sequence[str]) -> str:
    """The options that override some guards."""
    return " ".join(f"--override {name}" for name in guards)


class RefusedError(LakesweepError):
    """A guard refused. Nothing was deleted."""

    exit_code = 3
    usual_hint = "run the command with --dry-run to see what would be deleted"

    def __init__(
        self,
        guard: str,
        message: str | Sequence[str],
        *,
        hint: str | None = None,
        overrides: Sequence[str] = (),
    ) -> None:
        super().__init__(message, hint=hint)
        self.guard = guard
        #: Guards that may be overridden after a look, by adding them to the same command.
        self.overrides = tuple(overrides)

    def hint_for(self, command: str) -> str:
        """The hint, with the command that was refused as it was given."""
        if not self.overrides:
            return self.hint
        look = self.hint.partition(", then: ")[0]
        return f"{look}, then: {command} {override_options(self.overrides)}"


class FilterTooSmallError(RefusedError):
    """What is referenced does not fit into the largest Bloom filter that is allowed."""

    def __init__(self, message: str, needed_bytes: int, *, hint: str) -> None:
        super().__init__("filter", message, hint=hint)
        self.needed_bytes = needed_bytes


class IncompleteError(LakesweepError):
    """Something could not be read, or some deletes failed."""

    exit_code = 4
    usual_hint = "fix the problem above, then run the command again"


class ServiceUnreachableError(IncompleteError):
    """A service does not answer, so what became of the call is unknown."""

    usual_hint = "check the address, and that lakesweep serve is running; then try again"


class CommitConflictError(IncompleteError):
    """Another writer changed the table in the meantime. Nothing was committed."""

    usual_hint = "run the command again"


class SparkLostError(IncompleteError):
    """Spark, or a part of it, was lost or did not respond. The work may be repeated."""

    usual_hint = "check that the cluster is running and has memory, then run the command again"


class StoppedError(IncompleteError):
    """The run was told to stop. Its outcomes say what it did until then."""

    usual_hint = "apply the same plan again to resume it"


class PausedError(StoppedError):
    """Roots moved while files were deleted. The rest must be rechecked before deleting."""


class UnreadableError(IncompleteError):
    """A file that names other files could not be read, so these are unknown.

    `state` is missing, truncated, damaged, too large, encrypted, denied or unavailable.
    """

    def __init__(self, path: str, state: str, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"{path} is {state}: {reason}", hint=hint)
        self.path = path
        self.state = state
        self.reason = masked(reason)


class StorageError(IncompleteError):
    """A store returned an error. `path` is the full address of the request."""

    def __init__(self, path: str, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"{path}: {reason}", hint=hint)
        self.path = path
        self.reason = masked(reason)


class DeniedError(StorageError):
    """Permission denied."""

    usual_hint = "grant the permission, or use other credentials; lakesweep doctor checks them"


class LockedError(StorageError):
    """The object is held by a retention rule, a legal hold or a lease."""

    usual_hint = "wait until the lock expires, or have it removed"


class ThrottledError(StorageError):
    """The store throttles requests. Retry after a pause.

    `retry_after` is the pause in seconds that the store asked for, if it did.
    """

    def __init__(self, path: str, reason: str, *, retry_after: float | None = None) -> None:
        super().__init__(path, reason, hint="lower files_per_second or batches_per_second")
        self.retry_after = retry_after


class UnavailableError(StorageError):
    """There was no usable response: a broken connection, a 5xx, a truncated response.

    Retryable. Whether a write or a delete took effect is unknown.
    """

    usual_hint = "run the command again; lakesweep doctor checks the connection"


class NoServerError(UnavailableError):
    """Nothing accepts connections at the endpoint, so the request was certainly not received.

    A store that never answered is given up after seconds; one that did may be restarting.
    """


class InexactKeyError(StorageError):
    """The store's client cannot represent this key exactly, so its listings cannot be trusted."""


class ExistsError(StorageError):
    """A write-if-absent found an existing object."""


class ChangedError(StorageError):
    """An object changed since it was listed, so nothing was done to it."""


class UnsupportedError(StorageError):
    """The store does not support this."""

    exit_code = 2


class StoreError(IncompleteError):
    """A problem with the store's database or its content.

    Unless it is an UnknownOutcomeError, the call that raised it changed nothing.
    """


class UnreachableError(StoreError):
    """No response, or busy for too long. Nothing changed, and the call may be repeated."""

    usual_hint = "check that the database is running and reachable, then run the command again"


class UnknownOutcomeError(StoreError):
    """A write got no response: it may have taken effect, may still do so, or never."""

    usual_hint = "check what is stored before running the command again"


class SchemaError(StoreError):
    """The tables are missing, or newer than this program understands."""

    usual_hint = "lakesweep store init creates the tables"


class NewerSchemaError(SchemaError):
    """The tables were created by a newer program."""

    usual_hint = "upgrade Lakesweep"


class DamagedRowError(StoreError):
    """A row, or the rows of one object, are not as they were written."""

    usual_hint = "restore the database from a backup, or recover the reference"


class NewerRowError(DamagedRowError):
    """A row has a newer format. To a newer program it is not damaged."""

    usual_hint = "upgrade Lakesweep"


class WrongTypeError(StoreError):
    """An object does not have the requested type."""

    usual_hint = "check where the id comes from"


class RowLimitError(StoreError):
    """A value is too large for the one row it must fit in."""

    usual_hint = "store the large part as an object of its own"


class ReferenceExistsError(StoreError):
    """A reference of that name already exists."""

    usual_hint = "use the existing reference, or another name"


class RealmExistsError(StoreError):
    """A realm of that name already exists."""

    usual_hint = "use the existing realm, or another name"


class HeadMissingError(StoreError):
    """A reference points to a missing commit. This never counts as an empty state."""

    usual_hint = "lakesweep store recover resets it to a recent commit that still exists"


class LogCutError(StoreError):
    """The log no longer reaches back to the requested start."""

    usual_hint = "read the whole state once, then follow the log from its newest commit"


class ContendedError(StoreError):
    """Other writers kept the reference busy for too long. Nothing was committed."""

    usual_hint = "run the command again, or use fewer writers per reference"


class EntityExistsError(StoreError):
    """The name is taken in the realm or the catalog."""

    usual_hint = "choose another name, or drop the existing entity"


class EntityChangedError(ContendedError):
    """Another process changed the entity in the meantime. Nothing was committed."""

    usual_hint = "read it again, then repeat the change"


class SnapshotExpiredError(StoreError):
    """The state that a page token refers to is no longer kept, so it has no more pages."""

    usual_hint = "list again from the first page"


class FormatError(IncompleteError):
    """A file does not have the expected content. `path` names it."""

    def __init__(self, path: str, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"{path}: {reason}", hint=hint)
        self.path = path
        self.reason = masked(reason)


class TruncatedError(FormatError):
    """The file ends too early."""


class DamagedError(FormatError):
    """The bytes of the file contradict its format."""


class LimitError(FormatError):
    """Reading the file would take more than the limits allow."""

    usual_hint = "check who wrote this file; the section limits of lakesweep.toml has the limits"

    @classmethod
    def of(cls, path: str, what: str, most: int, setting: str) -> LimitError:
        """A file that is larger than a setting allows."""
        hint = f"if the file is genuine, raise {setting} in lakesweep.toml"
        return cls(path, f"{what} more than {most:,} bytes", hint=hint)


class EncryptedError(FormatError):
    """The file is encrypted, and there is no key."""


class SparkJobError(LakesweepError):
    """A job failed inside Spark for a reason not covered by the other classes."""


class LeaseHeldError(LakesweepError):
    """Another run holds the lease."""

    exit_code = 5
    usual_hint = "wait until the other run has ended"


class MissingFilesError(LakesweepError):
    """Tables reference files that are not stored."""

    exit_code = 7
    usual_hint = "lakesweep check LAKE --files lists them"


class NotFoundError(LakesweepError):
    """What the call names does not exist."""

    exit_code = 6
    usual_hint = "check the spelling: names and keys are exact"


class MissingError(NotFoundError):
    """An object does not exist."""

    def __init__(self, path: str, reason: str = "is not there", *, hint: str | None = None) -> None:
        super().__init__(f"{path}: {reason}", hint=hint)
        self.path = path
        self.reason = masked(reason)


class RealmMissingError(NotFoundError):
    """A realm does not exist."""

    usual_hint = "lakesweep realm list shows all realms"


class EntityMissingError(NotFoundError):
    """No entity in the realm or the catalog has that name."""


class ReferenceMissingError(NotFoundError):
    """A reference does not exist."""
