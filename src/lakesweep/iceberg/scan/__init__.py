"""Which files a scan of a table has to read, decided from metadata alone."""
