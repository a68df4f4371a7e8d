"""Google Cloud Storage, by its own JSON interface."""
