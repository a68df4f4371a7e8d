"""List, drop and expire partitions."""
