"""The HTTP API: one table of routes, and a handler for each."""
