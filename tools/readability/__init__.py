"""Measure how readable a checkout is, and find words that do not belong to it."""
