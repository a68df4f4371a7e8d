"""The cache of a process, and how processes invalidate each other's caches."""
