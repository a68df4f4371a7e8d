"""What a table references, and which of its snapshots, tags and changelogs do."""
