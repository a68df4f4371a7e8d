"""Iceberg's REST protocol over the catalogs of the store."""
