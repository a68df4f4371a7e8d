"""The commands over whole lakes: plan, show, explain, apply, check, quarantine, runs."""
