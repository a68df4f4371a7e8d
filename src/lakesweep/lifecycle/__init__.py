"""Lifecycle policies over lakeFS repositories: expire what every applicable rule allows."""
