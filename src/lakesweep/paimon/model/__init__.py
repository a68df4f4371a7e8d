"""What a table is made of: schemas, snapshots, branches, layout, file kinds, warehouses."""
