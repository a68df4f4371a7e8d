"""Commands over schedules, and the service."""
