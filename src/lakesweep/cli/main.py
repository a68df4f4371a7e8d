"""The `lakesweep` command: assembles all groups, runs one call, maps errors to exit codes."""

from __future__ import annotations

import atexit
import gc
import os
import shlex
import sys
import threading
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from typing import Annotated, NoReturn

import typer

from lakesweep.cli import files
from lakesweep.cli.catalog import catalog_commands
from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context, Settings, make_output
from lakesweep.cli.demo.demo_command import add_demo
from lakesweep.cli.iceberg import iceberg_commands
from lakesweep.cli.lifecycle import lifecycle_commands
from lakesweep.cli.paimon import paimon_commands
from lakesweep.cli.render.output import CommandFailure
from lakesweep.cli.render.terminal import OutputClosedError, OutputFailedError, guarded_stdout
from lakesweep.cli.schedule import schedule_commands, token_commands, webhook_commands
from lakesweep.cli.schedule.serve import serve
from lakesweep.cli.setup import doctor, init
from lakesweep.cli.store import realm_commands, store_commands
from lakesweep.cli.sweep import quarantine
from lakesweep.cli.sweep.sweep_commands import add_sweep
from lakesweep.cli.upkeep.upkeep_commands import add_upkeep
from lakesweep.errors import IncompleteError, LakesweepError, RefusedError, UsageError
from lakesweep.no_pandas import disable_pandas
from lakesweep.progress import SILENT
from lakesweep.redaction import masked
from lakesweep.termination import (
    heed_termination,
    is_cancelled,
    is_requested,
    termination_reason,
)
from lakesweep.untrusted.text import printable
from lakesweep.version import __version__

#: What a shell reports for a program whose reader went away (128 + SIGPIPE).
_EXIT_CLOSED = 141
_EXIT_INTERRUPTED = 130
#: The same after SIGTERM.
_EXIT_TERMINATED = 143
#: How alike two words are (0 to 1) if one is the other misspelled; `--grace` and `--lake` are 0.62.
_SAME_WORD = 0.8
#: When Python looks for garbage in cycles, by generation. It would look hundreds of times while
#: modules are imported and find nothing, which is a seventh of the time of a small plan.
_COLLECT_AFTER = (50_000, 5, 5)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lakesweep {__version__}")
        raise typer.Exit


