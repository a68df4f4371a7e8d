"""Folders of the local file system."""
