"""Read lakeFS repositories: commits, branches, tags, ranges and staged entries."""
