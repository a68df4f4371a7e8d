"""Mark and sweep over whole lakes: roots, live set, verdicts, plans, apply."""
