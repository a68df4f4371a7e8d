"""One adapter a database."""
