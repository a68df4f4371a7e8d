"""Commit a changed metadata document through any catalog."""
