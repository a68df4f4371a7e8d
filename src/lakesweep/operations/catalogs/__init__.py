"""Catalogs of a realm: entities, policies, principals, roles and grants."""
