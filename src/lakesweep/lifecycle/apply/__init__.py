"""Carry out a plan: lock the repository, remove expired paths from branches, delete."""
