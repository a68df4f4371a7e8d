"""First steps: write a configuration, check the installation."""
