"""The store in a relational database: SQLite, PostgreSQL, MariaDB and MySQL."""