def _root(
    context: Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Takes the options that stand before all commands."""


app = group(
    "lakesweep",
    "Keep a lakehouse clean: find what nothing references any more, and delete it safely.",
    examples=[
        "lakesweep demo                                    see it work",
        "lakesweep init; lakesweep doctor                  configure, and check",
        "lakesweep plan prod; lakesweep show prod          what nothing references",
        "lakesweep apply PLAN --quarantine                 set it aside",
        "lakesweep files list s3://lake --older-than 30d   what is stored",
        "lakesweep iceberg files prod.shop.orders          what a table reaches",
    ],
    callback=_root,
)
command(app, "init", examples=["lakesweep init", "lakesweep init --output prod.toml"])(init)
command(app, "doctor", examples=["lakesweep doctor", "lakesweep doctor --spark --json"])(doctor)
add_demo(app, lambda words: run(words))  # noqa: PLW0108 — `run` is defined below
add_sweep(app)
add_upkeep(app)
app.add_typer(files.app)
app.add_typer(iceberg_commands.app)
app.add_typer(paimon_commands.app)
app.add_typer(lifecycle_commands.app)
app.add_typer(quarantine.app)
app.add_typer(schedule_commands.app)
app.add_typer(webhook_commands.app)
command(app, "serve", examples=["lakesweep serve", "lakesweep serve --host 0.0.0.0 --port 8080"])(
    serve
)
app.add_typer(token_commands.app)
app.add_typer(store_commands.app)
app.add_typer(realm_commands.app)
app.add_typer(catalog_commands.app)


def main() -> None:
    """Run the command line of this process."""
    gc.set_threshold(*_COLLECT_AFTER)
    disable_pandas()
    heed_termination()
    # What pyarrow lets go is given back at once, here and in the processes that Spark starts.
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "0")
    code = run(sys.argv[1:])
    # A command that was done by then has its own code.
    _leave(_EXIT_TERMINATED if code and is_requested() and not is_cancelled() else code)


def _leave(code: int) -> NoReturn:
    """End this process as `sys.exit` does, but without taking the interpreter apart.

    A thread of Arrow that reads ahead may still need Python's lock for a moment. Python would end
    such a thread inside C++ code, which aborts the whole process after its work is done.
    """
    # After an interrupt, this would wait for every request that is still under way.
    if code not in (_EXIT_INTERRUPTED, _EXIT_TERMINATED):
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - joins threads
        atexit._run_exitfuncs()  # noqa: SLF001
    # Whatever could not be written has its exit code from `run`.
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code. Nothing is raised but SystemExit."""
    try:
        with guarded_stdout():
            code = _invoke(arguments)
    except (OutputClosedError, BrokenPipeError):
        _forget_stdout()
        return _EXIT_CLOSED
    except OutputFailedError as error:
        _forget_stdout()
        return _fail(arguments, CommandFailure.of(error))
    except typer.TyperException as error:
        return _fail_usage(arguments, error)
    except LakesweepError as error:
        if error.__cause__ is not None and _asked(arguments, "-v", "--verbose"):
            _print_traceback(error.__cause__)
        return _fail(arguments, _failure(error, arguments))
    except KeyboardInterrupt:
        return _fail(arguments, _interrupted())
    except Exception as error:  # the last line of defence
        if _asked(arguments, "-v", "--verbose"):
            _print_traceback(error)
        return _fail(arguments, _unexpected(error))
    return _fail(arguments, _interrupted()) if code == _EXIT_INTERRUPTED else code


#: Built from the signatures of all commands, which takes a while and gives the same every time.
_command = cache(typer.main.get_command)


def _invoke(arguments: Sequence[str]) -> int:
    code = _command(app).main(list(arguments), prog_name="lakesweep", standalone_mode=False)
    return code if isinstance(code, int) else 0


def _fail_usage(arguments: Sequence[str], error: typer.TyperException) -> int:
    message = error.format_message()
    if not message:  # a call without any words; Typer has shown the help already
        return error.exit_code
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "lakesweep"
    hint = _corrected(arguments, error) or f"{path} --help"
    return _fail(arguments, CommandFailure.of(UsageError(message, hint=hint)))


def _corrected(arguments: Sequence[str], error: typer.TyperException) -> str | None:
    """The call with its misspelled option or command corrected; None if nothing is close to it."""
    option = getattr(error, "option_name", None)
    commands = getattr(getattr(getattr(error, "ctx", None), "command", None), "commands", ())
    for place, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if option is not None and name == option:
            near = _nearest(name, getattr(error, "possibilities", None) or ())
        elif f"No such command {word!r}" in error.format_message():
            near = _nearest(word, commands)
        else:
            continue
        words = ["lakesweep", *arguments[:place], *near, *arguments[place + 1 :]]
        if equals:
            words[place + 1] += f"={value}"
        return masked(shlex.join(words)) if near else None
    return None


def _nearest(word: str, names: Iterable[str]) -> list[str]:
    """The name that was meant: one slip away at most, since another one may do something else."""
    return get_close_matches(word, names, n=1, cutoff=_SAME_WORD)


def _failure(error: LakesweepError, arguments: Sequence[str]) -> CommandFailure:
    """The failure; a hint to override guards repeats the command as it was typed."""
    failure = CommandFailure.of(error)
    if not isinstance(error, RefusedError):
        return failure
    return replace(failure, hint=masked(error.hint_for(shlex.join(["lakesweep", *arguments]))))


def _interrupted() -> CommandFailure:
    what, code = "interrupted", _EXIT_INTERRUPTED
    if is_requested():
        what = termination_reason()
        code = IncompleteError.exit_code if is_cancelled() else _EXIT_TERMINATED
    message = f"{what}; it is safe to run the same command again"
    return CommandFailure("Interrupted", (message,), None, code)


def _unexpected(error: Exception) -> CommandFailure:
    name = type(error).__name__
    hint = "the same command with -v shows where it happened"
    message = f"unexpected {name}: {masked(str(error))}"
    return CommandFailure(name, (message,), hint, LakesweepError.exit_code)


def _print_traceback(error: BaseException) -> None:
    # Libraries quote URLs and settings in their messages.
    text = masked("".join(traceback.format_exception(error)))
    # Indented, so that no line of a message can look like one of ours.
    sys.stderr.write("".join(f"  {printable(line)}\n" for line in text.splitlines()))


def _fail(arguments: Sequence[str], failure: CommandFailure) -> int:
    # The words of the call decide, not the parsed options: the parser may be what failed.
    make_output(Settings(json=_asked(arguments, "--json")), SILENT).error(failure)
    return failure.exit_code


def _asked(arguments: Sequence[str], *names: str) -> bool:
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return any(name in options for name in names)


def _forget_stdout() -> None:
    """Point stdout nowhere, so that Python's own flush at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
