"""What Lakesweep remembers: objects, references, commits, indexes, ids, in any database."""
