"""Commits, branches and tags, and the dumps they are read from."""
