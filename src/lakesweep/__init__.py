"""Lakesweep finds what nothing in a lakehouse references any more, and deletes it safely."""

__version__ = "0.1.0"
