"""Whole lakes and repositories: plan, show, explain, apply, check, quarantine, runs."""
