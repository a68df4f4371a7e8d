"""Find and delete orphan files of tables, in one process."""
