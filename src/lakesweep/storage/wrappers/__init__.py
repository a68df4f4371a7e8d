"""Object stores that wrap another one: retries, rate limits, read-only, and test doubles."""
