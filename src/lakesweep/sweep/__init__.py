"""Mark and sweep over whole lakes: what is listed, what is referenced, and what may go."""
