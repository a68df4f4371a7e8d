"""Keeps the store's own database small: finds what nothing leads to, and deletes it."""
