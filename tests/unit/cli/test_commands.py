from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context, Settings
from lakesweep.cli.options import DryRun, Overrides, Yes
from lakesweep.guard_names import GuardName

Seen = list[tuple[Settings, dict[str, object]]]
NAMED = "unlisted-table=s3://lake/odd,name"


@pytest.fixture
def seen() -> Seen:
    return []


@pytest.fixture
def app(seen: Seen) -> typer.Typer:
    root = group("tool", "A tool.", examples=["tool files purge"])
    files = group("files", "Files.", examples=["tool files purge [x]"])
    root.add_typer(files)

    @command(files, "purge", examples=["tool files purge /a"])
    def purge(
        context: Context,
        uri: Annotated[str, typer.Argument(help="An address [a-z].")] = "",
        dry_run: DryRun = False,
        yes: Yes = False,
        override: Overrides = None,
    ) -> None:
        """Delete files.

        A paragraph of two
        lines, with [brackets].
        """
        values = {"uri": uri, "dry_run": dry_run, "yes": yes, "override": override}
        seen.append((context.settings, values))

    return root


def _call(app: typer.Typer, *arguments: str) -> None:
    typer.main.get_command(app).main(list(arguments), standalone_mode=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--json", "files", "purge"),
        ("files", "--json", "purge"),
        ("files", "purge", "--json"),
        ("files", "purge", "/a", "--json"),
    ],
)
def test_common_options_stand_before_or_after_the_command(
    app: typer.Typer, seen: Seen, arguments: tuple[str, ...]
) -> None:
    _call(app, *arguments)
    assert seen[0][0] == Settings(json=True)


def test_common_options_from_all_places_add_up(app: typer.Typer, seen: Seen) -> None:
    _call(app, "-v", "--config", "outer.toml", "files", "-q", "purge", "--config", "inner.toml")
    assert seen[0][0] == Settings(verbose=True, quiet=True, config=Path("inner.toml"))


def test_a_command_gets_its_own_arguments(app: typer.Typer, seen: Seen) -> None:
    _call(app, "files", "purge", "/a", "--dry-run", "-y", "--override", "grace")
    assert seen[0][1] == {"uri": "/a", "dry_run": True, "yes": True, "override": ["grace"]}


def test_several_guards_can_be_overridden(app: typer.Typer, seen: Seen) -> None:
    _call(app, "files", "purge", *(word for guard in GuardName for word in ("--override", guard)))
    assert seen[0][1]["override"] == list(GuardName)


def test_several_guards_may_stand_between_commas(app: typer.Typer, seen: Seen) -> None:
    _call(app, "files", "purge", "--override", "first-run, grace", "--override", "share")
    assert seen[0][1]["override"] == ["first-run", "grace", "share"]


def test_a_table_that_no_root_lists_is_named_with_its_guard(app: typer.Typer, seen: Seen) -> None:
    _call(app, "files", "purge", "--override", NAMED)
    assert seen[0][1]["override"] == [NAMED]


@pytest.mark.parametrize(
    ("option", "guards"),
    [
        (f"first-run,share,{NAMED}", ["first-run", "share", NAMED]),
        (f"{NAMED}, first-run ,share", [NAMED, "first-run", "share"]),
        (f"grace,{NAMED},{NAMED}2,share", ["grace", NAMED, f"{NAMED}2", "share"]),
        (f"{NAMED},share-of-all", [f"{NAMED},share-of-all"]),
    ],
)
def test_a_table_may_be_named_among_other_guards(
    app: typer.Typer, seen: Seen, option: str, guards: list[str]
) -> None:
    _call(app, "files", "purge", "--override", option)
    assert seen[0][1]["override"] == guards


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        (f"grase,{NAMED}", "did you mean grace?"),
        ("first-run,grase", "did you mean grace?"),
        ("grace=/lake", "did you mean grace?"),
        ("unlisted-table=", "did you mean unlisted-table?"),
        ("grase", "did you mean grace?"),
        ("gc-enabled", "did you mean gc.enabled?"),
        ("xyz", "the guards are first-run, zero-live"),
    ],
)
def test_an_unknown_guard_is_refused_with_the_nearest_name(
    app: typer.Typer, wrong: str, advice: str
) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        _call(app, "files", "purge", "--override", wrong)
    assert advice in caught.value.format_message()


@pytest.mark.parametrize(
    ("path", "example"),
    [
        ((), "tool files purge"),
        (("files",), "tool files purge [x]"),
        (("files", "purge"), "tool files purge /a"),
    ],
)
def test_help_teaches_by_example(
    app: typer.Typer, path: tuple[str, ...], example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _call(app, *path, "--help")
    shown = capsys.readouterr().out
    assert "Examples" in shown
    assert example in shown
    assert "Common options" in shown


def test_help_shows_text_as_it_was_written(
    app: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    _call(app, "files", "purge", "--help")
    shown = capsys.readouterr().out
    assert "An address [a-z]." in shown
    assert "A paragraph of two lines, with [brackets]." in shown
    assert "<bool>" not in shown


def test_a_broken_connection_is_not_taken_for_a_closed_output() -> None:
    root = group("tool", "A tool.", examples=[])

    @command(root, "go", examples=[])
    def go(context: Context) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(ConnectionError, match="a connection broke"):
        _call(root, "go")


def test_usage_names_what_must_be_given_as_it_is_typed(capsys: pytest.CaptureFixture[str]) -> None:
    root = group("tool", "A tool.", examples=[])

    @command(root, "list", examples=[])
    def list_files(
        context: Context, uris: Annotated[list[str], typer.Argument(metavar="URI…")]
    ) -> None:
        """List files."""

    _call(root, "list", "--help")
    assert "list [OPTIONS] URI…" in capsys.readouterr().out
