"""What keeps files alive: tables, views, repositories and pinned lists, one module per kind."""
