"""Define command groups and commands, with the options that every command has.

A command group is made by `group`, a command by `command`:

    app = group("files", "What is stored.", examples=["lakesweep files list s3://lake"])

    @command(app, "list", examples=["lakesweep files list s3://lake --json"])
    def list_files(context: Context, uris: Annotated[list[str], typer.Argument()]) -> None:
        '''List what is stored.'''

The command function gets a Context first, then its own arguments. An argument whose type is
a dataclass stands for the options that are its fields. `--json`, `--config`, `--server`,
`--verbose` and `--quiet` are added here, once, and work before and after the command's name.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from lakesweep.cli.context import Context, Settings, only_local

P = ParamSpec("P")

_PANEL = "Common options"
_KEYWORD = inspect.Parameter.KEYWORD_ONLY

JsonFlag = Annotated[
    bool, typer.Option("--json", help="Write JSON for programs.", rich_help_panel=_PANEL)
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Use this configuration. Otherwise LAKESWEEP_CONFIG, "
        "or lakesweep.toml here or in a parent folder.",
        rich_help_panel=_PANEL,
    ),
]
VerboseFlag = Annotated[
    bool, typer.Option("--verbose", "-v", help="Say more.", rich_help_panel=_PANEL)
]
QuietFlag = Annotated[
    bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", rich_help_panel=_PANEL)
]

ServerUrl = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="Have this service do it; its token is in LAKESWEEP_TOKEN. Otherwise LAKESWEEP_SERVER,"
        " or this machine.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]

_COMMON = (
    inspect.Parameter("json", _KEYWORD, default=False, annotation=JsonFlag),
    inspect.Parameter("config", _KEYWORD, default=None, annotation=ConfigFile),
    inspect.Parameter("server", _KEYWORD, default=None, annotation=ServerUrl),
    inspect.Parameter("verbose", _KEYWORD, default=False, annotation=VerboseFlag),
    inspect.Parameter("quiet", _KEYWORD, default=False, annotation=QuietFlag),
)
_TYPER_CONTEXT = inspect.Parameter("typer_context", _KEYWORD, annotation=typer.Context)


def _for_people(parameters: list[Any]) -> list[Any]:
    """Parameters as help shows them: no type behind flags, and brackets are just brackets."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        if parameter.help:
            parameter.help = _literal(parameter.help)
    return parameters


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _for_people(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        # Typer puts what must be given in braces, which tell readers nothing.
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _for_people(super().get_params(ctx))


def _only_common(context: Context) -> None:
    """Takes the common options, which are kept for the command that follows."""


def group(
    name: str,
    summary: str,
    *,
    examples: Sequence[str],
    callback: Callable[..., None] = _only_common,
) -> typer.Typer:
    """A group of commands that takes the common options before the command's name as well."""
    app = typer.Typer(name=name, cls=_Group, no_args_is_help=True, rich_markup_mode="rich")
    app.callback(help=summary, epilog=_epilog(examples))(_accepting(callback))
    return app


def command(
    app: typer.Typer, name: str, *, examples: Sequence[str], remote: bool = False
) -> Callable[[Callable[Concatenate[Context, P], None]], Callable[Concatenate[Context, P], None]]:
    """Add a function to a group as the command `name`; its docstring is the help.

    One that is not `remote` works on this machine only, and says so if a service is named.
    """

    def add(
        function: Callable[Concatenate[Context, P], None],
    ) -> Callable[Concatenate[Context, P], None]:
        add_to = app.command(name, cls=_Command, epilog=_epilog(examples), help=_help(function))
        add_to(_accepting(function, remote=remote))
        return function

    return add


def _accepting(function: Callable[..., None], *, remote: bool = True) -> Callable[..., None]:
    """The function as Typer sees it: its own parameters and the common ones."""
    _, *own = inspect.signature(function, eval_str=True).parameters.values()

    def call(typer_context: typer.Context, **values: Any) -> None:
        common = {parameter.name: values.pop(parameter.name) for parameter in _COMMON}
        settings = Settings(**common).under(typer_context.obj or Settings())
        typer_context.obj = settings
        if settings.service_url is not None and not remote:
            raise only_local(typer_context.command_path, settings)
        context = Context(settings)
        try:
            function(context, **{p.name: _collect(p, values) for p in own})
        except BrokenPipeError as error:
            # Ours would be an OutputClosedError; this is a connection, and Typer would hide it.
            raise ConnectionError(f"a connection broke: {error.strerror}") from error
        finally:
            context.close()

    parameters = [_TYPER_CONTEXT, *(option for p in own for option in _options_of(p)), *_COMMON]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call


def _options_of(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """What Typer sees of a parameter: itself, or the fields of a dataclass of options."""
    if not _holds_options(parameter):
        yield parameter.replace(kind=_KEYWORD)
        return
    # Of each class in its own module: options may come from a base class elsewhere.
    types = get_type_hints(parameter.annotation, include_extras=True)
    for field in inspect.signature(parameter.annotation).parameters.values():
        yield field.replace(kind=_KEYWORD, annotation=types[field.name])


def _collect(parameter: inspect.Parameter, values: dict[str, Any]) -> Any:
    """The value of a parameter, put together from its fields where it is a dataclass."""
    if not _holds_options(parameter):
        return values[parameter.name]
    fields = {option.name: values[option.name] for option in _options_of(parameter)}
    return parameter.annotation(**fields)


def _holds_options(parameter: inspect.Parameter) -> bool:
    return is_dataclass(parameter.annotation)


def _help(function: Callable[..., None]) -> str:
    """The docstring, each paragraph on one line, so that it fits every terminal."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return _literal("\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs))


def _epilog(examples: Sequence[str]) -> str:
    lines = "\n".join(f"  {line}" for line in examples)
    return f"[bold]Examples[/bold]\n\n{_literal(lines)}"


def _literal(text: str) -> str:
    """Brackets that rich shows instead of reading them as markup; done twice is done once."""
    return re.sub(r"(?<!\\)\[", r"\\[", text)
