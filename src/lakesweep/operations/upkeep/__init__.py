"""Upkeep of Iceberg tables: expire, rewrite, trim, by policies, at once or by stored plans."""
