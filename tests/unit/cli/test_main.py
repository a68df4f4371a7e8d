from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from lakesweep import __version__
from lakesweep.cli import main as module
from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.main import run
from lakesweep.errors import (
    LakesweepError,
    LeaseHeldError,
    NotFoundError,
    RefusedError,
    SparkJobError,
)

Capture = pytest.CaptureFixture[str]


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command line whose one command raises what it is told to."""
    app = group("lakesweep", "Test.", examples=[])
    errors: dict[str, BaseException] = {
        "refused": RefusedError("share", "too much", hint="less"),
        "lease": LeaseHeldError("held"),
        "missing": NotFoundError("gone"),
        "bug": ZeroDivisionError("by zero"),
        "job": _caused(SparkJobError("it failed"), ValueError("at line 7 of a kernel")),
        "leak": _caused(
            NotFoundError("no http://me:hunter2@host"), ValueError("password='hunter2'")
        ),
        "leaking bug": ValueError("no answer from mysql://me:hunter2@host/x"),
        "interrupt": KeyboardInterrupt(),
        "exit": typer.Exit(4),
    }

    @command(app, "fail", examples=[])
    def fail(context: Context, how: str) -> None:
        raise errors[how]

    monkeypatch.setattr(module, "app", app)


def _error(text: str) -> dict[str, object]:
    error = json.loads(text)["error"]
    assert isinstance(error, dict)
    return error


def test_the_version_is_told(capsys: Capture) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"lakesweep {__version__}\n"


def test_help_ends_well(capsys: Capture) -> None:
    assert run(["--help"]) == 0
    assert "Usage: lakesweep" in capsys.readouterr().out


def test_a_call_without_words_shows_the_help_and_is_wrong_usage(capsys: Capture) -> None:
    assert run([]) == 2
    captured = capsys.readouterr()
    assert "Usage: lakesweep" in captured.out
    assert "error" not in captured.err


@pytest.mark.parametrize(
    ("how", "code"), [("refused", 3), ("exit", 4), ("lease", 5), ("missing", 6), ("bug", 1)]
)
@pytest.mark.usefixtures("failing")
def test_each_failure_has_its_exit_code(how: str, code: int) -> None:
    assert run(["fail", how]) == code


@pytest.mark.usefixtures("failing")
def test_an_error_tells_people_what_to_try(capsys: Capture) -> None:
    run(["fail", "refused"])
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "error: too much\ntry: less\n")


@pytest.mark.parametrize(
    "arguments", [["--json", "fail", "refused"], ["fail", "refused", "--json"]]
)
@pytest.mark.usefixtures("failing")
def test_an_error_tells_programs_the_same(arguments: list[str], capsys: Capture) -> None:
    run(arguments)
    captured = capsys.readouterr()
    expected = {"type": "RefusedError", "message": "too much", "hint": "less", "exit_code": 3}
    assert (captured.out, _error(captured.err)) == ("", expected)


@pytest.mark.usefixtures("failing")
def test_an_unexpected_error_is_short(capsys: Capture) -> None:
    run(["fail", "bug"])
    shown = capsys.readouterr().err
    assert shown.startswith("error: unexpected ZeroDivisionError: by zero\ntry: ")
    assert "Traceback" not in shown


@pytest.mark.usefixtures("failing")
def test_an_unexpected_error_shows_where_when_asked(capsys: Capture) -> None:
    run(["fail", "bug", "-v"])
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "is_shown"), [([], False), (["-v"], True)])
@pytest.mark.usefixtures("failing")
def test_the_cause_of_an_error_is_shown_when_asked(
    words: list[str], is_shown: bool, capsys: Capture
) -> None:
    assert run(["fail", "job", *words]) == 1
    shown = capsys.readouterr().err
    assert shown.endswith("error: it failed\ntry: run the command again with -v for details\n")
    assert ("at line 7 of a kernel" in shown) is is_shown


@pytest.mark.usefixtures("failing")
def test_an_unexpected_error_is_json_for_programs(capsys: Capture) -> None:
    run(["fail", "bug", "--json"])
    error = _error(capsys.readouterr().err)
    assert (error["type"], error["exit_code"]) == ("ZeroDivisionError", LakesweepError.exit_code)


@pytest.mark.usefixtures("failing")
def test_an_interruption_says_that_it_is_safe(capsys: Capture) -> None:
    assert run(["fail", "interrupt"]) == 130
    assert "safe to run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words", "hint"),
    [
        (["--jsn"], "No such option: --jsn", "lakesweep --json"),
        (["docter"], "Did you mean 'doctor'?", "lakesweep doctor"),
        (["xyzzy"], "No such command 'xyzzy'", "lakesweep --help"),
        (["iceberg", "fils", "a b.c"], "'files'", "lakesweep iceberg files 'a b.c'"),
        (["init", "--frce"], "--force", "lakesweep init --force"),
        (
            ["iceberg", "trim-metadata", "c.n.t", "--grace", "0s", "--yes"],
            "No such option: --grace",
            "lakesweep iceberg trim-metadata --help",
        ),
        (["init", "--xyzzy"], "No such option: --xyzzy", "lakesweep init --help"),
        (
            ["files", "purge", "s3://b/t", "--older-then=7d", "--dry-run"],
            "--older-than",
            "lakesweep files purge s3://b/t --older-than=7d --dry-run",
        ),
        (["init", "--output"], "requires an argument", "lakesweep --help"),
    ],
)
def test_wrong_words_are_told_with_the_command_made_right(
    arguments: list[str], words: str, hint: str, capsys: Capture
) -> None:
    assert run(arguments) == 2
    shown = capsys.readouterr().err
    assert words in shown
    assert shown.endswith(f"try: {hint}\n")


def test_wrong_words_are_json_for_programs(capsys: Capture) -> None:
    assert run(["init", "--json", "--frce"]) == 2
    error = _error(capsys.readouterr().err)
    assert (error["type"], error["exit_code"]) == ("UsageError", 2)


def test_a_word_behind_the_dashes_is_no_option(capsys: Capture) -> None:
    assert run(["init", "--", "--json"]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, (*path, name))


_ALL = list(_commands(typer.main.get_command(module.app)))


@pytest.mark.parametrize(("path", "found"), _ALL, ids=[" ".join(path) for path, _ in _ALL])
def test_every_command_teaches_and_takes_the_common_options(
    path: tuple[str, ...], found: Any
) -> None:
    options = {name for parameter in found.params for name in parameter.opts}
    assert {"--json", "--config", "--verbose", "-v", "--quiet", "-q"} <= options
    assert found.help
    assert f"lakesweep {' '.join(path)}" in found.epilog


@pytest.mark.parametrize(("path", "found"), _ALL, ids=[" ".join(path) for path, _ in _ALL])
def test_every_command_that_deletes_can_be_tried_and_confirmed(
    path: tuple[str, ...], found: Any
) -> None:
    options = {name for parameter in found.params for name in parameter.opts}
    verb = path[-1].partition("-")[0] if path else ""
    deletes = verb in {
        "purge",
        "delete",
        "recover",
        "apply",
        "empty",
        "expire",
        "drop",
        "orphans",
        "maintain",
        "trim",
        "rewrite",
    }
    deletes |= path in {("policy", "run"), ("iceberg", "remove-dangling-deletes")}
    assert ({"--dry-run", "--yes"} <= options) == deletes


@pytest.mark.parametrize("how", ["leak", "leaking bug"])
@pytest.mark.parametrize("option", ["-v", "--json"])
def test_no_secret_is_shown_in_errors_and_tracebacks(
    failing: None, capsys: Capture, how: str, option: str
) -> None:
    run(["fail", how, option])
    captured = capsys.readouterr()
    assert "hunter2" not in captured.out + captured.err
    assert "***" in captured.err
