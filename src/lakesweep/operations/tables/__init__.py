"""Files and single tables: list, purge, expire, drop partitions, clean orphan files."""
