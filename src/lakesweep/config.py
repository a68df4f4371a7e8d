"""The configuration: `lakesweep.toml` as typed values.

Mistakes are told with the file, the line, the key and the nearest valid name, and never with the
value, which may be a secret.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from lakesweep.errors import ConfigError, UsageError
from lakesweep.toml_lines import find_line, spell
from lakesweep.units import parse_duration

FILE_NAME = "lakesweep.toml"
ENVIRONMENT_VARIABLE = "LAKESWEEP_CONFIG"

_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_ADDRESS = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


_TAGS = (
    "iceberg-catalog",
    "iceberg-metadata",
    "iceberg-scan",
    "lakesweep",
    "paimon-warehouse",
    "lakefs",
    "pinned",
)
_TYPE_WORDS = {
    "string_type": "must be text in quotes",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "tuple_type": "must be a list in [ ]",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "too_short": "must not be empty",
}


class Section(BaseModel):
    """One table of the file: immutable, exactly typed, without keys of other names."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, values: object) -> object:
        if isinstance(values, Mapping):
            for key in values:
                if key not in cls.model_fields:
                    raise _unknown_key(str(key), list(cls.model_fields))
        return values


def _unknown_key(key: str, valid: Sequence[str]) -> PydanticCustomError:
    context = {"key": key, "valid": ", ".join(valid)}
    return PydanticCustomError("unknown_key", "unknown key", context)


def _duration(value: object) -> object:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("duration", "must be a duration such as 7d")
    try:
        return parse_duration(value)
    except UsageError:
        raise PydanticCustomError("duration", "must be a duration such as 90s, 6h, 7d") from None


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _as_texts(value: object) -> object:
    """Numbers and truth values in a table of properties become the texts that they stand for."""
    if not isinstance(value, dict):
        return value
    return {key: _as_text(item) for key, item in value.items()}


def _as_text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _address(value: str) -> str:
    """What is relative would mean another place for each folder that somebody stands in."""
    if not _ADDRESS.match(value):
        raise PydanticCustomError("address", "must be an address such as s3://lake/a or /srv/a")
    return value


Address = Annotated[str, AfterValidator(_address)]
Duration = Annotated[timedelta, BeforeValidator(_duration)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]
Properties = Annotated[dict[str, str], BeforeValidator(_as_texts)]
Positive = Annotated[float, Field(gt=0)]
Rate = Annotated[float, Field(ge=1e-9, le=1)]


class StoreSection(Section):
    """Where Lakesweep keeps its own records."""

    url: str = Field("sqlite:///.lakesweep/store.db", repr=False)
    realm: str = "default"


class SparkSection(Section):
    """How Spark is reached: a master to start a session on, or a Spark Connect server."""

    master: str = "local[*]"
    remote: str | None = None
    conf: Properties = Field(default_factory=dict, repr=False)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.remote is not None and "master" in self.model_fields_set:
            raise PydanticCustomError("contradiction", "has both master and remote; keep one")
        return self


class StorageSection(Section):
    """How one bucket is reached, and how hard it may be pressed."""

    endpoint: str | None = None
    region: str | None = None
    profile: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = Field(None, repr=False)
    session_token: str | None = Field(None, repr=False)
    anonymous: bool = False
    addressing: Literal["path", "virtual"] | None = None
    service_account: str | None = None
    account_key: str | None = Field(None, repr=False)
    sas_token: str | None = Field(None, repr=False)
    files_per_second: Positive | None = None
    batches_per_second: Positive | None = None
    delete_batch: Annotated[int, Field(gt=0)] | None = None
    max_connections: Annotated[int, Field(gt=0)] = 32
    timeout_seconds: Positive = 60.0
    retries: Annotated[int, Field(ge=0)] = 8


class IcebergCatalogRoot(Section):
    """All tables and views of a catalog that PyIceberg can load."""

    type: Literal["iceberg-catalog"]
    name: str
    properties: Properties = Field(default_factory=dict, repr=False)


class IcebergMetadataRoot(Section):
    """Tables and views that no catalog lists, by their metadata files."""

    type: Literal["iceberg-metadata"]
    files: Texts


class IcebergScanRoot(Section):
    """Tables and views that nobody lists any more, by the metadata files below a path.

    They are reported and kept; with `keep = false` they are only reported.
    """

    type: Literal["iceberg-scan"]
    path: str
    keep: bool = True


class LakesweepRoot(Section):
    """All tables and views of the catalogs in a realm of Lakesweep's own store, or of some.

    Without a `realm` it is that of the section store, and without a `url` its database.
    """

    type: Literal["lakesweep"]
    realm: str | None = None
    url: str | None = Field(None, repr=False)
    catalogs: Texts = ()


class PaimonWarehouseRoot(Section):
    """All tables of a Paimon warehouse."""

    type: Literal["paimon-warehouse"]
    path: str


