"""`lakesweep store` and `lakesweep realm`: the store's own database and its tenants."""
