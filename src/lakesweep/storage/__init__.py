"""Objects in buckets and folders: list, read, write, delete."""
