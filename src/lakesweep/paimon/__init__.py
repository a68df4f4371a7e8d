"""Paimon tables: what they reference, their orphan files, expiry and partitions."""
