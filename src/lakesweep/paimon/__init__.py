"""What a Paimon table reaches, and how to clean it."""
