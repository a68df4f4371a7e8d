"""The Spark session, data sources, and kernels that run on executors."""
