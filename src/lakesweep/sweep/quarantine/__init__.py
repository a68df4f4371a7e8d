"""Restore quarantined files, or delete them for good."""
