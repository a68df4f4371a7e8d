"""Where the steps of a sweep run: in this process or on Spark."""
