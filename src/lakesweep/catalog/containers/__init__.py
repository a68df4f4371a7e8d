"""How a container of entities is stored: its indexes, batches of changes, and readers of it."""
