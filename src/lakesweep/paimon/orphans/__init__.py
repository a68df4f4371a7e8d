"""Find orphan files of tables in one process."""
