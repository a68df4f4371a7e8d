from __future__ import annotations

import dataclasses
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lakesweep.config import (
    Config,
    IcebergCatalogRoot,
    IcebergMetadataRoot,
    IcebergScanRoot,
    LakefsRoot,
    LakeSection,
    PaimonWarehouseRoot,
    PinnedRoot,
    StorageSection,
)
from lakesweep.config.file import config_from_values, load_config, parse_config
from lakesweep.errors import ConfigError
from lakesweep.maintenance.config import MaintenanceConfig
from lakesweep.storage.options import StorageOptions
from lakesweep.untrusted.limits import DEFAULT_LIMITS

_FILE = Path("lakesweep.toml")

_FULL = """\
[store]
url = "sqlite:///.lakesweep/store.db"
realm = "default"

[spark]
master = "local[*]"
conf = { "spark.driver.memory" = "2g" }

[storage."s3://lake"]
endpoint = "http://127.0.0.1:9000"
files_per_second = 2000

[lakes.prod]
locations = ["s3://lake/warehouse"]
grace = "7d"
exclude = ["**/_staging/**"]
unknown = "keep"
plans = "s3://lake/_lakesweep/plans"

[[lakes.prod.roots]]
type = "iceberg-catalog"
name = "prod"
properties = { type = "rest", uri = "http://127.0.0.1:8181" }

[[lakes.prod.roots]]
type = "iceberg-metadata"
files = ["s3://lake/legacy/t/metadata/00003.metadata.json"]

[[lakes.prod.roots]]
type = "paimon-warehouse"
path = "s3://lake/paimon"

[[lakes.prod.roots]]
type = "lakefs"
endpoint = "http://127.0.0.1:8000"
repositories = ["analytics"]

[[lakes.prod.roots]]
type = "pinned"
file = "s3://lake/_lakesweep/keep.txt"
"""


def _parse(text: str, **environment: str) -> Config:
    return parse_config(text, _FILE, environment)


