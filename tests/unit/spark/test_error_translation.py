from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from lakesweep.errors import (
    DeniedError,
    LakesweepError,
    NotFoundError,
    RefusedError,
    SparkJobError,
    SparkLostError,
    StorageError,
    ThrottledError,
    UnreadableError,
)
from lakesweep.spark.error_translation import (
    TaskError,
    from_text,
    root_cause,
    tagging_errors,
    to_text,
    translate,
    translating,
)

TRACE = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/x/kernel.py", line 11, in boom
    raise {0}
          ^^^
{0}
 SQLSTATE: 38000

JVM stacktrace:
org.apache.spark.sql.AnalysisException
	at org.apache.spark.sql.Thing.go(Thing.scala:1)
"""
LOST = (
    "An error occurred while calling o82.collectToPython.\n: org.apache.spark.SparkException: "
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: "
    "Lost task 0.0 in stage 1.0 (TID 2) (192.0.2.2 executor driver): "
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider this.\n"
    "\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:1136)\n"
    "Caused by: java.io.EOFException\n\tat java.base/java.io.DataInputStream\n"
)


@pytest.mark.parametrize(
    "error",
    [
        StorageError("s3://b/é\n\u2028\"'{}", "said: 50 % $x", hint="try \\n this"),
        DeniedError("s3://b/k", "no"),
        ThrottledError("s3://b/k", "slow down", retry_after=2.5),
        UnreadableError("s3://b/k", "damaged", "it is"),
        RefusedError("share", "too much"),
        NotFoundError("not there"),
    ],
)
def test_an_error_comes_out_as_it_went_in(error: LakesweepError) -> None:
    found = from_text(
        TRACE.format(f"lakesweep.spark.error_translation.TaskError: {to_text(error)}")
    )
    assert type(found) is type(error)
    assert vars(found) == vars(error)
    assert str(found) == str(error)


def test_the_text_of_an_error_is_one_line_of_ascii() -> None:
    text = to_text(StorageError("s3://b/é\n", "\u2028"))
    assert text.isascii()
    assert len(text.splitlines()) == 1


def test_a_text_that_was_cut_short_holds_no_error() -> None:
    assert from_text(to_text(StorageError("s3://b/k", "no"))[:-5]) is None


def test_an_error_is_found_behind_one_that_was_cut_short() -> None:
    whole = to_text(StorageError("s3://b/k", "no"))
    assert isinstance(from_text(whole[:20] + "... " + whole), StorageError)


def test_a_class_that_this_version_does_not_have_is_still_an_error() -> None:
    text = to_text(StorageError("s3://b/k", "no")).replace("StorageError", "LaterError")
    assert type(from_text(text)) is LakesweepError


def test_a_task_marks_errors_of_ours() -> None:
    with pytest.raises(TaskError, match="lakesweep-error:"), tagging_errors():
        raise NotFoundError("nothing there")


def test_a_task_leaves_other_errors_alone() -> None:
    with pytest.raises(ZeroDivisionError), tagging_errors():
        raise ZeroDivisionError


def test_the_driver_raises_what_the_task_raised() -> None:
    with pytest.raises(NotFoundError, match="nothing there"), translating():
        raise PySparkException(to_text(NotFoundError("nothing there")))


def test_what_spark_said_stays_as_the_cause() -> None:
    with pytest.raises(SparkJobError) as caught, translating():
        raise PySparkException(TRACE.format("ValueError: boom"))
    assert "kernel.py" in str(caught.value.__cause__)


def test_another_error_of_a_task_is_told_by_its_last_line() -> None:
    found = translate(PySparkException(TRACE.format("ValueError: boom")))
    assert (type(found), found.exit_code) == (SparkJobError, 1)
    assert found.message == "a job failed inside Spark: ValueError: boom"


def test_a_lost_worker_may_be_tried_again() -> None:
    found = translate(PySparkException(LOST))
    assert (type(found), found.exit_code) == (SparkLostError, 4)
    assert "Python worker exited unexpectedly (crashed)" in found.message


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL ==\nselect 1/0\n", "["),
        (LOST, "Python worker exited unexpectedly (crashed). Consider this."),
        ("Caused by: java.io.IOException: No space left on device", "No space left on device"),
        (TRACE.format("pkg.Error: {'a': 1}"), "pkg.Error: {'a': 1}"),
        ("", ""),
    ],
)
def test_the_cause_is_one_line(text: str, cause: str) -> None:
    found = root_cause(text)
    assert found.startswith(cause)
    assert len(found.splitlines()) <= 1
    assert "SQLSTATE" not in found
