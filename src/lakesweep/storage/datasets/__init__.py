"""Rows on disk or in a bucket: committed Parquet datasets, spools, deduplication."""