def _refusal(text: str, **environment: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        _parse(text, **environment)
    return caught.value


def test_the_published_example_is_read_in_full() -> None:
    config = _parse(_FULL)
    lake = config.lakes["prod"]
    assert config.storage["s3://lake"].files_per_second == 2000
    assert config.spark.conf == {"spark.driver.memory": "2g"}
    assert lake.grace == timedelta(days=7)
    assert [type(root) for root in lake.roots] == [
        IcebergCatalogRoot,
        IcebergMetadataRoot,
        PaimonWarehouseRoot,
        LakefsRoot,
        PinnedRoot,
    ]


def test_a_scan_keeps_what_it_finds_unless_told() -> None:
    scan = '[[lakes.l.roots]]\ntype = "iceberg-scan"\npath = "s3://lake/wh"\n'
    other = scan.replace("/wh", "/x")
    text = f'[lakes.l]\nlocations = ["s3://lake/wh"]\n{scan}{other}keep = false\n'
    roots = _parse(text).lakes["l"].roots
    assert roots == (
        IcebergScanRoot(type="iceberg-scan", path="s3://lake/wh", keep=True),
        IcebergScanRoot(type="iceberg-scan", path="s3://lake/x", keep=False),
    )
    error = _refusal(text.replace("keep = false", 'keep = "no"'))
    assert "lakes.l.roots[1].keep: must be true or false" in error.message


def test_an_empty_file_gives_the_defaults() -> None:
    config = _parse("")
    assert config == Config()
    assert (config.store.realm, config.spark.master, config.lakes) == ("default", "local[*]", {})


def test_a_short_grace_is_the_guards_business() -> None:
    text = _FULL.replace('grace = "7d"', 'grace = "1h"')
    assert _parse(text).lakes["prod"].grace == timedelta(hours=1)


def test_properties_become_text() -> None:
    text = _FULL.replace('uri = "http://127.0.0.1:8181"', "echo = true, pool = 5")
    root = _parse(text).lakes["prod"].roots[0]
    assert isinstance(root, IcebergCatalogRoot)
    assert root.properties == {"type": "rest", "echo": "true", "pool": "5"}


def test_storage_takes_every_option_of_a_store() -> None:
    options = {field.name: field.default for field in dataclasses.fields(StorageOptions)}
    section = StorageSection().model_dump()
    assert section == options


@pytest.mark.parametrize(
    ("right", "wrong", "place", "advice"),
    [
        ("realm =", "relm =", "line 3, store.relm", "realm"),
        ("[spark]", "[sparc]", "line 5, sparc", "spark"),
        ("grace =", "gracee =", "line 15, lakes.prod.gracee", "grace"),
        ("[lakes.prod]", "[lake.prod]", "line 13, lake", "lakes"),
        ("endpoint = ", "endpont = ", 'line 10, storage."s3://lake".endpont', "endpoint"),
        ("name =", "nmae =", "line 22, lakes.prod.roots[0].nmae", "name"),
        ("repositories =", "repos =", "line 36, lakes.prod.roots[3].repos", "repositories"),
        ('"pinned"', '"pined"', "line 39, lakes.prod.roots[4].type", "pinned"),
        ("realm =", "zzzzz =", "line 3, store.zzzzz", "the keys here are url, realm"),
    ],
)
def test_an_unknown_name_is_refused_with_its_place_and_the_nearest_name(
    right: str, wrong: str, place: str, advice: str
) -> None:
    error = _refusal(_FULL.replace(right, wrong, 1))
    assert error.message.startswith(f"lakesweep.toml, {place}: ")
    assert advice in error.hint


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("= 2000", '= "2000"', "files_per_second: must be a number"),
        ("= 2000", "= -1", "files_per_second: must be greater than 0"),
        ("= 2000", "= 1\nretries = -1", "retries: must be at least 0"),
        ("= 2000", "= 1\nretries = 1.5", "retries: must be a whole number"),
        ("= 2000", "= 1\nanonymous = 1", "anonymous: must be true or false"),
        ('"7d"', "7", "grace: must be a duration"),
        ('"7d"', '"a week"', "grace: must be a duration"),
        ('"keep"', '"burn"', "unknown: must be 'keep' or 'delete'"),
        ('["s3://lake/warehouse"]', '"x"', "locations: must be a list"),
        ('["s3://lake/warehouse"]', "[]", "locations: must not be empty"),
        ('["s3://lake/warehouse"]', '["/x", 1]', "locations[1]: must be text"),
        ('["s3://lake/warehouse"]', '["x"]', "locations[0]: must be an address"),
        ('"s3://lake/_lakesweep/plans"', '"plans"', "plans: must be an address"),
        ('locations = ["s3://lake/warehouse"]', "", "locations: is missing"),
        ('name = "prod"', "name = 1", "roots[0].name: must be text"),
        ('type = "lakefs"\n', "", "roots[3]: has no type"),
        ("master =", 'remote = "sc://x"\nmaster =', "spark: has both master and remote"),
        ("[store]", "spark = 1\n[store]", "not TOML"),
        ('[storage."s3://lake"]', "[storage]", "storage.endpoint: must be a table"),
    ],
)
def test_a_wrong_value_is_refused_in_words(right: str, wrong: str, words: str) -> None:
    assert words in _refusal(_FULL.replace(right, wrong, 1)).message


def test_every_mistake_is_told_at_once() -> None:
    text = _FULL.replace("= 2000", '= "x"').replace('"7d"', "7")
    assert len(_refusal(text).message.splitlines()) == 2


@pytest.mark.parametrize(
    ("root", "one", "two"),
    [
        ('type = "iceberg-catalog"\nname = "prod"\n', "", 'properties = { uri = "other" }'),
        ('type = "iceberg-scan"\npath = "s3://lake"\n', "", "keep = false"),
        ('type = "lakefs"\nendpoint = "l"\n', 'repositories = ["a"]', 'repositories = ["b"]'),
    ],
)
@pytest.mark.parametrize("lake", ["prod", "other"])
def test_a_root_that_is_there_twice_says_the_same(root: str, one: str, two: str, lake: str) -> None:
    lakes = '[lakes.prod]\nlocations = ["s3://a"]\n[lakes.other]\nlocations = ["s3://b"]\n'
    first, second = f"[[lakes.prod.roots]]\n{root}{one}\n", f"[[lakes.{lake}.roots]]\n{root}"
    refusal = _refusal(lakes + first + second + two)
    assert refusal.message.endswith("appears twice, with different settings")
    _parse(lakes + first + second + one)


def test_wrong_syntax_is_told_with_its_line() -> None:
    assert "line 2" in _refusal("[store]\nurl = \n").message


