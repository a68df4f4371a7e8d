from __future__ import annotations

from starlette.types import Message

from lakesweep.server.http.responses import AnswerWatch


async def _nowhere(message: Message) -> None:
    del message


def test_a_line_of_the_log_is_one_line_whoever_is_named_in_it() -> None:
    forged = "jane\n127.0.0.1 GET / 200 1 ms root\x1b[2K"
    watch = AnswerWatch(_nowhere, "GET", "/a\nb", forged, is_secure=False, caller=forged)
    line = watch.line()
    assert line.isprintable()
    assert line.count("jane\\n127.0.0.1") == 2
    assert "\n" not in watch.document("now")
