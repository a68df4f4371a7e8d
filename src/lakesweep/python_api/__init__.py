"""The Python API: one session over the operations, for notebooks, jobs and services."""
