"""Everything that Lakesweep raises on purpose, in one tree.

Each class carries the exit code of the command that it ends, and each error a hint: the next
command or change to try, its own or else that of its class.

    LakesweepError            1  unexpected
    ├── UsageError            2  the words of the call are wrong
    │   └── ConfigError       2  the configuration is wrong, or a secret is missing
    │       └── SparkSetupError    2  Spark cannot be started as it is configured
    ├── RefusedError          3  a guard said no; nothing was deleted
    ├── IncompleteError       4  something could not be read, or some deletes failed
    │   ├── StorageError      4  a store answered with an error
    │   │   ├── DeniedError        4  no right to do it
    │   │   ├── LockedError        4  held by a retention rule, a legal hold or a lease
    │   │   ├── ThrottledError     4  the store asks for fewer requests (may be retried)
    │   │   ├── UnavailableError   4  no usable answer: broken connection, 5xx (may be retried)
    │   │   ├── InexactKeyError    4  a key that the store's client cannot name exactly
    │   │   ├── ExistsError        4  a write-if-absent found the object there
    │   │   ├── ChangedError       4  an object is no longer what was listed
    │   │   └── UnsupportedError   2  the store cannot do this at all
    │   ├── StoreError        4  the store's database, or what it holds, is not as it should be
    │   │   ├── UnreachableError     4  no answer, and nothing was changed (may be retried)
    │   │   ├── UnknownOutcomeError  4  no answer to a write: it may have taken effect
    │   │   ├── SchemaError          4  the tables are missing, or newer than this program
    │   │   │   └── NewerSchemaError 4  they are newer
    │   │   ├── DamagedRowError      4  a row, or the rows of one object, do not fit together
    │   │   │   └── NewerRowError    4  a row was written by a newer program
    │   │   ├── WrongTypeError       4  an object has another type than was asked for
    │   │   ├── RowLimitError        4  what must lie in one row is too large for it
    │   │   ├── ReferenceExistsError 4  a reference of that name is there already
    │   │   ├── RealmExistsError     4  a realm of that name is there already
    │   │   ├── HeadMissingError     4  a reference points to a commit that is not there
    │   │   ├── LogCutError          4  the log no longer reaches back to where it was asked for
    │   │   ├── EntityExistsError    4  something in the catalog has that name already
    │   │   ├── SnapshotExpiredError 4  the state that a page token is of is no longer kept
    │   │   └── ContendedError       4  others kept the reference busy for too long
    │   │       └── EntityChangedError 4  somebody else changed it in the meantime
    │   ├── SparkLostError    4  Spark, or a part of it, did not answer (may be retried)
    │   ├── StoppedError      4  somebody told the run to stop; what it did is in its outcomes
    │   │   └── PausedError   4  roots moved: what is left to delete has to be settled again
    │   ├── UnreadableError   4  a file that names other files could not be read
    │   └── FormatError       4  a file that was read does not hold what it should
    │       ├── TruncatedError     4  it ends too early
    │       ├── DamagedError       4  its bytes contradict the format
    │       └── EncryptedError     4  it is encrypted, and no key is at hand
    ├── SparkJobError         1  a job failed inside Spark, for a reason of no other class
    ├── LeaseHeldError        5  another run is under way
    └── NotFoundError         6  what the call names is not there
        ├── MissingError      6  an object is not in its store
        ├── RealmMissingError      6  a realm is not in the store
        ├── EntityMissingError     6  nothing in the realm or catalog has that name
        └── ReferenceMissingError  6  a reference is not in its realm
"""

from __future__ import annotations

from typing import ClassVar


class LakesweepError(Exception):
    """The root of all errors that are meant for the user."""

    exit_code: ClassVar[int] = 1
    usual_hint: ClassVar[str] = "the same command with -v shows more"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.usual_hint


class UsageError(LakesweepError):
    """The words of the call are wrong."""

    exit_code = 2
    usual_hint = "lakesweep --help"


class ConfigError(UsageError):
    """The configuration is wrong, or a secret is missing."""

    usual_hint = "lakesweep init --output example.toml shows every key"


class SparkSetupError(ConfigError):
    """Spark cannot be started as it is configured."""

    usual_hint = "lakesweep doctor checks Java and Spark"


