"""The reference of all commands in `docs/commands.md`, made of what `--help` says.

`python -m tests.command_pages` writes it anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from lakesweep.cli.main import app

DOCUMENT = Path(__file__).parents[1] / "docs" / "commands.md"
TITLE = "## Every command\n"


def commands() -> Iterator[tuple[list[str], Any]]:
    """Every command with its words, in the order of the help."""
    yield from _below([], typer.main.get_command(app))


def reference() -> str:
    """What the document says behind its last title."""
    return "\n".join(page(words, command) for words, command in commands())


def examples(command: Any) -> list[str]:
    """The lines of its help that show how a command is called."""
    _, _, lines = command.epilog.partition("\n\n")
    return [_plain(line.strip()) for line in lines.splitlines()]


def _below(words: list[str], command: Any) -> Iterator[tuple[list[str], Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield words, command
        return
    for name, child in children.items():
        yield from _below([*words, name], child)


def page(words: list[str], command: Any) -> str:
    """What the reference says of one command."""
    context = command.context_class(command, info_name="lakesweep")
    parameters = command.get_params(context)
    given = [p.make_metavar(context) for p in parameters if p.param_type_name == "argument"]
    rows = [_row(p, context) for p in parameters if _is_own(p)]
    table = "\n".join(["| option | |", "|---|---|", *rows]) + "\n\n" if rows else ""
    shown = "\n".join(examples(command))
    title = " ".join(["lakesweep", *words, *given])
    return f"### `{title}`\n\n{_plain(command.help)}\n\n{table}```sh\n{shown}\n```\n"


def _is_own(parameter: Any) -> bool:
    is_common = getattr(parameter, "rich_help_panel", None) == "Common options"
    return parameter.param_type_name == "option" and not is_common and parameter.name != "help"


def _row(option: Any, context: Any) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    value = "" if option.is_flag else option.make_metavar(context).strip("<>")
    default = option.show_default and not option.is_flag and option.default not in (None, ())
    told = f" (by default {option.default})" if default else ""
    text = f"{_plain(option.help)}{told}".replace("|", "\\|")
    return f"| {names}{f' {_cell(value)}' if value else ''} | {text} |"


def _cell(text: str) -> str:
    return text.replace("|", " \\| ")


def _plain(text: str) -> str:
    """Help as people see it, without the marks that protect brackets."""
    return re.sub(r"\\\[", "[", text)


def main() -> None:
    before, _, _ = DOCUMENT.read_text(encoding="utf-8").partition(TITLE)
    DOCUMENT.write_text(f"{before}{TITLE}\n{reference()}", encoding="utf-8")


if __name__ == "__main__":
    main()