class LakefsRoot(Section):
    """Repositories of a lakeFS server, by name, and others by the addresses of their namespaces.

    `local_root` is where the server keeps `local://` namespaces. A namespace does not tell what is
    staged, so it keeps everything, unless `without_staging` says that nothing is.
    """

    type: Literal["lakefs"]
    endpoint: str | None = None
    repositories: Texts = ()
    namespaces: Texts = ()
    local_root: str | None = None
    without_staging: bool = False

    @model_validator(mode="after")
    def _names_some(self) -> Self:
        if not self.repositories and not self.namespaces:
            raise PydanticCustomError("missing_key", "must name repositories or namespaces")
        if self.repositories and self.endpoint is None:
            raise PydanticCustomError("missing_key", "names repositories and no endpoint")
        return self

    @property
    def called(self) -> str:
        """What it is called in reports."""
        return self.endpoint or ", ".join(self.namespaces)


class PinnedRoot(Section):
    """A file that lists addresses and prefixes to keep."""

    type: Literal["pinned"]
    file: str


Root = Annotated[
    IcebergCatalogRoot
    | IcebergMetadataRoot
    | IcebergScanRoot
    | LakesweepRoot
    | PaimonWarehouseRoot
    | LakefsRoot
    | PinnedRoot,
    Field(discriminator="type"),
]


def _calls(root: Root) -> str | None:
    """What tells a root from others of its type; None where several count as one."""
    match root:
        case IcebergCatalogRoot():
            return f"catalog {root.name}"
        case IcebergScanRoot():
            return f"scan of {root.path}"
        case LakesweepRoot():
            return f"realm {root.realm or 'of the store'}"
        case LakefsRoot():
            return f"lakeFS server {root.called}"
        case _:
            return None


def _contradiction(roots: Iterable[Root]) -> str | None:
    """The first root that is there twice, and not said the same of."""
    known: dict[str, Root] = {}
    named = ((_calls(root), root) for root in roots)
    return next(
        (name for name, root in named if name and known.setdefault(name, root) != root), None
    )


