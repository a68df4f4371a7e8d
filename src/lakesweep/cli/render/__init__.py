"""What commands print: tables, lines and rows for people, JSON for programs."""
