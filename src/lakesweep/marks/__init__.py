"""What the table formats share when they are marked: levels, mark rows, unreadable files."""
