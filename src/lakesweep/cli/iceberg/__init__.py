"""`lakesweep iceberg`: what a table or view references, and purging it."""
