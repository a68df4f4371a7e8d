"""Lakesweep finds the files that nothing in a lakehouse references any more, and deletes them.

The Python API is what `__all__` lists; see docs/python.md. Importing the package loads none of it:
each name is loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakesweep.version import __version__

if TYPE_CHECKING:
    from lakesweep.errors import LakesweepError
    from lakesweep.python_api.plan import Plan
    from lakesweep.python_api.session import Lakesweep, open  # noqa: A004
    from lakesweep.python_api.values import RowStream

__all__ = ["Lakesweep", "LakesweepError", "Plan", "RowStream", "__version__", "open"]

_HOMES = {
    "Lakesweep": "lakesweep.python_api.session",
    "LakesweepError": "lakesweep.errors",
    "Plan": "lakesweep.python_api.plan",
    "RowStream": "lakesweep.python_api.values",
    "open": "lakesweep.python_api.session",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
