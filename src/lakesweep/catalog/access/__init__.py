"""Who may do what in a realm: decisions over grants, a first principal, tokens of the service."""
