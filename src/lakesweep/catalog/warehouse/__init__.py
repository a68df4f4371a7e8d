"""A catalog of the store as an Iceberg warehouse: what clients of Iceberg's REST protocol ask."""