def test_a_variable_is_taken_from_the_environment() -> None:
    text = '[store]\nurl = "postgresql://${USER_NAME}:${PASS}@db/x"\n'
    config = _parse(text, USER_NAME="me", PASS="p$1")
    assert config.store.url == "postgresql://me:p$1@db/x"


def test_variables_are_taken_inside_lists_and_inline_tables() -> None:
    text = _FULL.replace('uri = "http', 'token = "${T}", uri = "http').replace("_staging", "${S}")
    config = _parse(text, T="secret", S="tmp")
    root = config.lakes["prod"].roots[0]
    assert isinstance(root, IcebergCatalogRoot)
    assert root.properties["token"] == "secret"
    assert config.lakes["prod"].exclude == ("**/tmp/**",)


def test_a_missing_variable_is_refused_with_its_key() -> None:
    error = _refusal('[storage."s3://a"]\nsecret_access_key = "${LAKE_SECRET}"\n')
    assert 'line 2, storage."s3://a".secret_access_key' in error.message
    assert "LAKE_SECRET is not set" in error.message


def test_a_reference_that_names_no_variable_is_refused() -> None:
    assert (
        "not the name of an environment variable" in _refusal('[store]\nurl = "${a-b}"\n').message
    )


def test_secrets_are_in_no_repr() -> None:
    text = """
        [store]
        url = "postgresql://me:hidden@db/x"
        [spark]
        conf = { "spark.secret" = "hidden" }
        [storage."s3://a"]
        secret_access_key = "hidden"
        session_token = "hidden"
        account_key = "hidden"
        sas_token = "hidden"
        [lakes.a]
        locations = ["s3://a"]
        [[lakes.a.roots]]
        type = "iceberg-catalog"
        name = "x"
        properties = { token = "hidden" }
    """
    assert "hidden" not in repr(_parse(text))


def test_secrets_are_in_no_error() -> None:
    text = """
        [storage."s3://a"]
        anonymous = "hidden"
        secret_access_key = ["hidden"]
        [lakes.a]
        locations = "hidden"
        grace = "hidden"
        unknown = "hidden"
    """
    error = _refusal(text)
    assert "hidden" not in f"{error.message} {error.hint} {error.__cause__}"


def test_no_file_means_the_defaults() -> None:
    assert load_config(None, {}) == Config()


def test_a_named_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "none.toml", {})


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "lakesweep.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_config(file, {})


@pytest.mark.parametrize(
    "pattern", ["s3://lake/x/**", "file:///lake/x/**", "/data/lake/x/**", "/data/lake"]
)
def test_an_address_is_no_pattern_of_what_to_exclude(pattern: str) -> None:
    with pytest.raises(ValidationError, match="patterns apply to paths below a location"):
        LakeSection(locations=("s3://lake", "/data/lake/"), exclude=(pattern,))


def test_patterns_may_be_tied_to_a_location() -> None:
    patterns = ("/x/**", "data/**", "*.tmp", "/data/lakes/**")
    assert LakeSection(locations=("/data/lake",), exclude=patterns).exclude == patterns


def test_maintenance_has_the_same_defaults_in_the_file_and_in_programs() -> None:
    section = _parse("").maintenance.model_dump()
    assert MaintenanceConfig(**section) == MaintenanceConfig()


@pytest.mark.parametrize(
    "setting",
    [
        {"count_from_last_run_multiplier": inf},
        {"object_scan_rate_limit_per_second": inf},
        {"reference_scan_rate_limit_per_second": inf},
        {"created_at_grace_time": timedelta(days=999_999)},
        {"keep_age": timedelta(days=999_999)},
        {"scan_workers": 1_001},
    ],
)
def test_settings_of_maintenance_have_ceilings_where_more_makes_no_sense(
    setting: dict[str, Any],
) -> None:
    with pytest.raises(ConfigError, match=rf"\[maintenance\] {next(iter(setting))} must be "):
        MaintenanceConfig(**setting).check()


