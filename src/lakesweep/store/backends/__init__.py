"""One adapter per database, and the contract they all pass."""
