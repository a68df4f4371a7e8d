"""What lakeFS repositories hold: commits, branches, tags, ranges and staged entries."""
