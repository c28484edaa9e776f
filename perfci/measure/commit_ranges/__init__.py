"""Measure the commits of a range in rounds, screen neighbours, and confirm candidates."""
