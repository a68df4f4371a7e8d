"""Start the Java side of a driver, and keep its output off the user's terminal."""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any

from py4j import java_gateway
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.pandas import functions as pandas_functions

from lakesweep.errors import SparkLostError, SparkSetupError
from lakesweep.no_pandas import without_pandas
from lakesweep.spark.error_translation import root_cause

#: It is untyped.
_launch_gateway: Callable[..., Any] = launch_gateway

_PY4J: str = java_gateway.__file__

#: pyspark reads the environment variables only.
_PYTHON = {
    "PYSPARK_PYTHON": "spark.pyspark.python",
    "PYSPARK_DRIVER_PYTHON": "spark.pyspark.driver.python",
}
_STOP_SECONDS = 120.0
PANDAS_CHECK = "require_minimum_pandas_version"
#: Where Java names the cause, before or between the lines of a trace.
_CAUSE = re.compile(r"Exception in thread|Caused by: |Error: |[\w.]+(Exception|Error): ")


@contextmanager
def running_driver(
    settings: Mapping[str, str],
    scratch: Path,
    *,
    verbose: bool,
    variables: Mapping[str, str],
    when_ended: Callable[[], None],
) -> Iterator[SparkSession]:
    """A session on a driver of its own with these settings; both end with the block.

    If `verbose`, Java writes to our stderr; otherwise to a file that is quoted if the start fails.
    `when_ended` is called once Java has exited cleanly by itself.
    """
    if SparkContext._active_spark_context is not None:  # noqa: SLF001
        raise SparkSetupError(
            "this process has a Spark session already", hint="pass that session instead"
        )
    log_path = scratch / "driver.log"
    with (
        nullcontext() if verbose else _hushing(),
        ExitStack() as ending,
        log_path.open("wb") as log,
    ):
        try:
            with _environment(_python(settings) | dict(variables)):
                gateway = _launch(settings, scratch, None if verbose else log)
                ending.callback(_end, gateway, when_ended)
                session = _start(settings)
        except (PySparkException, Py4JError) as error:
            raise _start_error(error, log_path) from error
        ending.callback(_stop, session)
        yield session


@contextmanager
def _hushing() -> Iterator[None]:
    """Suppress what py4j logs when calls to Java break off, as after Ctrl-C.

    It uses the root logger, which prints even if logging was never configured.
    """
    root = logging.getLogger()
    root.addFilter(_is_not_py4j)
    try:
        yield
    finally:
        root.removeFilter(_is_not_py4j)


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return record.pathname != _PY4J


def _launch(settings: Mapping[str, str], scratch: Path, stderr: IO[bytes] | None) -> Any:
    """The gateway to a new Java; None if pyspark already has one, which is kept."""
    if SparkContext._gateway is not None:  # noqa: SLF001
        return None
    # On the command line, every user of the machine could read the settings.
    path = scratch / "spark.properties"
    path.touch(mode=0o600)
    path.write_text("".join(map(_property, settings.items())), encoding="utf-8")
    asked = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    arguments = ["--load-spark-defaults", "--properties-file", str(path), *asked]
    with _environment({"PYSPARK_SUBMIT_ARGS": shlex.join(arguments)}):
        gateway = _launch_gateway(popen_kwargs={"stdout": subprocess.DEVNULL, "stderr": stderr})
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001
    return gateway


def _property(setting: tuple[str, str]) -> str:
    key, value = (text.replace("\\", "\\\\").replace("\n", "\\n") for text in setting)
    key = key.replace("=", "\\=").replace(":", "\\:").replace(" ", "\\ ")
    return f"{key}=\\{value}\n" if value.startswith((" ", "\t")) else f"{key}={value}\n"


def _start(settings: Mapping[str, str]) -> SparkSession:
    # pyspark would load pandas only to check its version.
    vars(pandas_functions)[PANDAS_CHECK] = _accept
    # This also imports what its own tests need, pandas included.
    with without_pandas():
        conf = SparkConf()
        conf.setAll(list(settings.items()))
        return SparkSession(SparkContext(conf=conf), options=dict(settings))


def _accept() -> None:
    """Accept any version of pandas."""


def _stop(session: SparkSession) -> None:
    # Problems at this point do not matter: the work is done, or has its own error.
    with suppress(PySparkException, Py4JError, OSError):
        session.stop()


def _end(gateway: Any, when_ended: Callable[[], None]) -> None:
    if gateway is None:
        return
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    gateway.proc.stdin.close()  # Java exits when the other end is closed
    try:
        if gateway.proc.wait(_STOP_SECONDS) == 0:
            when_ended()
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()


def _start_error(error: Exception, log: Path) -> SparkSetupError | SparkLostError:
    said = log.read_text(errors="replace").splitlines()
    causes = [line for line in said if _CAUSE.match(line)]
    cause = root_cause(causes[-1] if causes else str(error))
    if "masters are unresponsive" in str(error):
        return SparkLostError(f"Spark did not start: {cause}")
    return SparkSetupError(
        f"Spark did not start: {cause}", hint="check [spark] with doctor --spark"
    )


def _python(settings: Mapping[str, str]) -> dict[str, str]:
    """Executors must run the interpreter that has our libraries, unless the user chose one."""
    return {
        name: settings.get(setting, sys.executable)
        for name, setting in _PYTHON.items()
        if name not in os.environ
    }


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for processes started inside the block."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
