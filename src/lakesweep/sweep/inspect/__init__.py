"""Explain a verdict, render a plan as a page, check a lake for missing files."""
