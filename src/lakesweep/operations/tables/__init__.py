"""Files and single tables: list, purge, scan; expiries of Paimon tables, and their orphan files."""
