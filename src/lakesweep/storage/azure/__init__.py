"""Azure Blob Storage, by its own REST interface."""
