"""References and the commits that move them: commit, read the log, recover."""
