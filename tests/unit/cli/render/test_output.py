from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

import pyarrow as pa
import pytest

from lakesweep.cli.render.output import CommandFailure, ConsoleOutput, JsonOutput
from lakesweep.cli.render.text_table import TextTable
from lakesweep.errors import RefusedError
from lakesweep.progress import SILENT
from lakesweep.storage.file_batches import FILE_SCHEMA

_MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_TABLE = TextTable(
    ("kind", "files"), [("data", "1,000"), ("[red]", "2")], "Reached", frozenset({"files"})
)

Capture = pytest.CaptureFixture[str]


class Colour(StrEnum):
    RED = "red"


def _batches() -> Iterator[pa.RecordBatch]:
    for number in range(2):
        row = {"path": f"s3://lake/{number}", "size_bytes": 500, "modified": _MOMENT}
        yield pa.RecordBatch.from_pylist([row], schema=FILE_SCHEMA)


def test_json_is_one_document(capsys: Capture) -> None:
    JsonOutput(SILENT).result({"at": _MOMENT, "kind": Colour.RED, "n": None}, _TABLE)
    assert capsys.readouterr().out == '{"at":"2026-01-02T03:04:05Z","kind":"red","n":null}\n'


def test_people_get_the_tables(capsys: Capture) -> None:
    ConsoleOutput(SILENT).result({"n": 1}, _TABLE)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "Reached"
    assert [line.split() for line in lines if "data" in line or "red" in line] == [
        ["data", "1,000"],
        ["[red]", "2"],
    ]


def test_a_table_for_a_pipe_has_no_edge(capsys: Capture) -> None:
    long = "x" * 500
    ConsoleOutput(SILENT).result({}, TextTable(("path",), [(long,)]))
    assert long in capsys.readouterr().out


def test_json_files_are_lines(capsys: Capture) -> None:
    JsonOutput(SILENT).files(_batches())
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["path"] for line in lines] == ["s3://lake/0", "s3://lake/1"]
    assert list(json.loads(lines[0])) == ["path", "kind", "size_bytes", "modified", "etag"]


def test_people_get_files_and_their_sum(capsys: Capture) -> None:
    ConsoleOutput(SILENT).files(_batches())
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 2
    assert captured.err == "2 files, 1.0 kB\n"


def test_files_are_written_as_they_come(capsys: Capture) -> None:
    seen = []

    def watched() -> Iterator[pa.RecordBatch]:
        for batch in _batches():
            seen.append(capsys.readouterr().out.count("\n"))
            yield batch

    JsonOutput(SILENT).files(watched())
    assert seen == [0, 1]


def test_quiet_keeps_talk_away(capsys: Capture) -> None:
    output = ConsoleOutput(SILENT, quiet=True)
    output.say("hello")
    output.files(_batches())
    assert capsys.readouterr().err == ""


def test_details_are_for_those_who_ask(capsys: Capture) -> None:
    ConsoleOutput(SILENT).detail("no")
    ConsoleOutput(SILENT, verbose=True).detail("yes")
    assert capsys.readouterr().err == "yes\n"


def test_an_error_for_people_has_a_line_to_try(capsys: Capture) -> None:
    error = RefusedError("share", "too much would go", hint="lakesweep show 7")
    ConsoleOutput(SILENT, quiet=True).error(CommandFailure.of(error))
    assert capsys.readouterr().err == "error: too much would go\ntry: lakesweep show 7\n"


def test_an_error_for_programs_is_an_object(capsys: Capture) -> None:
    JsonOutput(SILENT).error(CommandFailure.of(RefusedError("share", "too much", hint="less")))
    assert json.loads(capsys.readouterr().err) == {
        "error": {"type": "RefusedError", "message": "too much", "hint": "less", "exit_code": 3}
    }


@dataclass(frozen=True, slots=True)
class Word:
    word: str

    def text(self) -> str:
        return f"the {self.word}"


def test_lines_for_programs_are_their_fields(capsys: Capture) -> None:
    JsonOutput(SILENT).lines([Word("a"), Word("b")])
    assert capsys.readouterr().out == '{"word":"a"}\n{"word":"b"}\n'


def test_lines_for_people_are_their_text_and_steer_no_terminal(capsys: Capture) -> None:
    ConsoleOutput(SILENT).lines([Word("a"), Word("\x1b[31mb")])
    assert capsys.readouterr().out == "the a\nthe \\x1b[31mb\n"


def test_lines_come_while_there_are_more(capsys: Capture) -> None:
    def lines() -> Iterator[Word]:
        yield Word("first")
        assert capsys.readouterr().out == '{"word":"first"}\n'

    JsonOutput(SILENT).lines(lines())
