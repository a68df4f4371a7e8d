"""`lakesweep lifecycle`: policies over lakeFS repositories."""
