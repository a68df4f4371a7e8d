"""What every request goes through: limits, headers, problem documents, the log."""
