"""List whole locations in parallel, read inventories, filter files."""
