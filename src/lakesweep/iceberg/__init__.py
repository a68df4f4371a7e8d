"""Iceberg tables and views: metadata, manifests, the files they reach, catalogs, purge."""
