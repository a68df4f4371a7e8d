"""Make plans, store them, expire old ones."""
