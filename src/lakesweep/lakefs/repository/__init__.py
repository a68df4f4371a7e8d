"""Open a repository through its server or from its bucket alone."""
