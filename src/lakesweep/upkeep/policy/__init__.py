"""Which upkeep rules are in force for a table, and where each comes from."""
