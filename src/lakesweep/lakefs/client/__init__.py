"""Client of a lakeFS server: read, find staged changes, edit branches."""
