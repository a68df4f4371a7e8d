"""Keep pyarrow from loading pandas.

Where pandas is installed, pyarrow imports it to check whether its input is a pandas column:
half a second and 40 MB in every process, for input that never occurs here. This is for our own
processes, whose pyarrow then finds no pandas at all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def disable_pandas() -> None:
    """Have pyarrow do without pandas, as soon as it is imported."""
    if "pyarrow" in sys.modules:
        _tell()
    else:
        sys.meta_path.insert(0, _Watch())


@contextmanager
def without_pandas() -> Iterator[None]:
    """Who looks for pandas inside the block finds none, unless it is loaded already."""
    absent = _PandasBlocker()
    sys.meta_path.insert(0, absent)
    try:
        yield
    finally:
        sys.meta_path.remove(absent)


class _Watch(MetaPathFinder):
    """Waits for pyarrow to be imported."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname != "pyarrow":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                _tell()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class _PandasBlocker(MetaPathFinder):
    """Finds no pandas."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)
        return None


def _tell() -> None:
    """Let pyarrow look for pandas once, which is how often it does, and not find it."""
    import pyarrow as pa

    with without_pandas():
        pa.array([""])
