"""Tenants of the store: open, register, walk and purge them."""