def test_history_is_set_by_patterns_of_references() -> None:
    text = '[maintenance.history."cat/*"]\ncommits = 3\nage = "30d"\n'
    [(pattern, kept)] = _parse(text).maintenance.history.items()
    assert (pattern, kept.commits, kept.age) == ("cat/*", 3, timedelta(days=30))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("expected_reference_count = 99", "must be at least 100"),
        ("expected_obj_count = 99_999", "must be at least 100000"),
        ("count_from_last_run_multiplier = 1.0", "must be greater than 1"),
        ("filter_initialized_fpp = 0.0", "must be at least 1e-09"),
        ("filter_initialized_fpp = 0.1", "not less than max_acceptable_filter_fpp"),
        ("retained_runs = 1", "must be at least 2"),
        ("delete_batch_size = 0", "must be greater than 0"),
        ("created_at_grace_time = 3", "must be a duration"),
        ("object_scan_rate_limit_per_second = -1", "must be at least 0"),
        ("keep_commits = 0", "must be at least 1"),
        ("keep_comits = 1", "unknown key"),
    ],
)
def test_settings_of_maintenance_have_floors(line: str, words: str) -> None:
    assert words in _refusal(f"[maintenance]\n{line}\n").message


def test_a_key_of_the_whole_file_in_a_section_is_told_where_it_stands() -> None:
    error = _refusal('[lakes.prod]\nlocations = ["/lake"]\nengine = "local"\n')
    assert error.hint == "engine stands at the top of the file, before all sections"


def test_limits_on_foreign_files_can_be_raised() -> None:
    limits = _parse("[limits]\nfile_bytes = 5\n").limits.read_limits
    assert limits == dataclasses.replace(DEFAULT_LIMITS, file_bytes=5)
    assert (
        "limits.file_bytes: must be greater than 0"
        in _refusal("[limits]\nfile_bytes = 0\n").message
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"a = {'[' * 3000}{']' * 3000}", "nested too deeply"),
        (f"store.{'.'.join('x' * 3000)} = 1", "nested too deeply"),
        (f"[spark]\nconf = {'{a=' * 100}1{'}' * 100}", "lakesweep.toml, line 2, .*nested too deep"),
        (f"store.url = {'9' * 5000}", "too many digits"),
        (f"[maintenance]\nfilter_bytes = {2**63}", "line 2, maintenance.filter_bytes: .*too large"),
        ("[storage.'s3://a']\nfiles_per_second = inf", "line 2, .*must be a finite number"),
        ("[storage.'s3://a']\nfiles_per_second = nan", "line 2, .*must be a finite number"),
        ("[storage.'s3://a']\ntimeout_seconds = 1e999", "line 2, .*must be a finite number"),
        (f"[lakes.a]\nlocations = ['/a']\ngrace = '{'9' * 5000}d'", "line 3, lakes.a.grace"),
        ("[lakes.a]\nlocations = ['/a']\ngrace = '999999999d'", "line 3, lakes.a.grace"),
        ('[lakes.a]\nlocations = ["/a\\u0000b"]', "line 2, .*contains a NUL"),
    ],
)
def test_values_that_no_setting_can_have_are_refused_by_key(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        _parse(text)


def test_values_from_a_program_are_checked_in_the_same_way() -> None:
    nested: dict[str, Any] = {}
    for _ in range(5000):
        nested = {"a": nested}
    with pytest.raises(ConfigError, match="nested too deeply"):
        config_from_values({"spark": nested})


def test_a_huge_file_is_not_read_as_a_configuration(tmp_path: Path) -> None:
    file = tmp_path / "lakesweep.toml"
    with file.open("wb") as sparse:
        sparse.truncate(20_000_000)
    with pytest.raises(ConfigError, match="is not a configuration"):
        load_config(file, {})


@pytest.mark.parametrize(
    "text",
    [
        '[[webhooks]]\nurl = "ftp://x/y"\nsecret = "long enough"',
        '[[webhooks]]\nurl = "https://x/y"\nsecret = "short"',
        '[[webhooks]]\nurl = "https://x/y"\nsecret = "long enough"\nevents = ["run.odd"]',
        '[[webhooks]]\nurl = "https://x/y"',
        '[schedules.s]\njob = "policy"\nevery = "1h"',
    ],
)
def test_webhooks_and_jobs_that_make_no_sense_are_refused_without_secrets(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(text, _FILE, {})
    assert "short" not in str(refused.value)


def test_the_secret_of_a_webhook_is_not_shown() -> None:
    text = '[[webhooks]]\nurl = "https://x/hidden"\nsecret = "${HOOK}"'
    config = parse_config(text, _FILE, {"HOOK": "from the environment"})
    assert config.webhooks[0].secret == "from the environment"
    assert "environment" not in repr(config)
