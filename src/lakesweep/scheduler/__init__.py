"""Runs jobs by themselves: schedules, due times that are claimed once, workers as processes."""
