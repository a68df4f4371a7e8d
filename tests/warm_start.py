"""What every command does at its start, done once in the process that commands are forked from.

It imports what commands import as they run, builds the tree of all commands, and loads what numba
needs before its first kernel. It opens no file and starts no thread, as neither survives a fork.
"""

from __future__ import annotations

import gc
import pkgutil
from contextlib import redirect_stdout
from importlib import import_module
from io import BytesIO, TextIOWrapper

from numba.core.registry import cpu_target

import lakesweep.cli
import lakesweep.operations
from lakesweep.cli.main import run


def _warm_up() -> None:
    for package in (lakesweep.cli, lakesweep.operations):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    with TextIOWrapper(BytesIO(), "utf-8") as nowhere, redirect_stdout(nowhere):
        run(["--version"])
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    gc.freeze()  # children need not traverse these objects, which would copy their pages


_warm_up()
