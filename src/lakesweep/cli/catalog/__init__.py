"""`lakesweep catalog`: namespaces, tables, views, policies and grants of a realm."""
