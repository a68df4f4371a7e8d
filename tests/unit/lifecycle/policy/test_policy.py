"""Policies: what is taken, what is refused as a whole, and what rules mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakesweep.errors import ConfigError
from lakesweep.lifecycle.policy.parser import parse_policy
from lakesweep.lifecycle.policy.rules import LifecyclePolicy, RulePrefix
from tests.lifecycle_runs import policy_of

#: The policy of the requirement, as it is.
WRITTEN = {
    "rule1": {
        "prefix": "foo/bar",
        "days": 10,
        "enabled": True,
        "branch_days": {"b1": 5, "b2": 8},
    },
    "rule2": {"prefix": "foo/zoo", "enabled": True, "branch_days": {"b1": 5}},
}
YAML = b"""
rule1: {prefix: foo/bar, days: 10, enabled: true, branch_days: {b1: 5, b2: 8}}
rule2:
  prefix: foo/zoo
  enabled: true
  branch_days:
    b1: 5
"""
TOML = b"""
[rule1]
prefix = "foo/bar"
days = 10
enabled = true
branch_days = { b1 = 5, b2 = 8 }

[rule2]
prefix = "foo/zoo"
enabled = true
branch_days.b1 = 5
"""


def parsed(rules: Any) -> LifecyclePolicy:
    return parse_policy(json.dumps(rules).encode(), "policy.json")


def refused(rules: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        parsed(rules)


def rule_of(**keys: Any) -> dict[str, Any]:
    return {"r": {"prefix": "foo", "days": 10, "enabled": True, **keys}}


@pytest.mark.parametrize(("name", "data"), [("p.yaml", YAML), ("p.yml", YAML), ("p.toml", TOML)])
def test_the_shapes_mean_the_same(name: str, data: bytes) -> None:
    assert parse_policy(data, name) == parsed(WRITTEN)


def test_a_rule_without_days_covers_its_branches_only() -> None:
    rule = policy_of({"r": {"prefix": "a", "branch_days": {"b1": 5}}}).rules[0]
    assert rule.days_on_branch("b1") == 5
    assert rule.days_on_branch("main") is None
    assert rule.days is None


def test_enabled_must_be_said() -> None:
    refused({"r": {"prefix": "a", "days": 10}}, r"r\.enabled: Field required")


def test_a_rule_that_is_not_enabled_covers_nothing() -> None:
    assert parsed(rule_of(enabled=False)).rules == ()


@pytest.mark.parametrize("days", [0, -1, 1.5, "10", True, None, 36_501, 10.0])
def test_days_are_whole_numbers_of_at_least_one(days: Any) -> None:
    refused({"r": {"prefix": "a", "branch_days": {"b": days}, "enabled": True}}, r"branch_days\.b")


def test_rules_with_few_days_are_told() -> None:
    policy = parsed({**WRITTEN, **rule_of(tag_days={"v1": 1})})
    assert policy.shorter_than(7) == (
        "rule1.branch_days.b1 (5 days)",
        "rule2.branch_days.b1 (5 days)",
        "r.tag_days.v1 (1 day)",
    )
    assert policy.shorter_than(1) == ()


def test_the_proposal_matches_prefixes_as_text_and_spares_no_head() -> None:
    policy = parsed(WRITTEN)
    proposed = policy.as_proposed()
    assert [rule.prefix.covers(b"foo/barn") for rule in (*policy.rules, *proposed.rules)] == [
        False,
        False,
        True,
        False,
    ]
    assert proposed.head_rules == proposed.rules
    assert policy.sha256 != proposed.sha256 == proposed.as_proposed().sha256


def test_a_branch_of_its_own_days_replaces_the_days_of_all() -> None:
    rule = policy_of({"r": {"prefix": "a", "days": 10, "branch_days": {"b1": 5, "b2": 90}}}).rules[
        0
    ]
    assert [rule.days_on_branch(name) for name in ("b1", "b2", "b3")] == [5, 90, 10]


def test_rules_that_overlap_are_told() -> None:
    policy = policy_of({"one": {"prefix": "a", "days": 10}, "two": {"prefix": "a/b", "days": 20}})
    assert policy.warnings([], []) == ("one and two overlap: the longer retention applies",)
    apart = policy_of({"one": {"prefix": "a", "days": 10}, "two": {"prefix": "ab", "days": 20}})
    assert apart.warnings([], []) == ()


@pytest.mark.parametrize("prefix", ["*", "_lakefs*", "_lakefs_actions"])
def test_hooks_that_expire_on_heads_are_told(prefix: str) -> None:
    rule = {"prefix": prefix, "days": 10, "allow_empty_prefix": True}
    [told] = policy_of({"all": {**rule, "expire_heads": True}}).warnings([], [])
    assert "hooks" in told
    assert policy_of({"all": rule}).warnings([], []) == ()


@pytest.mark.parametrize(
    ("prefix", "path", "covers"),
    [
        ("foo/bar", b"foo/bar", True),
        ("foo/bar", b"foo/bar/x", True),
        ("foo/bar", b"foo/barn", False),
        ("foo/bar*", b"foo/barn", True),
        ("foo/bar/", b"foo/bar/x", True),
        ("foo/bar/", b"foo/bar", False),
        ("foo", b"fo\xff", False),
        ("", b"\xff", True),
    ],
)
def test_prefixes_end_where_a_name_ends(prefix: str, path: bytes, covers: bool) -> None:
    assert RulePrefix(prefix).covers(path) is covers


@pytest.mark.parametrize("prefix", ["", "*"])
def test_the_whole_repository_must_be_meant(prefix: str) -> None:
    refused(rule_of(prefix=prefix), "allow_empty_prefix")
    allowed = parsed(rule_of(prefix=prefix, allow_empty_prefix=True))
    assert allowed.rules[0].prefix.covers(b"x")


@pytest.mark.parametrize("prefix", ["a*b", "**", "/a"])
def test_prefixes_that_would_match_nothing_are_refused(prefix: str) -> None:
    refused(rule_of(prefix=prefix), "prefix")


def test_a_branch_that_is_not_there_is_told() -> None:
    policy = policy_of({"r": {"prefix": "a", "branch_days": {"b1": 5, "rel-*": 9}}})
    assert policy.warnings(["main"], []) == (
        "r: there is no branch b1",
        "r: there is no branch that fits rel-*",
    )
    assert policy.warnings(["b1", "rel-1"], []) == ()


def test_a_name_stands_before_patterns_and_the_longest_pattern_counts() -> None:
    days = {"rel-1": 5, "rel-*": 30, "re*": 20}
    rule = policy_of({"r": {"prefix": "a", "days": 10, "branch_days": days}}).rules[0]
    assert [rule.days_on_branch(name) for name in ("rel-1", "rel-2", "ref", "main")] == [
        5,
        30,
        20,
        10,
    ]


@pytest.mark.parametrize(
    "rules",
    [
        {},
        [],
        {"r": {}},
        {"": {"prefix": "a", "days": 10, "enabled": True}},
        {"r": {"prefix": "a", "enabled": True}},
        {"r": {"prefix": "a", "days": 10, "enabled": "yes"}},
        {"r": {"prefix": "a", "days": 10, "enabled": True, "branches": {}}},
        {"r": {"prefix": 3, "days": 10, "enabled": True}},
    ],
)
def test_what_is_wrong_anywhere_is_refused_as_a_whole(rules: Any) -> None:
    refused(rules, "the policy policy.json is wrong")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("p.json", b'{"r": {"prefix": "a", "days": 9, "enabled": true}, "r": {}}'),
        ("p.yaml", b"r: {prefix: a, days: 9, enabled: true}\nr: {}"),
        ("p.toml", b"[r]\nprefix = 'a'\n[r]\n"),
        ("p.json", b"{"),
        ("p.json", b"\xff"),
        ("p.txt", b""),
        ("p.yaml", b"r: [unclosed"),
        ("p.yaml", b"? [r]\n: {}"),
        ("p.json", b"[" * 100_000),
        ("p.toml", b"a = " + b"[" * 5_000),
        ("p.json", b'{"r": {"prefix": "\\ud800", "days": 9, "enabled": true}}'),
    ],
)
def test_files_that_say_a_thing_twice_or_nothing_are_refused(name: str, data: bytes) -> None:
    with pytest.raises(ConfigError, match=f"the policy {name} is wrong"):
        parse_policy(data, name)


def test_a_wrong_key_is_told_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"rule1\.days \(line 4\)"):
        parse_policy(TOML.replace(b"10", b"'ten'"), "p.toml")


def test_an_unknown_key_is_told_with_the_nearest_one() -> None:
    refused(rule_of(brach_days={"b": 9}), r"r\.brach_days: .* did you mean branch_days\?")
    refused(rule_of(zzz=1), "there are prefix, enabled, days, branch_days")


@pytest.mark.parametrize("data", [b"off: {}", b"r: {branch_days: {1.0: 9}}"])
def test_what_yaml_takes_for_something_else_must_be_in_quotes(data: bytes) -> None:
    with pytest.raises(ConfigError, match="is not text: put it in quotes"):
        parse_policy(data, "p.yaml")


@pytest.mark.parametrize("days", ["030", "0100", "1:30", "3_0", "0x1e", "0b11110", "-030"])
def test_numbers_are_what_people_take_them_for(days: str) -> None:
    """YAML has 030 for 24, and 1:30 for 90."""
    with pytest.raises(ConfigError, match=f"{days} is not a plain number"):
        parse_policy(f"r: {{prefix: a, days: {days}, enabled: true}}".encode(), "p.yaml")


def test_the_hash_is_of_the_meaning() -> None:
    policy = parsed(WRITTEN)
    renamed = parsed({"x": WRITTEN["rule2"], "y": WRITTEN["rule1"]})
    assert policy.sha256 == renamed.sha256
    off = WRITTEN | {"rule3": {"prefix": "z", "days": 9, "enabled": False}}
    assert policy.sha256 == parsed(off).sha256
    other = json.loads(json.dumps(WRITTEN).replace("10", "11"))
    assert policy.sha256 != parsed(other).sha256


def test_the_policy_in_words() -> None:
    more = {
        **WRITTEN,
        "off": {"prefix": "x", "days": 9, "enabled": False},
        "all": {
            "prefix": "",
            "days": 9,
            "tag_days": {"v*": 1},
            "enabled": True,
            "expire_heads": True,
            "allow_empty_prefix": True,
        },
    }
    words = parsed(more).words()
    assert [line.partition(": ")[0] for line in words] == list(more)
    assert "5 days on branch b1, 8 days on branch b2, 10 days on all other branches" in words[0]
    assert words[0].endswith("never while a HEAD holds it")
    assert "5 days on branch b1, kept on all other branches" in words[1]
    assert words[2] == "off: not enabled"
    assert words[3].startswith("all: all paths: 9 days on all branches")
    assert words[3].endswith("1 day on tag that fits v*, HEADs too")


_RULE = "prefix: x, enabled: true, days: "
_SHARED = "".join(
    f"b{number}: &b{number} {{{_RULE}9, branch_days: {{a: *b{number - 1}, b: *b{number - 1}}}}}\n"
    for number in range(1, 60)
)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("p.yaml", f"a: {{{_RULE}{'9' * 5_000}}}", "too many digits"),
        ("p.json", '{"a": {"days": ' + "9" * 5_000 + "}}", "too many digits"),
        ("p.toml", f"[a]\ndays = {'9' * 5_000}", "too many digits"),
        ("p.yaml", "a: " + "[" * 50_000, "nested too deeply"),
        ("p.yaml", "a: " + "{a: " * 50_000, "nested too deeply"),
        ("p.yaml", "- " * 50_000, "nested too deeply"),
        ("p.json", "[" * 100_000, "nested too deeply"),
        ("p.toml", "a = " + "[" * 50_000, "nested too deeply"),
        ("p.yaml", f"b0: &b0 {{{_RULE}9}}\n{_SHARED}", "b1.branch_days.a: Input should be"),
        ("p.yaml", f"a: &a {{{_RULE}9, branch_days: *a}}", "a.branch_days.prefix"),
        ("p.json", " " * 2_000_000, "larger than 1"),
    ],
)
def test_what_no_reader_can_bear_is_refused(name: str, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"the policy {name} is wrong: .*{reason}"):
        parse_policy(text.encode(), name)


def test_a_policy_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"the policy p\.json is wrong: .*utf-8"):
        parse_policy(b'{"\xff": {}}', "p.json")
