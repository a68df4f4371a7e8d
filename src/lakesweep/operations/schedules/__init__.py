"""Use cases of schedules, and the commands that their jobs run."""
