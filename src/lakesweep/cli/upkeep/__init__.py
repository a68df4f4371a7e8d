"""Commands over the tables of a catalog or a lake."""