class RefusedError(LakesweepError):
    """A guard said no. Nothing was deleted."""

    exit_code = 3
    usual_hint = "the same command with --dry-run only shows what would go"

    def __init__(self, guard: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.guard = guard


class IncompleteError(LakesweepError):
    """Something could not be read, or some deletes failed."""

    exit_code = 4
    usual_hint = "mend what is named, then run the same command again"


class SparkLostError(IncompleteError):
    """Spark, or a part of it, went away or did not answer. The work may be done again."""

    usual_hint = "check that the cluster runs and has memory, then run the same command again"


class StoppedError(IncompleteError):
    """Somebody told the run to stop. What it did until then is in its outcomes."""

    usual_hint = "apply the same plan again to go on with it"


class PausedError(StoppedError):
    """Roots moved while files were deleted. What is left has to be settled again."""


class UnreadableError(IncompleteError):
    """A file that names other files could not be read, so what they are is not known.

    `state` tells missing, truncated, damaged, encrypted, denied and unavailable apart.
    """

    def __init__(self, path: str, state: str, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"{path} is {state}: {reason}", hint=hint)
        self.path = path
        self.state = state
        self.reason = reason


class StorageError(IncompleteError):
    """A store answered with an error. `path` is the full address that was asked for."""

    def __init__(self, path: str, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"{path}: {reason}", hint=hint)
        self.path = path
        self.reason = reason


class DeniedError(StorageError):
    """There is no right to do this."""

    usual_hint = "grant the right, or use other credentials; lakesweep doctor checks them"


class LockedError(StorageError):
    """The object is held by a retention rule, a legal hold or a lease."""

    usual_hint = "wait until the lock ends, or ask whoever set it"


class ThrottledError(StorageError):
    """The store asks for fewer requests. May be retried after a pause.

    `retry_after` is the pause in seconds that the store asked for, where it said one.
    """

    def __init__(self, path: str, reason: str, *, retry_after: float | None = None) -> None:
        super().__init__(path, reason, hint="lower files_per_second or batches_per_second")
        self.retry_after = retry_after


class UnavailableError(StorageError):
    """No usable answer came: a broken connection, a 5xx, an answer cut short.

    May be retried. Whether a write or a delete took effect is unknown.
    """

    usual_hint = "run the same command again; lakesweep doctor checks the connection"


class InexactKeyError(StorageError):
    """The store's client cannot name this key exactly, so nothing may rest on what it lists."""


class ExistsError(StorageError):
    """A write-if-absent found the object already there."""


class ChangedError(StorageError):
    """An object is no longer what was listed, so nothing was done to it."""


class UnsupportedError(StorageError):
    """The store cannot do this at all."""

    exit_code = 2


class StoreError(IncompleteError):
    """The store's database, or what it holds, is not as it should be.

    Unless it is an UnknownOutcomeError, the call that raised it changed nothing.
    """


class UnreachableError(StoreError):
    """No answer, or busy for too long. Nothing was changed, and the call may be repeated."""

    usual_hint = "check that the database runs and can be reached, then repeat the command"


class UnknownOutcomeError(StoreError):
    """A write got no answer: it may have taken effect, may still take effect, or never."""

    usual_hint = "look at what is stored before repeating the command"


class SchemaError(StoreError):
    """The tables are missing, or newer than this program understands."""

    usual_hint = "lakesweep store init creates the tables"


class NewerSchemaError(SchemaError):
    """The tables were made by a newer program."""

    usual_hint = "use a newer lakesweep"


class DamagedRowError(StoreError):
    """A row, or the rows of one object, do not hold what was written."""

    usual_hint = "restore the database from a backup, or recover the reference"


class NewerRowError(DamagedRowError):
    """A row has a format from the future. To a newer program it is as good as any other."""

    usual_hint = "use a newer lakesweep"


class WrongTypeError(StoreError):
    """An object has another type than was asked for."""

    usual_hint = "check where the id comes from"


class RowLimitError(StoreError):
    """What must lie in one row is too large for it."""

    usual_hint = "store the large part as an object of its own"


class ReferenceExistsError(StoreError):
    """A reference of that name is there already."""

    usual_hint = "use the reference that is there, or another name"


class RealmExistsError(StoreError):
    """A realm of that name is there already."""

    usual_hint = "use the realm that is there, or another name"


class HeadMissingError(StoreError):
    """A reference points to a commit that is not there. This is never an empty state."""

    usual_hint = "lakesweep store recover goes back to a recent commit that is still there"


class LogCutError(StoreError):
    """The log no longer reaches back to where it was asked for."""

    usual_hint = "read the whole state once, then follow the log from its newest commit"


class ContendedError(StoreError):
    """Others kept the reference busy for too long. Nothing was committed."""

    usual_hint = "run the same command again, or let fewer writers commit to one reference"


class EntityExistsError(StoreError):
    """Something in the realm or the catalog has that name already."""

    usual_hint = "choose another name, or drop what has it"


class EntityChangedError(ContendedError):
    """Somebody else changed the entity since it was looked at. Nothing was committed."""

    usual_hint = "look at it again, then repeat the change"


class SnapshotExpiredError(StoreError):
    """The state that a page token is of is no longer kept, so there are no further pages of it."""

    usual_hint = "list again from the first page"


class FormatError(IncompleteError):
    """A file that was read does not hold what it should. `path` names it."""

    def __init__(self, path: str, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"{path}: {reason}", hint=hint)
        self.path = path
        self.reason = reason


class TruncatedError(FormatError):
    """The file ends too early."""


class DamagedError(FormatError):
    """The bytes of the file contradict its format."""


class EncryptedError(FormatError):
    """The file is encrypted, and no key is at hand."""


class SparkJobError(LakesweepError):
    """A job failed inside Spark, for a reason that is none of the others here."""


class LeaseHeldError(LakesweepError):
    """Another run holds the lease."""

    exit_code = 5
    usual_hint = "wait until the other run has ended"


class NotFoundError(LakesweepError):
    """What the call names is not there."""

    exit_code = 6
    usual_hint = "check the spelling: names and keys are exact"


class MissingError(NotFoundError):
    """An object is not in its store."""

    def __init__(self, path: str, reason: str = "is not there", *, hint: str | None = None) -> None:
        super().__init__(f"{path}: {reason}", hint=hint)
        self.path = path
        self.reason = reason


class RealmMissingError(NotFoundError):
    """A realm is not in the store."""

    usual_hint = "lakesweep realm list shows all realms"


class EntityMissingError(NotFoundError):
    """Nothing in the realm or the catalog has that name."""


class ReferenceMissingError(NotFoundError):
    """A reference is not in its realm."""
