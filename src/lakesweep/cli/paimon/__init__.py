"""`lakesweep paimon`: what a table references, orphan files, expiry and partitions."""
