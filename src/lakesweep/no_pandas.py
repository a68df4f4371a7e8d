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
    """Make pyarrow work without pandas, as soon as it is imported."""
    if "pyarrow" in sys.modules:
        _check_without_pandas()
    else:
        sys.meta_path.insert(0, _Watch())


@contextmanager
def without_pandas() -> Iterator[None]:
    """Inside the block, pandas cannot be imported, unless it already is."""
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
        # Removed first, or find_spec below would call itself.
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                _check_without_pandas()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class _PandasBlocker(MetaPathFinder):
    """Hides pandas."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)
        return None


def _check_without_pandas() -> None:
    """Make pyarrow do its one check for pandas now, and not find it."""
    import pyarrow as pa

    with without_pandas():
        pa.array([""])
