"""Explain why an object is kept or expires."""
