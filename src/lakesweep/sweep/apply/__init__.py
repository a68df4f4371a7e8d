"""Carry out a plan: recheck it, then delete or quarantine its files."""
