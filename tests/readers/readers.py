"""Independent readers of Paimon tables, each a program in an environment of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

#: The rows of each table's snapshots and tags, in a stable order.
Rows: TypeAlias = Mapping[str, Mapping[str, list[Mapping[str, str]]]]

_PROJECT = Path(__file__).parents[2]
_FOLDER = _PROJECT / ".paimon-readers"
_PROGRAMS = Path(__file__).parent / "programs"
_SECONDS = 280


def pypaimon_rows(warehouse: Path, tables: Iterable[str]) -> Rows:
    """What pypaimon reads."""
    return _run("pypaimon", "pypaimon_rows.py", str(warehouse), *tables)


def pypaimon_tables(warehouse: Path, outside: Path) -> list[str]:
    """Tables of many kinds that pypaimon writes, with some files outside of them."""
    return list(_answer("pypaimon", "pypaimon_writes.py", str(warehouse), str(outside)))


def spark_rows(warehouse: Path, tables: Iterable[str], statements: str = "") -> Rows:
    """What Java reads on Spark, after it has run some statements."""
    (jar,) = (_FOLDER / "jars").glob("*.jar")
    return _run("spark", "spark_rows.py", str(jar), str(warehouse), statements, *tables)


def java_rows(warehouse: Path, tables: Iterable[str]) -> Rows:
    """What a newer Java reads, without Spark; it needs a Hadoop, which is Spark's."""
    return _sorted(_last_line(["java", *_java_words("JavaRows"), str(warehouse), *tables]))


def _java_words(program: str) -> list[str]:
    hadoop = next((_FOLDER / "spark").glob("lib/*/site-packages/pyspark/jars"))
    return ["-cp", f"{_FOLDER}/bundle/*:{hadoop}/*", str(_PROGRAMS / f"{program}.java")]


def _run(environment: str, program: str, *words: str) -> Rows:
    return _sorted(_answer(environment, program, *words))


def _sorted(found: Mapping[str, Mapping[str, list[Mapping[str, str]]]]) -> Rows:
    return {
        table: {owner: sorted(rows, key=json.dumps) for owner, rows in owners.items()}
        for table, owners in found.items()
    }


def _answer(environment: str, program: str, *words: str) -> Any:
    python = _FOLDER / environment / "bin" / "python"
    assert python.exists(), "scripts/setup-paimon-readers has not been run"
    return _last_line([str(python), str(_PROGRAMS / program), *words])


def _last_line(command: list[str]) -> Any:
    """What a program prints last, which is JSON."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_SECONDS, check=False, cwd=_FOLDER
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])
