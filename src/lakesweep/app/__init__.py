"""All wiring: configuration in, components out."""

from __future__ import annotations

from lakesweep.app.app import JOB_VARIABLE, App

__all__ = ["JOB_VARIABLE", "App"]
