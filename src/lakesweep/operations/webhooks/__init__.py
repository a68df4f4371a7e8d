"""Use cases of webhooks: deliver what happened, and try an address."""
