"""Spark: the session, the data sources, and kernels that run on executors."""
