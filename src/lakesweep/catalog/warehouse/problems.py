"""Refusals in the words of Iceberg's protocol, which clients turn into exceptions of their own."""

from __future__ import annotations

from enum import StrEnum

from lakesweep.catalog.entities import EntityType
from lakesweep.errors import LakesweepError

Path = tuple[str, ...]


class ProblemType(StrEnum):
    """What a refusal is called in the protocol."""

    BAD_REQUEST = "BadRequestException"
    ILLEGAL_ARGUMENT = "IllegalArgumentException"
    NOT_AUTHORIZED = "NotAuthorizedException"
    FORBIDDEN = "ForbiddenException"
    NO_SUCH_WAREHOUSE = "NoSuchWarehouseException"
    NO_SUCH_NAMESPACE = "NoSuchNamespaceException"
    NO_SUCH_TABLE = "NoSuchTableException"
    NO_SUCH_VIEW = "NoSuchViewException"
    NOT_FOUND = "NotFoundException"
    NO_SUCH_PLAN = "NoSuchPlanIdException"
    NO_SUCH_PLAN_TASK = "NoSuchPlanTaskException"
    NO_SUCH_POLICY = "NoSuchPolicyException"
    NO_SUCH_TARGET = "NoSuchTargetException"
    NO_SUCH_MAPPING = "NoSuchMappingException"
    POLICY_IN_USE = "PolicyInUseException"
    POLICY_CONFLICT = "ConflictPolicyAttachmentException"
    POLICY_VERSION = "PolicyVersionMismatchException"
    UNSUPPORTED = "UnsupportedOperationException"
    ALREADY_EXISTS = "AlreadyExistsException"
    NAMESPACE_NOT_EMPTY = "NamespaceNotEmptyException"
    COMMIT_FAILED = "CommitFailedException"
    COMMIT_UNKNOWN = "CommitStateUnknownException"
    UNPROCESSABLE = "UnprocessableEntityException"
    UNAVAILABLE = "ServiceUnavailableException"
    INTERNAL = "InternalServerError"


class WarehouseError(LakesweepError):
    """Something that a warehouse refuses, with the name that the protocol has for it."""

    exit_code = 2

    def __init__(self, type_: ProblemType, message: str) -> None:
        super().__init__(message)
        self.type = type_


def dotted(path: Path) -> str:
    """A name as Iceberg's messages have it."""
    return ".".join(path)


def no_namespace(path: Path) -> WarehouseError:
    """There is no such namespace."""
    return WarehouseError(
        ProblemType.NO_SUCH_NAMESPACE, f"Namespace does not exist: {dotted(path)}"
    )


def no_entity(kind: EntityType, path: Path) -> WarehouseError:
    """There is no such table or view."""
    if kind is EntityType.VIEW:
        return WarehouseError(ProblemType.NO_SUCH_VIEW, f"View does not exist: {dotted(path)}")
    return WarehouseError(ProblemType.NO_SUCH_TABLE, f"Table does not exist: {dotted(path)}")


def name_taken(wanted: EntityType, found: EntityType, path: Path) -> WarehouseError:
    """The name has something already, of the same kind or of another."""
    noun = _noun(found)
    middle = "" if wanted is found else " with same name"
    return WarehouseError(
        ProblemType.ALREADY_EXISTS, f"{noun}{middle} already exists: {dotted(path)}"
    )


def rename_taken(found: EntityType, source: Path, target: Path) -> WarehouseError:
    """The new name has something already."""
    return WarehouseError(
        ProblemType.ALREADY_EXISTS,
        f"Cannot rename {dotted(source)} to {dotted(target)}. {_noun(found)} already exists",
    )


def bad_request(message: str) -> WarehouseError:
    """The request cannot be meant."""
    return WarehouseError(ProblemType.BAD_REQUEST, message)


def _noun(kind: EntityType) -> str:
    return kind.words.capitalize()
