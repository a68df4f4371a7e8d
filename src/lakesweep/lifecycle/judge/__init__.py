"""Decide for every address whether the policy expires it, and why."""
