"""List, read, write and delete objects in buckets and local folders."""
