"""Stores round other stores: retries, limits, and what tests need."""
