"""Read the ranges of all commits once, and cache their entries."""
