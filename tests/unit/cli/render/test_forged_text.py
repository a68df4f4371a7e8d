"""Names from outside cannot forge a line of ours, wherever they are printed."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from lakesweep.cli.render.output import CommandFailure, ConsoleOutput
from lakesweep.cli.render.text_table import TextTable
from lakesweep.clock import ManualClock
from lakesweep.config.file import config_from_values
from lakesweep.errors import ConfigError, RefusedError, UnreadableError
from lakesweep.progress import SILENT, LineProgress
from lakesweep.python_api.values import html_facts, html_table
from lakesweep.storage.file_batches import file_batch
from lakesweep.sweep.inspect.charts import safe_text
from lakesweep.untrusted.text import printable

_FORGED = "m0.avro\nerror: all is lost\ntry: rm -rf /\r\x1b[2J\u202e\u2028"
_OUTPUT = ConsoleOutput(SILENT, verbose=True)

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    "show",
    [
        lambda: _OUTPUT.say(_FORGED),
        lambda: _OUTPUT.detail(_FORGED),
        lambda: _OUTPUT.structs([_FORGED], str),
        lambda: _OUTPUT.structs([_FORGED], lambda name: [f"    {name}"]),
        lambda: _OUTPUT.files([file_batch("data", [(_FORGED, 1)])]),
        lambda: _OUTPUT.result({}, TextTable(("a",), [("b",)], _FORGED)),
        lambda: _OUTPUT.result({}, TextTable(("path",), [(_FORGED,)])),
        lambda: _OUTPUT.error(CommandFailure.of(UnreadableError(_FORGED, "missing", "gone"))),
        lambda: _OUTPUT.error(CommandFailure.of(RefusedError("share", "no", hint=_FORGED))),
    ],
)
def test_no_name_begins_a_line(capsys: Capture, show: Callable[[], None]) -> None:
    show()
    written = capsys.readouterr()
    text = written.out + written.err
    lines = text.split("\n")
    assert "m0.avro\\nerror: all is lost\\ntry:" in text
    assert not [line for line in lines if line.startswith(("error: all", "try: rm"))]
    assert not set(text) & set("\r\x1b\u202e\u2028")


def test_lines_of_our_own_stay_lines(capsys: Capture) -> None:
    error = RefusedError("share", ["2 guards said no", f"share: {_FORGED}", "grace: short"])
    _OUTPUT.error(CommandFailure.of(error))
    lines = capsys.readouterr().err.splitlines()
    assert [line[:6] for line in lines] == ["error:", "share:", "grace:", "try: r"]


def test_every_mistake_of_a_configuration_has_its_line() -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_values({"store": {"realm": 1}, "spark": {_FORGED: 2}})
    assert len(caught.value.lines) == 2


def test_a_log_shows_one_line_for_a_task() -> None:
    log, clock = io.StringIO(), ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    with LineProgress(log, clock=clock).task(_FORGED) as task:
        clock.sleep(9)
        task.advance(1)
    assert len(log.getvalue().splitlines()) == 1


@pytest.mark.parametrize(
    "page",
    [safe_text(_FORGED), html_table([_FORGED], [[_FORGED]]), html_facts([(_FORGED, _FORGED)])],
)
def test_a_page_hides_nothing(page: str) -> None:
    assert printable(_FORGED) in page
    assert page.isprintable()
