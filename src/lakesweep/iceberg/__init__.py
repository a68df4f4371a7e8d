"""What an Iceberg table or view reaches, and how to purge it."""
