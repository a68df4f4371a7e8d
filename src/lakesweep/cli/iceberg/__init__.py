"""`lakesweep iceberg`: what tables and views reach, purging them, and expiring snapshots."""
