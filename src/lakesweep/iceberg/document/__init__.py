"""How the metadata document of a table or view changes. Pure functions: no files, no catalogs."""
