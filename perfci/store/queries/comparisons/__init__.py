"""Queries of comparisons: verdicts between two commits, levels of two sides, pull requests."""
