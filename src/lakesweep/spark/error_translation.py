"""Translate failures inside Spark into our own errors.

An error raised on an executor reaches the driver only as text inside Python and Java stack
traces. So it is encoded in a form that can be found again: a tag followed by JSON. A failure
without the tag is Spark's own, and is reported by the line that names its cause.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from lakesweep import errors
from lakesweep.errors import LakesweepError, SparkJobError, SparkLostError

_MARK = "lakesweep-error:"

#: What Spark reports if one of its processes died. The same work may succeed later.
_LOST = re.compile(
    r"Python worker exited unexpectedly|ExecutorLostFailure|Executor heartbeat timed out"
    r"|All masters are unresponsive|Master removed our application|SparkContext was shut down"
    r"|StatusCode\.UNAVAILABLE|RETRIES_EXCEEDED|INVALID_HANDLE|SESSION_CLOSED"
    r"|error while trying to connect to the Java server|Answer from Java side is empty"
    r"|Error while sending or receiving"
)
_TRACE = "Traceback (most recent call last):"
_NOISE = re.compile(
    r"^Exception in thread \"\w+\" |^Caused by: |^Error: "
    r"|^Job aborted due to stage failure: (?:.*?most recent failure: )?"
    r"|^Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): "
    r"|^(?:[a-z]\w*\.)+\w+(?:Exception|Error): "
    r"|^An error occurred while calling \S+\s*: "
)
_STATE = re.compile(r"\s*SQLSTATE: \w+.*$", re.DOTALL)


class TaskError(Exception):
    """One of our errors on its way from an executor to the driver."""


class SparkFailure(Exception):  # noqa: N818
    """The full text of a failure. Spark's own exceptions lose it once Spark has stopped."""


@contextmanager
def tagging_errors() -> Iterator[None]:
    """On an executor: tag our errors so that the driver can find them."""
    try:
        yield
    except LakesweepError as error:
        raise TaskError(to_text(error)) from None


@contextmanager
def translating() -> Iterator[None]:
    """On the driver: raise the failure of a job as one of our errors."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        told = SparkFailure(str(error)).with_traceback(error.__traceback__)
        raise translate(error) from told


def translate(error: Exception) -> LakesweepError:
    """The error of ours that a failure of Spark stands for."""
    text = str(error)
    found = from_text(text)
    if found is not None:
        return found
    cause = root_cause(text) or type(error).__name__
    if _LOST.search(text):
        return SparkLostError(f"Spark lost one of its processes: {cause}")
    return SparkJobError(f"a job failed inside Spark: {cause}")


def to_text(error: LakesweepError) -> str:
    """An error as one line of ASCII that `from_text` finds inside any other text."""
    return _MARK + json.dumps({"type": type(error).__name__, "values": vars(error)}, default=str)


def from_text(text: str) -> LakesweepError | None:
    """The first complete error in a text, or None."""
    start = text.find(_MARK)
    if start < 0:
        return None
    try:
        document, _ = json.JSONDecoder().raw_decode(text, start + len(_MARK))
    except json.JSONDecodeError:
        return from_text(text[start + len(_MARK) :])
    kind = getattr(errors, document["type"], LakesweepError)
    error: LakesweepError = kind.__new__(kind, document["values"]["message"])
    values = document["values"].items()
    # JSON has lists only; all sequences of errors are tuples.
    vars(error).update({k: tuple(v) if isinstance(v, list) else v for k, v in values})
    return error


def root_cause(text: str) -> str:
    """The one line of a failure that names its cause."""
    if _TRACE in text:
        return _end_of_trace(text.rpartition(_TRACE)[2])
    line = text.strip()
    while (shorter := _NOISE.sub("", line, count=1)) != line:
        line = shorter
    return _STATE.sub("", line.partition("\n\tat ")[0].strip().partition("\n")[0])


def _end_of_trace(trace: str) -> str:
    """The line after the frames of a Python trace, which names the exception."""
    lines = [line for line in trace.splitlines() if line and not line[0].isspace()]
    return lines[0] if lines else ""
