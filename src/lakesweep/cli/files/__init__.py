"""`lakesweep files`: list and purge stored files."""
