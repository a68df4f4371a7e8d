"""Make a plan: list the objects, judge them, check for concurrent changes, write it down."""
