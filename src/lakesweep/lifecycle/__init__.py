"""Lifecycle policies over lakeFS repositories: what every applicable rule lets go."""
