"""Delete files in bulk, quarantine them, restore them."""
