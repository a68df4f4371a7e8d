"""What a process caches of the database, and how processes invalidate each other's caches."""
