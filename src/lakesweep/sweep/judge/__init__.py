"""Give each listed file a verdict and a reason."""
