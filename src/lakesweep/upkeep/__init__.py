"""Upkeep of Iceberg tables in place: what their history holds, and what of it may expire."""