class LakeSection(Section):
    """The locations to keep clean, and the roots that keep files in them alive."""

    locations: Annotated[tuple[Address, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
    grace: Duration = timedelta(days=7)
    exclude: Texts = ()
    unknown: Literal["keep", "delete"] = "keep"
    plans: Address | None = None
    quarantine: Address | None = None
    keep_plans: Duration = timedelta(days=30)
    roots: Annotated[tuple[Root, ...], BeforeValidator(_as_tuple)] = ()

    @model_validator(mode="after")
    def _exclude_below(self) -> Self:
        """An address as a pattern would match nothing, and keep nothing."""
        folders = tuple(f"{location.rstrip('/')}/" for location in self.locations)
        for pattern in self.exclude:
            if ":/" in pattern or f"{pattern}/".startswith(folders):
                raise PydanticCustomError(
                    "address",
                    "exclude has the address {pattern}; it takes patterns for what lies below a"
                    " location, such as /folder/** or **/name/**",
                    {"pattern": pattern},
                )
        return self


class HistorySection(Section):
    """How far back the logs of some references are kept."""

    commits: Annotated[int, Field(ge=1)] | None = None
    age: Duration | None = None


class MaintenanceSection(Section):
    """What of the store's own database is kept, and how hard it may be pressed."""

    expected_reference_count: Annotated[int, Field(ge=100)] = 100
    expected_obj_count: Annotated[int, Field(ge=100_000)] = 100_000
    count_from_last_run_multiplier: Annotated[float, Field(gt=1)] = 1.1
    filter_initialized_fpp: Rate = 0.00001
    max_acceptable_filter_fpp: Rate = 0.00005
    filter_bytes: Annotated[int, Field(gt=0)] = 2**30
    retained_runs: Annotated[int, Field(ge=2)] = 50
    created_at_grace_time: Duration = timedelta(hours=3)
    object_scan_rate_limit_per_second: Annotated[float, Field(ge=0)] | None = None
    reference_scan_rate_limit_per_second: Annotated[float, Field(ge=0)] | None = None
    delete_batch_size: Annotated[int, Field(gt=0)] = 1_000
    scan_workers: Annotated[int, Field(gt=0)] = 2
    keep_commits: Annotated[int, Field(ge=1)] = 21
    keep_age: Duration = timedelta(days=7)
    history: dict[str, HistorySection] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _filters_can_serve(self) -> Self:
        if self.filter_initialized_fpp >= self.max_acceptable_filter_fpp:
            raise PydanticCustomError(
                "contradiction",
                "has a filter_initialized_fpp that is not less than max_acceptable_filter_fpp;"
                " nothing would ever be deleted",
            )
        return self


class Config(Section):
    """The whole file."""

    store: StoreSection = StoreSection()
    spark: SparkSection = SparkSection()
    storage: dict[str, StorageSection] = Field(default_factory=dict)
    lakes: dict[str, LakeSection] = Field(default_factory=dict)
    maintenance: MaintenanceSection = MaintenanceSection()

    @model_validator(mode="after")
    def _one_meaning(self) -> Self:
        """Roots are known by their names: of two with one name, one would be forgotten."""
        twice = _contradiction(root for lake in self.lakes.values() for root in lake.roots)
        if twice is not None:
            raise PydanticCustomError(
                "contradiction", "{name} is there twice, with different settings", {"name": twice}
            )
        return self


def find_config(explicit: Path | None, environment: Mapping[str, str], folder: Path) -> Path | None:
    """The file to read: as given, by the environment, or the nearest one upwards; else None."""
    named = explicit or _path(environment.get(ENVIRONMENT_VARIABLE))
    if named is not None:
        return named
    folder = folder.absolute()
    candidates = (parent / FILE_NAME for parent in (folder, *folder.parents))
    return next((path for path in candidates if path.is_file()), None)


def load_config(path: Path | None, environment: Mapping[str, str]) -> Config:
    """Read and check a file; the defaults where there is none."""
    return Config() if path is None else parse_config(_read(path), path, environment)


def parse_config(text: str, path: Path, environment: Mapping[str, str]) -> Config:
    """Check the text of a configuration; `path` is only named in errors."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: this is not TOML: {error}", hint="mend that line") from None
    substitute = _Substitution(text, path, environment)
    try:
        return Config.model_validate(substitute(values, ()))
    except ValidationError as error:
        raise _config_error(error, text, path) from None


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{path}: the configuration cannot be read: {error.strerror}",
            hint="lakesweep init writes one",
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: this is not UTF-8: {error.reason}") from None


class _Substitution:
    """Puts environment variables where values say `${NAME}`."""

    def __init__(self, text: str, path: Path, environment: Mapping[str, str]) -> None:
        self._text = text
        self._path = path
        self._environment = environment

    def __call__(self, value: object, key: tuple[str | int, ...]) -> object:
        match value:
            case str():
                return _REFERENCE.sub(lambda found: self._look_up(found[1], key), value)
            case dict():
                return {name: self(item, (*key, name)) for name, item in value.items()}
            case list():
                return [self(item, (*key, index)) for index, item in enumerate(value)]
            case _:
                return value

    def _look_up(self, variable: str, key: tuple[str | int, ...]) -> str:
        where = _where(self._path, self._text, key)
        if not _VARIABLE.fullmatch(variable):
            raise ConfigError(
                f"{where}: what stands in ${{…}} is no name of an environment variable",
                hint="use letters, digits and _ between the braces",
            )
        if variable not in self._environment:
            raise ConfigError(
                f"{where}: the environment variable {variable} is not set",
                hint=f"export {variable}=…",
            )
        return self._environment[variable]


def _config_error(error: ValidationError, text: str, path: Path) -> ConfigError:
    problems = [_problem(details, text, path) for details in error.errors(include_input=False)]
    hints = [hint for _, hint in problems if hint]
    return ConfigError("\n".join(line for line, _ in problems), hint=hints[0] if hints else None)


def _problem(details: ErrorDetails, text: str, path: Path) -> tuple[str, str | None]:
    """One mistake in words, and the hint that goes with it."""
    key = _without_tags(details["loc"])
    context = details.get("ctx", {})
    match details["type"]:
        case "unknown_key":
            line = f"{_where(path, text, (*key, context['key']))}: unknown key"
            return line, _advice(context["key"], context["valid"].split(", "), "keys")
        case "union_tag_invalid":
            line = f"{_where(path, text, (*key, 'type'))}: there is no such type of root"
            return line, _advice(context["tag"], _TAGS, "types")
        case _:
            return f"{_where(path, text, key)}: {_in_words(details)}", None


def _advice(wrong: str, valid: Sequence[str], noun: str) -> str:
    near = get_close_matches(wrong, valid, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"the {noun} here are {', '.join(valid)}"


def _without_tags(location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """A place as the file has it: pydantic adds the type of a root behind its position."""
    steps = zip((None, *location), location, strict=False)
    return tuple(step for before, step in steps if not (isinstance(before, int) and step in _TAGS))


def _in_words(details: ErrorDetails) -> str:
    context = details.get("ctx", {})
    match details["type"]:
        case "missing":
            return "is missing"
        case "literal_error":
            return f"must be {context['expected']}"
        case "union_tag_not_found":
            return f"has no type; the types are {', '.join(_TAGS)}"
        case "greater_than":
            return f"must be greater than {context['gt']:g}"
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}"
        case kind:
            return _TYPE_WORDS.get(kind) or str(details["msg"])


def _where(path: Path, text: str, key: Sequence[str | int]) -> str:
    if not key:
        return str(path)
    line = find_line(text, key)
    return f"{path}, {f'line {line}, ' if line else ''}{spell(key)}"
