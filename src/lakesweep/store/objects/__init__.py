"""Immutable objects: their types, their links and their bytes in rows."""
