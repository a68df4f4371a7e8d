"""The console: pages over the operations, for people with a browser."""
