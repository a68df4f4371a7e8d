"""Mark and sweep over whole lakes: find files that no root references, plan, delete."""
