"""The store's own database: realms, transfer, maintenance, recovery, log."""
