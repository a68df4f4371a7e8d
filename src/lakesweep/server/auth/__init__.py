"""Who calls the service, and what they may do."""
